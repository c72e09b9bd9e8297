"""Launchers in a command that find each other, and what only looks like a launcher."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.job.document import read

MEETING = ["--rdzv-backend=c10d", "--rdzv-endpoint=head:29400"]


@pytest.mark.parametrize(
    "words",
    [
        ["torchrun", "--nnodes=2", *MEETING, "train.py"],
        ["torchrun", "--nnodes", "1:4", *MEETING, "-m", "train"],
        ["bash", "-c", "torchrun --nnodes=$NNODES --node-rank=$NODE_RANK train.py"],
        ["accelerate", "launch", "--config_file", "absent.yaml", "train.py"],
        ["sh", "-ec", "accelerate launch --num_machines 2 --machine_rank $NODE_RANK train.py"],
        ["deepspeed", "--hostfile", "/hosts", "train.py"],
        ["mpirun", "-H", "a:2,b:2", "python", "train.py"],
        ["colossalai", "run", "-H", "a,b", "--nproc_per_node", "2", "train.py"],
        ["python", "train.py", "--launcher", "torchrun"],
        ["bash", "-c", "echo 'not closed"],
        ["bash", "-c", "pip install deepspeed && torchrun $OPTIONS train.py"],
        ["python", "-m", "pkg.torchrun"],
        ["python", "-m", "lightning", "fit", "--trainer.strategy", "deepspeed"],
        ["python", "train", "--strategy", "deepspeed"],
        ["pretrain", "--strategy", "deepspeed"],
        ["nsys", "profile", "python", "-m", "pkg.train", "--optimizer", "deepspeed"],
        ["bash", "-c", "python -m pip install deepspeed && python train.py"],
        ["bash", "-c", "apptainer exec a.sif pip install deepspeed; python -m pkg.train"],
        ["bash", "-c", "torchrun --version; deepspeed --help; python -m pkg.train"],
        ["bash", "-c", "command -v deepspeed || pip install deepspeed; python -m pkg.train"],
    ],
)
def test_what_may_be_right_passes(read_text: Any, words: list[str]) -> None:
    text = f"name: j\nrun: {{command: {json.dumps(words)}, launcher: once}}\n"
    text += "workers: {count: 2}\n"
    assert [each.message for each in read_text(text).findings if each.is_error] == []


def test_arguments_of_a_module_are_not_launchers(read_text: Any) -> None:
    text = "name: j\nworkers: {count: 2}\n"
    text += "run: {module: pkg.train, args: [--strategy, deepspeed]}\n"
    assert read_text(text).findings == []


def test_one_node_may_use_its_own_launcher(read_text: Any) -> None:
    text = "name: j\nrun: {command: [torchrun, --nproc-per-node, '2', train.py], launcher: once}\n"
    assert read_text(text).findings == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            "num_machines: 1\n",
            "accelerate launch starts ranks on one node and the job has 2 nodes: each would train "
            "separately",
        ),
        (
            "{num_machines: 2, machine_rank: 0}\n",
            "accelerate launch has --machine_rank 0 and the job has 2 nodes: all would wait as "
            "node 0",
        ),
    ],
)
def test_the_file_of_accelerate_config(
    read_text: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.yaml").write_text(config)
    text = "name: j\nworkers: {count: 2}\nrun:\n  launcher: once\n"
    text += "  command: [accelerate, launch, --config_file=nodes.yaml, train.py]\n"
    assert [each.message for each in read_text(text).findings if each.is_error] == [message]


SEPARATE = "torchrun in dist.sh starts ranks on one node and the job has 2 nodes: each would train "
SEPARATE += "separately"


def errors(read_text: Any, run: str, processes: int = 1) -> list[tuple[str | None, str, str]]:
    text = f"name: j\nrun: {run}\nworkers: {{count: 2, processes: {processes}}}\n"
    text += "image: {uri: a/b, source: src}\n"
    found = read_text(text).findings
    return [(each.path, each.message, each.remedy or "") for each in found if each.is_error]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path / "src"


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc_per_node 2 train.py",
        "#!/bin/bash\nset -e\n# it's torchrun\npip install deepspeed\n"
        'A=1 exec torchrun \\\n  --nproc_per_node=2 train.py "$@" > log 2>&1\n',
        "if true; then\n  uv run torchrun --nproc_per_node $(nproc --all) train.py; fi",
        'CMD="torchrun --nproc_per_node 2 train.py"\n$CMD > log',
        'export ARGS="--nproc_per_node 2"; CMD="torchrun $ARGS train.py"; eval "$CMD"',
        'ARGS=(\n  --nproc_per_node 2 # all\n  --standalone\n)\ntorchrun "${ARGS[@]}" train.py',
        'CMD=(torchrun --nproc_per_node 2)\nexec "${CMD[@]}" train.py',
        "function train { torchrun --nproc_per_node 2 train.py; }; train",
        'train() {\n  torchrun --nproc_per_node 2 train.py "$@"\n}\ntrain --lr 1',
        "torchrun --nproc_per_node `nproc` --standalone train.py | tee log",
        "python -m torch.distributed.run --nproc_per_node 2 -m pkg.train &\nwait",
    ],
)
def test_a_script_that_starts_a_launcher(read_text: Any, source: Path, text: str) -> None:
    (source / "dist.sh").write_text(text)
    name = "torch.distributed.run" if "-m torch" in text else "torchrun"
    expected = SEPARATE.replace("torchrun", name)
    for key, run in (
        ("script", "{script: dist.sh, launcher: once}"),
        ("command", "{command: [bash, -x, dist.sh, a], launcher: once}"),
        ("command", "{command: [./dist.sh], launcher: once}"),
    ):
        ((path, message, _),) = errors(read_text, run)
        assert (path, message.replace("./", "")) == (f"run.{key}", expected)


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        (["deepspeed", "--hostfile", "one", "train.py"], True),
        (["deepspeed", "-H=one", "train.py"], True),
        (["deepspeed", "--hostfile=two", "train.py"], False),
        (["deepspeed", "--hostfile", "none", "train.py"], False),
        (["deepspeed", "-H", "none", "train.py"], False),
        (["mpirun", "--hostfile", "one", "python", "train.py"], True),
        (["mpirun", "-H", "localhost:2", "python", "train.py"], True),
        (["mpirun", "-H", "a:2,b:2", "python", "train.py"], False),
        (["bash", "-c", "mpirun -H $HOSTS python train.py"], False),
        (["horovodrun", "-H", "localhost:2", "python", "train.py"], True),
    ],
)
def test_hosts_of_a_launcher(read_text: Any, source: Path, words: list[str], is_one: bool) -> None:
    (source / "one").write_text("# hosts\n\nlocalhost slots=2\n")
    (source / "two").write_text("a slots=2\nb slots=2\n")
    found = errors(read_text, f"{{command: {json.dumps(words)}, launcher: once}}")
    assert ["each would train separately" in message for _, message, _ in found] == [True] * is_one


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-mtorch.distributed.run", "train.py"],
        ["python3.12", "-W", "ignore", "-um", "torch.distributed.run", "train.py"],
        ["bash", "-c", "numactl -N 0 python -umtorch.distributed.run train.py"],
        ["nsys", "profile", "python", "-Xdev", "-m", "torch.distributed.run", "train.py"],
    ],
)
def test_a_launcher_as_a_module_in_any_form(read_text: Any, source: Path, words: list[str]) -> None:
    ((_, message, _),) = errors(read_text, f"{{command: {json.dumps(words)}, launcher: once}}")
    assert message == SEPARATE.replace("torchrun in dist.sh", "torch.distributed.run")


def test_the_remedy_for_a_script(read_text: Any, source: Path) -> None:
    (source / "dist.sh").write_text("torchrun --nproc_per_node 2 train.py")
    rest = "run.launcher: torchrun and workers.processes: {}; rsctl then starts the ranks of all "
    rest += "nodes"
    ((_, _, remedy),) = errors(read_text, "{script: dist.sh, launcher: once}")
    assert remedy == f"set run.script: train.py, {rest.format(2)}"
    ((_, message, _),) = errors(read_text, "{command: [bash, dist.sh]}", processes=2)
    assert (
        message == "launcher torchrun starts torchrun in dist.sh once for each of 2 ranks on a node"
    )
    (source / "dist.sh").write_text("cd pkg\ntorchrun --nproc_per_node 2 train.py")
    ((_, _, remedy),) = errors(read_text, "{command: [bash, dist.sh], launcher: once}")
    expected = f"instead of run.command set run.script: SCRIPT.py, {rest.format('N')}"
    assert remedy == expected


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nnodes $NNODES --rdzv-endpoint $HEAD:1 train.py",
        "torchrun $ARGS train.py",
        'torchrun "${ARGS[@]}" train.py',
        "torchrun --nproc_per_node $(nproc) --nnodes 2 --rdzv-endpoint h:1 train.py",
        "torchrun --nproc_per_node $((2 * $(nproc))) --nnodes 2 --rdzv-endpoint h:1 train.py",
        "if a; then torchrun train.py; else torchrun --nnodes 2 --rdzv-endpoint h:1 x.py; fi",
        "if [ $NODE_RANK = 0 ]; then torchrun eval.py; fi",
        "export PET_NNODES=2\ntorchrun train.py",
        "cat <<END\ntorchrun train.py\nEND",
        "which torchrun; echo torchrun train.py; pip install torchrun; # torchrun x.py",
        "python train.py --launcher torchrun",
        "echo 'not closed\ntorchrun train.py",
        'ARGS="--nnodes 2 --rdzv-endpoint h:1"\ntorchrun $ARGS train.py',
        'ARGS=""; ARGS="$ARGS --nnodes 2"\ntorchrun $ARGS train.py',
        'ARGS=(--standalone)\nARGS+=(--nnodes 2)\ntorchrun "${ARGS[@]}" train.py',
        'ARGS="${ARGS:---nnodes 1}"\ntorchrun $ARGS train.py',
        'X="--standalone"; torchrun $(options) train.py',
        "trap '' TERM; '' \"\"; torchrun --nnodes 2 --rdzv-endpoint h:1 train.py",
        "",
    ],
)
def test_a_script_that_may_be_right_passes(read_text: Any, source: Path, text: str) -> None:
    (source / "dist.sh").write_text(text)
    assert errors(read_text, "{script: dist.sh, launcher: once}") == []


@pytest.mark.parametrize(
    "words",
    [
        ["bash", "-euo", "pipefail", "-c", "torchrun train.py"],
        ["bash", "--norc", "--rcfile", "x", "-e", "-c", "--", "torchrun train.py", "name"],
        ["bash", "-lc", "uv run --with x torchrun train.py"],
        ["bash", "-c", "conda run -n e torchrun train.py"],
        ["bash", "-c", "A=1 timeout -k 5 2h stdbuf -oL nice -n 5 torchrun train.py"],
        ["env", "A=1", "bash", "-c", "torchrun train.py"],
        ["nohup", "sh", "-c", "exec torchrun train.py"],
        ["uv", "run", "--frozen", "bash", "dist.sh"],
        ["timeout", "1h", "bash", "dist.sh"],
        ["bash", "dist"],
        ["bash", "-c", "set -e; bash dist.sh"],
        ["bash", "-c", "./dist.sh a"],
        ["bash", "-c", ". ./dist.sh"],
        ["bash", "-c", "bash -c 'torchrun train.py'"],
        ["bash", "outer.sh"],
        ["bash", "-c", "set -e; eval 'torchrun train.py'"],
        ["nsys", "profile", "-o", "out", "torchrun", "train.py"],
        ["bash", "-c", "nsys profile -o out torchrun train.py"],
        ["bash", "-c", "strace -f -o log uv run torchrun train.py"],
        ["tini", "-s", "--", "bash", "-c", "py-spy record -- torchrun train.py"],
        ["conda", "run", "--of-unknown", "-n", "e", "torchrun", "train.py"],
        ["poetry", "-C", "pkg", "run", "torchrun", "train.py"],
        ["neuron_parallel_compile", "torchrun", "train.py"],
        ["dotenv", "-f", ".env", "run", "--", "torchrun", "train.py"],
        ["python", "/opt/conda/bin/torchrun", "train.py"],
        ["torchrun", "-m", "pkg.train", "--version", "v2"],
        ["bash", "-c", "torchrun --version; torchrun train.py"],
    ],
)
def test_a_launcher_behind_shells_and_wrappers(
    read_text: Any, source: Path, words: list[str]
) -> None:
    for name in ("dist.sh", "dist"):
        (source / name).write_text("torchrun --nproc_per_node 2 train.py")
    (source / "outer.sh").write_text("time bash -x dist.sh | tee log\n")
    ((path, message, _),) = errors(read_text, f"{{command: {json.dumps(words)}, launcher: once}}")
    assert path == "run.command"
    assert re.sub(r" in \S*dist(.sh)?", "", message) == SEPARATE.replace(" in dist.sh", "")


@pytest.mark.parametrize(
    "words",
    [
        ["bash", "-c", "cd pkg; bash dist.sh"],
        ["bash", "-c", "T=/bin/torchrun; true"],
        ["bash", "-c", "bash self.sh"],
        ["bash", "-o"],
        ["bash", "-c", "eval; eval $COMMAND; eval torchrun '$ARGS' train.py"],
        ["bash", "-c"],
        ["bash", "-c", "echo bash dist.sh; which torchrun; timeout 5 pkill torchrun"],
        ["bash", "-c", "timeout $LIMIT torchrun train.py --of-unknown"],
        ["timeout", "2h", "bash", "-c", "torchrun --nnodes=$NNODES $MEETING train.py"],
    ],
)
def test_what_shells_and_wrappers_may_start(read_text: Any, source: Path, words: list[str]) -> None:
    (source / "dist.sh").write_text("torchrun --nproc_per_node 2 train.py")
    (source / "self.sh").write_text("bash self.sh")
    assert errors(read_text, f"{{command: {json.dumps(words)}, launcher: once}}") == []


def test_a_script_that_is_not_read(read_text: Any, source: Path, tmp_path: Path) -> None:
    """Neither text of another encoding, a large file, one elsewhere, a folder nor a pipe."""
    line = b"torchrun train.py\n"
    (source / "latin.sh").write_bytes(line + b"# \xe4")
    (source / "large.sh").write_bytes(line + b"#" * 65536)
    (tmp_path / "outside.sh").write_bytes(line)
    (source / "link.sh").symlink_to(tmp_path / "outside.sh")
    (source / "folder.sh").mkdir()
    os.mkfifo(source / "pipe.sh")
    for name in ("latin", "large", "../outside", "link", "folder", "pipe", "absent"):
        assert errors(read_text, f"{{command: [bash, {name}.sh], launcher: once}}") == []


@pytest.mark.parametrize("words", [["fabric", "run"], ["colossalai", "run"]])
def test_launchers_of_frameworks(read_text: Any, words: list[str]) -> None:
    text = f"name: j\nrun: {{command: {json.dumps([*words, 'train.py'])}, launcher: once}}\n"
    found = read_text(text + "workers: {count: 2}\n").findings
    nodes = "starts ranks on one node and the job has 2 nodes: each would train separately"
    assert [each.message for each in found] == [f"{' '.join(words)} {nodes}"]
    assert "set run.script: train.py, run.launcher: torchrun" in str(found[0].remedy)


SPAWN = "import torch.multiprocessing as mp\nmp.spawn(main, nprocs=2)\n"


@pytest.mark.parametrize(
    ("text", "workers", "is_warned"),
    [
        (SPAWN, "{count: 2}", True),
        (SPAWN, "{processes: 2}", True),
        (SPAWN.replace("mp.spawn(", "torch.multiprocessing.start_processes("), "{count: 2}", True),
        (SPAWN, "{count: 1}", False),
        (SPAWN, "{accelerator: 'l4:1'}", False),
        (SPAWN, "{accelerator: 'l4:2'}", True),
        (f"if 'LOCAL_RANK' not in os.environ:\n    {SPAWN}", "{count: 2}", False),
        ("# mp.spawn(main)\n", "{count: 2}", False),
    ],
)
def test_a_script_that_starts_ranks_itself(
    read_text: Any, source: Path, text: str, workers: str, is_warned: bool
) -> None:
    (source / "train.py").write_text(text)
    job = f"name: j\nrun: {{script: train.py}}\nworkers: {workers}\nimage: {{source: src}}\n"
    found = [each for each in read_text(job).findings if each.severity == "warning"]
    message = "train.py starts ranks itself, and launcher torchrun starts it on each rank: all "
    message += "would wait for each other"
    assert [(each.path, each.message) for each in found] == [("run.script", message)] * is_warned
    once = job.replace("train.py}", "train.py, launcher: once}").replace("processes", "count")
    assert [each for each in read_text(once).findings if each.severity == "warning"] == []


RAY = "import ray\nray.init()\n"


@pytest.mark.parametrize(
    ("run", "text", "workers", "is_warned"),
    [
        ("script: train.py", RAY, "{count: 2}", True),
        ("command: [python, train.py], launcher: none", RAY, "{count: 2}", True),
        ("command: [ray, start, --head, --block], launcher: once", "", "{count: 2}", True),
        ("command: [sh, -c, 'ray start --head; python t.py'], launcher: once", "", "{count: 2}",
         True),
        ("script: train.sh, launcher: once", "set -e\nray start --head\n", "{count: 2}", True),
        ("script: train.py", RAY, "{count: 1}", False),
        ("script: train.py", RAY.replace("()", "(runtime_env={})"), "{count: 2}", True),
        ("script: train.py", RAY.replace("()", "(address='auto')"), "{count: 2}", False),
        ("script: train.py", RAY.replace("()", "('auto')"), "{count: 2}", False),
        ("script: train.py", RAY.replace("()", "(args.head, namespace='n')"), "{count: 2}", False),
        ("script: train.py", f"os.environ['RAY_ADDRESS'] = head\n{RAY}", "{count: 2}", False),
        ("script: train.py", f"if args.node_rank == 0:\n    {RAY[11:]}", "{count: 2}", False),
        ("script: train.sh, launcher: once",
         'if [ $(hostname) = "$MASTER_ADDR" ]; then ray start --head; fi\n', "{count: 2}", False),
        ("script: train.sh, launcher: once",
         "[ $SLURM_NODEID = 0 ] && ray start --head\n", "{count: 2}", False),
        ("script: train.py, env: {RAY_ADDRESS: 'h:6379'}", RAY, "{count: 2}", False),
        ("script: train.py", "# ray.init() is not needed\n", "{count: 2}", False),
        ("script: train.sh, launcher: once", "[ $NODE_RANK = 0 ] && ray start --head\n",
         "{count: 2}", False),
        ("command: [ray, start, '--address=head:6379'], launcher: once", "", "{count: 2}", False),
    ],
)  # fmt: skip
def test_ray_on_each_node_is_not_one_cluster(
    read_text: Any, source: Path, run: str, text: str, workers: str, is_warned: bool
) -> None:
    """https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html"""
    for name in ("train.py", "train.sh"):
        (source / name).write_text(text)
    job = f"name: j\nrun: {{{run}}}\nworkers: {workers}\nimage: {{source: src}}\n"
    found = [each for each in read_text(job).findings if each.severity == "warning"]
    message = "the command starts Ray on each of 2 nodes, and each would be a cluster of its own"
    assert [each.message for each in found] == [message] * is_warned
    assert [each.path for each in found] == [f"run.{run.partition(':')[0]}"] * is_warned


PARTS = [
    *("'", '"', "=", "(", ")", "{", "}", "$", ";", "&", "|", "#", "<", "`", "[", "]", "!", "+"),
    *("-", ".", "\\", "A", "X", " ", "\n", "''", '""', "+=", "[@]", "$(", "<<", "bash", "-c"),
    *("eval", "exec", "env", "export", "function", "timeout", "torchrun", "train.py", "if"),
]


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_any_text_of_a_shell_is_read(text: str) -> None:
    run = json.dumps({"command": ["bash", "-c", text], "launcher": "once"})
    job = f"name: j\nrun: {run}\nworkers: {{count: 2}}\n".replace("$", "$$")
    document = read("job.yaml", text=job)
    assert [finding.code for finding in document.findings if finding.path is None] == []


@pytest.mark.parametrize("double", ["A{}=$A{}$A{}", 'A{}="$A{} $A{}"', 'A{}="$A{} $A{} $A{}-"'])
def test_variables_that_double_do_not_fill_the_memory(
    read_text: Any, source: Path, double: str
) -> None:
    lines = ["A0=x", *(double.format(n, *[n - 1] * 3) for n in range(1, 100))]
    (source / "dist.sh").write_text("\n".join([*lines, "torchrun --standalone train.py $A99"]))
    assert errors(read_text, "{script: dist.sh, launcher: once}")[0][1] == SEPARATE
