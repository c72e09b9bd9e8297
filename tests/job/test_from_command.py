"""Command lines of launchers, read as what a job file says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rsctl.findings import ExitCode, RsctlError
from rsctl.job.command_text import job_text
from rsctl.job.document import read
from rsctl.job.from_command import read_command
from rsctl.job.launcher_options import Launched


def read_line(line: str) -> Launched:
    return read_command(line.split())


def program(kind: str, *words: str, nodes: int = 1, processes: int | str = 1) -> Launched:
    return Launched(kind, list(words), nodes, 0 if processes == "auto" else int(processes))


def same(found: Launched, expected: Launched) -> bool:
    """Whether they start the same; env, keys and remarks are another matter."""
    return found[:4] == expected[:4]


@pytest.mark.parametrize(
    ("line", "nodes", "processes"),
    [
        ("train.py --lr 1", 1, 1),
        ("python train.py --lr 1", 1, 1),
        ("/usr/bin/python3.11 -u -O -B train.py --lr 1", 1, 1),
        ("torchrun train.py --lr 1", 1, 1),
        ("/opt/bin/torchrun --nproc-per-node=4 train.py --lr 1", 1, 4),
        ("torchrun --nproc_per_node 4 --nnodes 2 train.py --lr 1", 2, 4),
        ("torchrun --nnodes=1:3 --nproc-per-node gpu train.py --lr 1", 3, "auto"),
        ("torchrun --nnodes=$N --nproc-per-node=0 train.py --lr 1", 1, "auto"),
        ("torchrun --nnodes 0 --standalone --rdzv-backend c10d train.py --lr 1", 1, 1),
        ("torchrun --run-path train.py --lr 1", 1, 1),
        ("python -m torch.distributed.run --nnodes 2 train.py --lr 1", 2, 1),
        ("python3 -u -m torch.distributed.launch --nproc_per_node=8 train.py --lr 1", 1, 8),
        ("accelerate launch train.py --lr 1", 1, "auto"),
        ("accelerate launch --cpu train.py --lr 1", 1, 1),
        ("accelerate launch --multi_gpu train.py --lr 1", 1, "auto"),
        ("accelerate launch --num_processes 8 --num-machines=2 train.py --lr 1", 2, 4),
        ("accelerate launch --num_machines 2 train.py --lr 1", 2, "auto"),
        ("python -m accelerate.commands.launch --num_processes 1 train.py --lr 1", 1, 1),
        ("deepspeed --no_local_rank train.py --lr 1", 1, "auto"),
        ("deepspeed --no_local_rank --num_nodes 3 --num_gpus=8 train.py --lr 1", 3, 8),
        ("deepspeed --no_local_rank --num_accelerators 2 train.py --lr 1", 1, 2),
    ],
)
def test_a_script_with_its_nodes_and_ranks(line: str, nodes: int, processes: int | str) -> None:
    expected = program("script", "train.py", "--lr", "1", nodes=nodes, processes=processes)
    assert same(read_line(line), expected)


@pytest.mark.parametrize(
    "line",
    [
        "python -m pkg.train -m x",
        "torchrun -m pkg.train -m x",
        "torchrun --module pkg.train -m x",
        "python -m torch.distributed.run -m pkg.train -m x",
        "accelerate launch --num_processes 1 -m pkg.train -m x",
        "accelerate launch --cpu --module --quiet pkg.train -m x",
    ],
)
def test_a_module(line: str) -> None:
    assert same(read_line(line), program("module", "pkg.train", "-m", "x"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bash run.sh", "'bash run.sh' does not start a script in a way that rsctl supports"),
        ("python", "python does not start a script"),
        ("python -m", "python -m requires a module"),
        ("python train", "'python train' does not start a script"),
        ("torchrun --nnodes 2", "torchrun does not start a script"),
        ("torchrun --nnodes", "torchrun: --nnodes requires a value"),
        ("accelerate launch run.sh", "'accelerate launch run.sh' does not start a script"),
        ("accelerate test x.py", "'accelerate test x.py' does not start a script"),
        ("a b c d e f g h", "'a b c d e f' does not start a script"),
        ("accelerate launch -q", "accelerate launch does not start a script"),
        ("accelerate launch --tpu x.py", "accelerate launch: rsctl does not know its option --tpu"),
        ("deepspeed --autotuning=run x.py", "deepspeed: rsctl does not know its option --auto"),
        ("deepspeed --num_gpus", "deepspeed: --num_gpus requires a value"),
        (
            "accelerate launch --num_processes 3 --num_machines 2 x.py",
            "accelerate launch: 3 processes are not divisible by 2 nodes",
        ),
        ("accelerate launch --config_file none.yaml x.py", "accelerate launch: cannot read none"),
    ],
)
def test_what_cannot_be_said_is_an_error_with_a_remedy(line: str, message: str) -> None:
    with pytest.raises(RsctlError) as caught:
        read_line(line)
    assert caught.value.exit_code == ExitCode.USAGE
    [finding] = caught.value.findings
    assert finding.message.startswith(message)
    assert finding.remedy


def test_what_accelerate_would_set_is_in_the_environment() -> None:
    options = "--mixed_precision bf16 --gradient_accumulation_steps 4 --cpu"
    options += " --num_cpu_threads_per_process=2 -t 3"
    found = read_line(f"accelerate launch {options} train.py")
    assert found.env == {
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "2",
    }


@pytest.mark.parametrize(
    ("config", "nodes", "processes", "env"),
    [
        ("distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2", 2, 2, {}),
        ("distributed_type: MULTI_GPU", 1, "auto", {}),
        ("distributed_type: NO\nmixed_precision: no", 1, 1, {"MIXED_PRECISION": "no"}),
        ("mixed_precision: fp16\nuse_cpu: true", 1, 1, {"MIXED_PRECISION": "fp16"}),
        ("use_cpu: false", 1, 1, {}),
        ("[]", 1, 1, {}),
    ],
)
def test_a_configuration_of_accelerate(
    tmp_path: Path, config: str, nodes: int, processes: int | str, env: dict[str, str]
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(config)
    found = read_line(f"accelerate launch --config_file {path} train.py")
    assert (found.nodes, found.processes or "auto") == (nodes, processes)
    is_cpu = {"ACCELERATE_USE_CPU": "true"} if "use_cpu: true" in config else {}
    assert found.env == {f"ACCELERATE_{name}": value for name, value in env.items()} | is_cpu
    over = read_line(f"accelerate launch --config_file {path} --num_machines 1 train.py")
    assert over.nodes == 1  # what the command line says counts


@pytest.mark.parametrize("config", ["distributed_type: XLA", "a: [", "\x00"])
def test_a_configuration_that_has_no_counterpart(tmp_path: Path, config: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(config)
    with pytest.raises(RsctlError) as caught:
        read_line(f"accelerate launch --config_file {path} train.py")
    assert str(path) in caught.value.findings[0].message


LOCAL_RANK = "deepspeed passes --local_rank=N to the script; rsctl sets LOCAL_RANK instead"


@pytest.mark.parametrize(
    ("hosts", "options", "nodes", "processes", "remarks"),
    [
        ("a slots=4\nb slots=4  # second\n", "", 2, 4, 0),
        ("a slots=4\nb slots=4\n", "--num_nodes 1 --num_gpus 2", 1, 2, 0),
        ("a slots=4\nb slots=2\n", "", 1, "auto", 1),
        ("# none\n", "", 1, "auto", 1),
        ("a slots=4\nb slots=4\n", "-i a:0,1", 1, "auto", 2),
        ("a slots=4\n", "--exclude a", 1, "auto", 2),
    ],
)
def test_nodes_and_ranks_of_a_hostfile(
    tmp_path: Path, hosts: str, options: str, nodes: int, processes: int | str, remarks: int
) -> None:
    """If all have as many; what it says more is a remark."""
    path = tmp_path / "hosts"
    path.write_text(hosts)
    found = read_line(f"deepspeed -H {path} {options} train.py")
    assert (found.nodes, found.processes or "auto") == (nodes, processes)
    assert found.remarks[0] == LOCAL_RANK
    assert len(found.remarks) == 1 + remarks
    if remarks:
        assert f"--hostfile {path}: set workers.count and processes accordingly" in found.remarks


TEXT = """\
# a remark
name: my-job
target: process                 # or compose, slurm, sagemaker, vertex; --target overrides it

image:                          # `process` uses your Python environment instead
  base: pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
  python: requirements.txt
  source: .                     # this folder becomes /app in the image

run:
  script: train.py
  args:
    lr: '1e-3'
    epochs: 3
    fast: true
  # launcher: once              # if the script starts its ranks, or needs no RANK
  env:
    OMP_NUM_THREADS: '2'

workers:
  count: 2                      # nodes
  processes: auto               # ranks on each; auto: one per accelerator, or 1
  # accelerator: l4:1           # GPUs on each node; absent: CPU

# metrics:                      # numbers to read from the log
#   loss: {regex: 'loss=([0-9.eE+-]+)', goal: min}
"""


def test_the_text_of_a_job_file(tmp_path: Path) -> None:
    folder = tmp_path / "My_Job"
    folder.mkdir()
    arguments = ["--lr", "1e-3", "--epochs", "3", "--fast"]
    env = {"OMP_NUM_THREADS": "2"}
    command = Launched("script", ["train.py", *arguments], 2, 0, env, {}, ("a remark",))
    (folder / "requirements.txt").touch()
    assert job_text(command, folder) == TEXT
    (folder / "requirements.txt").unlink()
    bare = job_text(program("module", "pkg.train", processes=4), folder)
    assert "  # python: requirements.txt\n" in bare
    assert "run:\n  module: pkg.train\n  # launcher: once" in bare
    assert "  processes: 4 " in bare
    assert "  # accelerator: l4:4           # GPUs on each node; absent: CPU\n" in bare


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("a" * 60, "a" * 40),
        ("123", "job"),
        ("--", "job"),
        ("é", "job"),
        ("a.b c", "a-b-c"),
        (f".{'a' * 39} b", "a" * 39),
    ],
)
def test_a_job_is_named_after_its_folder(tmp_path: Path, folder: str, name: str) -> None:
    (tmp_path / folder).mkdir()
    text = job_text(program("script", "a.py"), tmp_path / folder)
    assert yaml.safe_load(text)["name"] == name


ARGUMENTS = st.lists(
    st.one_of(
        st.sampled_from(["--a", "--b-c", "--a=1", "-x", "0", "007", "yes", "null", "${A}", "-1"]),
        st.text(st.characters(exclude_categories=["C", "Z"]), max_size=8),
        st.integers(0, 10**9).map(str),
    ),
    max_size=6,
)


@given(ARGUMENTS)
def test_a_script_gets_the_very_same_arguments(arguments: list[str]) -> None:
    """As a mapping where that says the same, else as a list."""
    folder = Path(__file__).parent
    text = job_text(program("script", "conftest.py", *arguments), folder)
    given = yaml.safe_load(text)["run"].get("args", [])
    if isinstance(given, dict):
        words = [
            word
            for name, value in given.items()
            for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
        ]
    else:
        words = [str(value).replace("$${", "${") for value in given]
    assert [word.replace("$${", "${") for word in words] == arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--a", "1", "--b"], {"a": 1, "b": True}),
        (["--a", "0", "--b", "01"], {"a": 0, "b": "01"}),
        (["--a", "1234567890"], {"a": "1234567890"}),
        (["--a", "x", "y"], ["--a", "x", "y"]),
        (["--a", "--a"], ["--a", "--a"]),
        (["x"], ["x"]),
        (["-a", "1"], ["-a", "1"]),
        (["--a", "-1"], ["--a", "-1"]),
        (["--1", "1"], ["--1", "1"]),
    ],
)
def test_arguments_are_a_mapping_where_it_says_the_same(
    tmp_path: Path, arguments: list[str], expected: object
) -> None:
    (tmp_path / "job.yaml").write_text(job_text(program("script", "t.py", *arguments), tmp_path))
    (tmp_path / "t.py").touch()
    job = read(str(tmp_path / "job.yaml"), ()).job
    assert job is not None
    assert job.run.args == expected


@pytest.mark.parametrize("line", ["python -m train.py", "torchrun -m pkg.train.py --lr 1"])
def test_a_file_in_place_of_a_module(line: str) -> None:
    with pytest.raises(RsctlError) as caught:
        read_line(line)
    (finding,) = caught.value.findings
    assert finding.message.endswith("train.py is the name of a file, not of a module")
    assert finding.remedy == "give the file without -m, or a module's name"


def test_an_operator_of_a_shell_is_an_argument() -> None:
    launched = read_command(["python", "train.py", "<", "data.txt", ">", "log"])
    assert launched.words == ["train.py", "<", "data.txt", ">", "log"]
    remark = "< is an argument here: a job file starts the script without a shell"
    assert launched.remarks == (remark,)
