"""Command lines of MPI, Slurm, torchx and others, and what stands before them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import RsctlError
from rsctl.job.command_text import job_text
from rsctl.job.document import read
from rsctl.job.from_clusters import on_this_cluster
from rsctl.job.from_command import in_folder, read_command
from rsctl.job.launcher_options import Launched

MPI: dict[str, Any] = {"run.launcher": "mpi", "image.apt": ["openmpi-bin"]}
NODES = {"target": "compose"}
SLURM = {"target": "slurm", "limits.timeout": "1h"}
RETRIES = {"limits.retries": 2}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "hosts").write_text("h1 slots=4\nh2:4 # second\n# none\n\n")
    return tmp_path


def found(line: str) -> Launched:
    """The command, after a look at whether its job file can be read."""
    command = read_command(shlex.split(line))
    Path("job.yaml").write_text(job_text(command, Path()))
    document = read("job.yaml", ())
    codes = {finding.code for finding in document.findings if finding.is_error}
    assert codes <= {"variable"}, document.findings
    return command


@pytest.mark.parametrize(
    ("line", "nodes", "ranks", "keys"),
    [
        ("mpirun -np 8 -H h1:4,h2:4 python train.py", 2, 4, MPI | NODES),
        ("mpirun -np 4 --hostfile hosts -npernode 2 python train.py", 2, 2, MPI | NODES),
        ("mpirun --hostfile hosts python train.py", 2, 4, MPI | NODES),
        ("mpirun -np 4 --hostfile hosts python train.py", 1, 4, MPI),
        ("mpiexec --map-by ppr:4:node -n 8 train.py", 2, 4, MPI | NODES),
        ("mpiexec.hydra -n4 -ppn 4 python -u train.py", 1, 4, MPI),
        ("mpirun --timeout 60 -np 2 train.py", 1, 2, MPI | {"limits.timeout": "60s"}),
        ("horovodrun -np 8 -H a:4,b:4 python train.py", 2, 4, MPI | NODES),
        ("horovodrun -n 4 -H a:2,b:2 -p 22 train.py", 2, 2, MPI | NODES),
        ("horovodrun --num-proc 8 --hosts a:4,b:4 train.py", 2, 4, MPI | NODES),
        ("horovodrun --hostfile hosts --network-interfaces eth0 train.py", 2, 4, MPI | NODES),
        ("python -m horovod.runner.launch -np 2 train.py", 1, 2, MPI),
        ("srun -N2 --ntasks-per-node=4 python train.py", 2, 4, SLURM),
        ("srun -n 8 -N 2 python train.py", 2, 4, SLURM),
        ("srun -n8 --ntasks-per-node 4 train.py", 2, 4, SLURM),
        ("srun -N 2 torchrun --nnodes 2 --nproc-per-node 4 train.py", 2, 4, SLURM),
        ("srun -N 2 accelerate launch --num_machines 2 --num_processes 4 train.py", 2, 2, SLURM),
        ("torchx run -s local_cwd dist.ddp -j 2x4 --script train.py", 2, 4, {}),
        ("torchx run -s local_docker dist.ddp -j 2x4 --script train.py", 2, 4, NODES),
        ("torchx run dist.ddp -j 2x4 --gpu 4 --script train.py", 2, 4,
         {"workers.accelerator": "gpu:4"}),
        ("torchx run dist.ddp --script train.py --name a/b", 1, 1, {"name": "b"}),
        ("torchx run dist.ddp -j 1:3x2 --script train.py", 3, 2, {}),
        ("torchx run dist.spmd -j 4 --max_retries 2 --script train.py", 1, 4, RETRIES),
        ("torchx run utils.python --script train.py", 1, 1, {"run.launcher": "once"}),
        ("composer -n 4 train.py", 1, 4, {}),
        ("composer --nproc 4 --world_size 8 --node_rank 0 train.py", 2, 4, {}),
        ("composer train.py", 1, 0, {}),
        ("tune run --nnodes 2 --nproc_per_node 4 train.py", 2, 4, {}),
        ("colossalai run --nproc_per_node 4 --num_nodes 2 --hostfile hosts train.py", 2, 4, {}),
        ("colossalai run -H h1,h2 --nproc_per_node 4 --master_addr h1 train.py", 2, 4, {}),
        ("fabric run --devices=4 --num-nodes 2 train.py", 2, 4, {}),
        ("fabric run train.py --devices 2 --node_rank=0", 1, 2, {}),
        ("fabric run train.py", 1, 1, {}),
        ("fabric run --devices auto train.py", 1, 1, {}),
        ("fabric run --devices -1 train.py", 1, 0, {}),
        ("fabric run --devices 4 --strategy dp train.py", 1, 1, {}),
        # https://github.com/jzhang38/TinyLlama/blob/main/PRETRAIN.md
        ("lightning run model --node-rank=0 --main-address=172.16.101.5 --accelerator=cuda "
         "--devices=8 --num-nodes=2 train.py", 2, 8, {}),
        # https://github.com/NVlabs/FourCastNet/blob/master/submit_batch.sh
        ("srun -N 2 --ntasks-per-node=4 --image=nersc/pytorch:ngc-22.02-v0 --mpi=pmi2 shifter "
         "python train.py", 2, 4, SLURM),
        # Options by https://man.archlinux.org/man/apptainer-exec.1.en
        ("srun -N 2 singularity exec --nv -B /a:/a nanotron.sif torchrun --nnodes 2 "
         "--nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint h:26500 train.py", 2, 2, SLURM),
        ("srun -N 2 apptainer exec --nv --bind=/a docker://nvcr.io/nvidia/pytorch:1 python "
         "train.py", 2, 1, SLURM | {"image.uri": "nvcr.io/nvidia/pytorch:1",
                                    "targets.slurm.container": "apptainer"}),
        # https://github.com/ORNL-Fusion/aorsa/files/8994253/batchscript.txt
        ("srun -N 2 --tasks-per-node=8 python train.py", 2, 8, SLURM),
        ("srun -N 2 apptainer run --nv a.sif python train.py", 2, 1, SLURM),
        ("srun -N 2 shifter -E --image=nersc/pytorch:ngc-22.02-v0 python train.py", 2, 1, SLURM),
        ("OMP_NUM_THREADS=2 torchrun --nproc-per-node 2 train.py", 1, 2, {}),
        ("uv run torchrun --nproc-per-node 2 train.py", 1, 2, {}),
        ("uv run train.py", 1, 1, {}),
        ("env A=1 nohup python train.py", 1, 1, {}),
        ("nice -n 10 timeout -k 5 2h python train.py", 1, 1, {"limits.timeout": "2h"}),
        ("nice -5 timeout -k5 .5h python train.py", 1, 1, {"limits.timeout": "30m"}),
        ("timeout 1.5 python train.py", 1, 1, {"limits.timeout": "1.5s"}),
        ("timeout 0 python train.py", 1, 1, {}),
        ("timeout 0.0h python train.py", 1, 1, {}),
        ("env -iu X python -uB train.py", 1, 1, {}),
        ("bash -c 'A=1 python train.py'", 1, 1, {}),
        ("numactl -N0 taskset -c 0-3 stdbuf -oL python train.py", 1, 1, {}),
        ("torchrun --nproc_per 4 train.py", 1, 4, {}),
        ("accelerate launch --num-proc 2 train.py", 1, 2, {}),
        ("deepspeed --num_g 2 train.py", 1, 2, {}),
        ("python3 -m torch.distributed.run --max-restarts=3 train.py", 1, 1,
         {"limits.restarts_in_place": 3}),
        ("accelerate launch --max_restarts 1 train.py", 1, 0, {"limits.restarts_in_place": 1}),
    ],
)  # fmt: skip
def test_nodes_ranks_and_keys(line: str, nodes: int, ranks: int, keys: dict[str, Any]) -> None:
    command = found(line)
    assert (command.kind, command.words) == ("script", ["train.py"])
    assert (command.nodes, command.processes, command.keys) == (nodes, ranks, keys)


@pytest.mark.parametrize(
    ("line", "env"),
    [
        ("mpirun -x A=1 -x B --mca btl ^tcp -np 1 train.py",
         {"A": "1", "B": None, "OMPI_MCA_btl": "^tcp"}),
        ("mpiexec -genv A 1 -genvlist B,C -n 1 train.py", {"A": "1", "B": None, "C": None}),
        ("mpiexec -genv A=1=2 -env B= -env C 3=4 -n 1 train.py", {"A": "1=2", "B": "", "C": "3=4"}),
        ("horovodrun -np 1 --fusion-threshold-mb 32 --cycle-time-ms 3 train.py",
         {"HOROVOD_CYCLE_TIME": "3", "HOROVOD_FUSION_THRESHOLD": "33554432"}),
        ("horovodrun -np 1 --timeline-filename t.json --log-level INFO train.py",
         {"HOROVOD_TIMELINE": "t.json", "HOROVOD_LOG_LEVEL": "INFO"}),
        ("srun --export=ALL,A=1 -c 8 train.py", {"OMP_NUM_THREADS": "8", "A": "1"}),
        ("torchx run dist.ddp --env A=1,B=2 --script train.py", {"A": "1", "B": "2"}),
        ("fabric run --precision bf16-mixed train.py --accelerator=cuda --devices 0,3",
         {"LT_CLI_USED": "1", "LT_ACCELERATOR": "cuda", "LT_DEVICES": "2", "LT_NUM_NODES": "1",
          "LT_PRECISION": "bf16-mixed"}),
        ("A=1 env A=2 B=3 python -O -W ignore -X dev train.py",
         {"A": "2", "B": "3", "PYTHONOPTIMIZE": "1", "PYTHONWARNINGS": "ignore",
          "PYTHONDEVMODE": "1"}),
        ("python -OOuWignore -Xdev train.py",
         {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "ignore", "PYTHONDEVMODE": "1"}),
        ("python -B -X faulthandler -Xutf8 train.py",
         {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1", "PYTHONUTF8": "1"}),
        ("bash -c 'A=1 python train.py'", {"A": "1"}),
        ("accelerate launch --gpu_ids 0,1 train.py", {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("MASTER_ADDR=h PET_NNODES=2 A=1 torchrun train.py", {"A": "1"}),
    ],
)  # fmt: skip
def test_variables(line: str, env: dict[str, str | None]) -> None:
    assert found(line).env == env


def test_slurm_s_options() -> None:
    line = "srun -p gpu -A me -q high --gpus-per-node=a100:4 -t 1-02:00:00 --mem=64G -J my_job "
    line += "--comment=x --container-image=nvcr.io#nvidia/pytorch:1 --label train.py"
    command = found(line)
    assert command.keys == {
        "target": "slurm",
        "targets.slurm.partition": "gpu",
        "targets.slurm.account": "me",
        "targets.slurm.qos": "high",
        "targets.slurm.memory": "64GiB",
        "limits.timeout": "1d2h",
        "name": "my_job",
        "image.uri": "nvcr.io/nvidia/pytorch:1",
        "targets.slurm.container": "pyxis",
        "workers.accelerator": "a100:4",
        "targets.slurm.gpu_type": "a100",
        "targets.slurm.srun": ["--comment=x"],
    }
    assert "srun: omitted --label: rsctl does this itself" in command.remarks
    line = (
        "srun -N 2 -w gpu[1-2] -n 4 -c 8 --segment 2 --mail-type ALL --requeue --open-mode=append "
    )
    assert found(f"{line} --signal=B:USR1@90 --chdir /a -m block train.py").keys == SLURM | {
        "targets.slurm.cpus": 16,
        "targets.slurm.segment": 2,
        "targets.slurm.requeue": "yes",
        "limits.grace": "90s",
        "targets.slurm.sbatch": ["--nodelist=gpu[1-2]", "--mail-type=ALL"],
    }
    assert found("srun --no-requeue train.py").keys == SLURM | {"targets.slurm.requeue": "no"}
    assert "targets.slurm.cpus" not in found("srun -c 8 --exclusive train.py").keys
    line = "srun -c 8 --wait-all-nodes=1 --no-container-remap-root --no-container-mount-home "
    command = found(f"{line} --container-mount-home --auto-resume=1 torchrun train.py")
    assert command.keys == SLURM | {
        "targets.slurm.cpus": 8,
        "targets.slurm.sbatch": ["--wait-all-nodes=1"],
        "targets.slurm.srun": ["--no-container-remap-root"],
    }
    assert command.env == {}  # the ranks of torchrun share the cores of a task
    assert command.remarks[-2:] == (
        "srun: omitted --no-container-mount-home: rsctl does this itself",
        "srun: omitted --container-mount-home, --auto-resume=1: no key for it",
    )
    command = found("srun --container-image docker://nvcr.io#nvidia/pytorch:1 train.py")
    assert command.keys["image.uri"] == "nvcr.io/nvidia/pytorch:1"
    for image in ("/fsx/a.sqsh", "./a+b", "b.sqsh"):  # the key takes images of a registry
        command = found(f"srun -t 1 --container-image {image} train.py")
        assert command.keys == {"target": "slurm", "limits.timeout": "1m"}
        assert command.remarks[1:] == (
            f"srun: --container-image {image} is a file: set image.uri to the image that it has, "
            "and targets.slurm.container: pyxis",
        )
    ours = "-l, -u, -o a, -e b, -i c, --jobid 7, --mpi pmix, -Q, -v"
    command = found(f"srun {ours.replace(',', '')} train.py")
    assert command.remarks[-1] == f"srun: omitted {ours}: rsctl does this itself"


@pytest.mark.parametrize(
    ("options", "accelerator", "kind"),
    [
        ("--gpus-per-node=8", "gpu:8", None),
        ("--gpus-per-node=h100:8", "h100:8", "h100"),
        ("--gres=gpu:4", "gpu:4", None),
        ("--gres=gpu:l40s:2,nvme:1", "l40s:2", "l40s"),
        ("--gres=gpu", "gpu:1", None),
        ("-G 16", "gpu:4", None),
        ("--gpus=v100:6", "v100:2", "v100"),
        ("--gpus-per-task=1", "gpu:2", None),
        ("--gres=nvme:1", None, None),
    ],
)
def test_slurm_s_gpus_are_those_of_a_node(
    options: str, accelerator: str | None, kind: str | None
) -> None:
    """Options of `srun` alone would ask for GPUs that the job has not got."""
    command = found(f"srun -N 4 --ntasks-per-node 2 {options} train.py")
    keys = command.keys
    assert (keys.get("workers.accelerator"), keys.get("targets.slurm.gpu_type")) == (
        accelerator,
        kind,
    )
    assert keys["limits.timeout"] == "1h"  # which Slurm plans by
    others = ["--gres=nvme:1"] if "nvme" in options else None
    assert keys.get("targets.slurm.sbatch") == others


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        ("--mem=0", "all"),
        ("--mem=200gb", "200GiB"),
        ("--mem 4000", "4000MiB"),
        ("--mem-per-gpu=16G --gpus-per-node=4", "64GiB"),
        ("--mem-per-cpu=2G --ntasks-per-node=3 -c 4", "24GiB"),
        ("--mem-per-cpu=2G", "2GiB"),
        ("--mem='$MEM'", None),
        ("--mem-per-gpu=16G", None),
    ],
)
def test_slurm_s_memory_is_that_of_a_node(options: str, memory: str | None) -> None:
    command = found(f"srun {options} train.py")
    assert command.keys.get("targets.slurm.memory") == memory
    is_named = any("set targets.slurm.memory" in remark for remark in command.remarks)
    assert is_named == (memory is None)


def test_a_job_of_srun_has_what_it_needs_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "python").touch(mode=0o755)
    environ = {"HOME": "/home/me", "PATH": f"/nowhere:{tmp_path}"}
    command = on_this_cluster(found("srun -N 2 train.py"), environ)
    assert command.keys == {
        "target": "slurm",
        "limits.timeout": "1h",
        "targets.slurm.shared": "/home/me/rsctl",
        "targets.slurm.setup": [f"export PATH={tmp_path}:$PATH"],
    }
    text = "srun -N 2 --container-image=nvcr.io#nvidia/pytorch:1 train.py"
    assert "targets.slurm.setup" not in on_this_cluster(found(text), environ).keys


@pytest.mark.parametrize(
    ("text", "timeout"),
    [
        ("30", "30m"),
        ("10:30", "10m30s"),
        ("1:00:00", "1h"),
        ("3-00:00:00", "3d"),
        ("2-3", "2d3h"),
        ("1-02:03", "1d2h3m"),
    ],
)
def test_slurm_s_times(text: str, timeout: str) -> None:
    assert found(f"srun -t {text} train.py").keys["limits.timeout"] == timeout


def test_times_beyond_the_limit_are_written_for_validate_to_refuse() -> None:
    for line in ("srun -t 9999:00:00 python train.py", "timeout 9999h python train.py"):
        assert read_command(line.split()).keys["limits.timeout"] == "416d15h"


def test_a_secret_is_not_written() -> None:
    for line in ("WANDB_API_KEY=abc torchrun train.py", "mpirun -x WANDB_API_KEY=abc train.py"):
        command = found(line)
        assert command.env == {"WANDB_API_KEY": None}
        text = Path("job.yaml").read_text()
        assert "abc" not in text
        assert "WANDB_API_KEY: ${WANDB_API_KEY}\n" in text


def test_a_switch_with_the_name_of_a_secret_is_written() -> None:
    command = found("HF_HUB_DISABLE_IMPLICIT_TOKEN=1 torchrun train.py")
    assert command.env == {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}


def test_a_variable_of_the_environment_may_be_unset() -> None:
    found("mpirun -x LD_LIBRARY_PATH train.py")
    assert "LD_LIBRARY_PATH: ${LD_LIBRARY_PATH:-}\n" in Path("job.yaml").read_text()


@pytest.mark.parametrize(
    ("line", "omitted"),
    [
        ("mpirun --bind-to core --tag-output -np 1 train.py",
         ["mpirun: omitted --tag-output: rsctl does this itself",
          "mpirun: omitted --bind-to core: no key for it"]),
        ("horovodrun -np 1 --gloo train.py", ["horovodrun: omitted --gloo: no key for it"]),
        ("mpirun -np 2 train.py", ["mpirun: no hosts are named: set workers.count and processes"]),
        ("torchx run -s k8s dist.ddp --cpu 4 --script train.py",
         ["torchx run: -s k8s: set target", "dist.ddp: omitted --cpu 4: no key for it"]),
        ("torchx run dist.ddp --gpu 2 -h gpu.small --script train.py",
         ["dist.ddp: --gpu 2 names no type: a cloud needs one in workers.accelerator",
          "dist.ddp: -h gpu.small: set workers.machine"]),
        ("srun -t 1 -w n1 -K --chdir /a --pty -m block train.py",
         ["srun sets SLURM_PROCID and SLURM_LOCALID; rsctl sets RANK, LOCAL_RANK",
          "srun: omitted -K, --pty: rsctl does this itself",
          "srun: omitted --chdir /a, -m block: no key for it"]),
        ("composer -n 1 --stdout o train.py", ["composer: omitted --stdout o: no key for it"]),
        ("uv run --with rich train.py",
         ["uv run: packages come from image.python, or from the Python of target process",
          "uv run: omitted --with rich: no key for it"]),
        ("RANK=1 python -I train.py",
         ["python: omitted -I: no key for it", "omitted RANK: rsctl or its launcher sets them"]),
        ("accelerate launch --tee 3 --machine_rank 0 train.py",
         ["accelerate launch: omitted --machine_rank 0: rsctl does this itself",
          "accelerate launch: omitted --tee 3: no key for it"]),
        ("deepspeed --no_local_rank --master_port 1 --save_pid train.py",
         ["deepspeed: omitted --master_port 1: rsctl does this itself",
          "deepspeed: omitted --save_pid: no key for it"]),
    ],
)  # fmt: skip
def test_no_option_is_dropped_in_silence(line: str, omitted: list[str]) -> None:
    assert list(found(line).remarks) == omitted
    text = Path("job.yaml").read_text()
    assert all(f"# {remark}\n" in text for remark in omitted)


def test_a_program_that_is_no_script() -> None:
    command = found("mpirun -np 2 ./a.out -x 1")
    assert (command.kind, command.words) == ("command", ["./a.out", "-x", "1"])
    command = found("tune run --nproc_per_node 2 full_finetune --config llama3/8B")
    assert command.words[:2] == ["tune", "run"]
    assert command.keys == {"run.launcher": "once"}


@pytest.mark.parametrize(
    "launcher",
    # https://fairseq.readthedocs.io/en/latest/getting_started.html#distributed-training
    ["python -m torch.distributed.launch --use_env --nproc_per_node=8", "accelerate launch"],
)
def test_an_installed_program_that_a_launcher_starts(folder: Path, launcher: str) -> None:
    (folder / "fairseq-train").touch(mode=0o755)
    command = found(f"{launcher} {folder}/fairseq-train data --max-tokens 3584")
    assert (command.kind, command.words[0]) == ("command", "fairseq-train")
    with pytest.raises(RsctlError):
        read_command(f"{launcher} {folder}/nothing data".split())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mpirun -np 1 a.py : -np 1 b.py", "mpirun: several programs"),
        ("mpirun --nope train.py", "mpirun: rsctl does not know its option --nope"),
        ("mpirun --hostfile none train.py", "mpirun: cannot read none"),
        ("mpirun -np 3 -N 2 train.py", "mpirun: 3 processes are not divisible"),
        ("mpirun -np 2 torchrun train.py", "mpirun: the program is a launcher itself"),
        ("srun -n 3 -N 2 train.py", "srun: 3 processes are not divisible by 2 nodes"),
        ("srun --gpus-per-node='$G' train.py", "srun: '$G' is not [TYPE:]COUNT of GPUs"),
        ("srun --gres=gpu:a100:many train.py", "srun: 'a100:many' is not [TYPE:]COUNT of GPUs"),
        ("srun -N 2 --ntasks= train.py", "srun: --ntasks has an empty value"),
        ("srun -a 0-3 train.py", "srun: --array 0-3"),
        ("srun --container-image --label train.py", "srun: --container-image requires a value"),
        ("torchrun --nproc_per_node --rdzv_id=1 train.py", "torchrun: --nproc_per_node requires"),
        ("mpirun -np -npernode 2 train.py", "mpirun: -np requires a value"),
        ("torchrun --nnodes= --nproc_per_node= train.py", "torchrun: --nnodes has an empty value"),
        ("torchrun --nnodes '' train.py", "torchrun: --nnodes has an empty value"),
        ("torchx run utils.echo", "torchx run: component utils.echo has no counterpart"),
        ("torchx run dist.ddp -j 2", "dist.ddp does not start a script"),
        ("torchx run dist.ddp -j ax --script train.py", "dist.ddp: -j ax is not"),
        ("tune run --nnodes 2 full --config a", "tune run: recipe full and config a"),
        ("tune ls", "'tune ls' does not start a script"),
        ("uv run", "'uv run' does not start a script"),
        ("A=1", "'A=1' does not start a script"),
        ("A=run.sh", "'A=run.sh' does not start a script"),
        ("A=1 bash run.sh", "'bash run.sh' does not start a script"),
        ("timeout soon python train.py", "timeout: its first argument is not a time"),
        ("python -c pass", "python -c: its program is not a file"),
        ("python -uc pass", "python -c: its program is not a file"),
        ("python -uZ train.py", "python: rsctl does not know its option -Z"),
        ("bash -c 'cd x && python train.py'", "'bash -c' does not start a script"),
        ("bash -c 'python train.py' name", "'bash -c' does not start a script"),
        ("mpirun -verbatim train.py", "mpirun: rsctl does not know its option -verbatim"),
        ("torchrun --n 3 train.py", "torchrun: rsctl does not know its option --n"),
        ("chrt -f 1 python train.py", "'chrt -f 1 python train.py' does not start a script"),
    ],
)
def test_what_cannot_be_said(line: str, message: str) -> None:
    with pytest.raises(RsctlError) as caught:
        read_command(shlex.split(line))
    assert caught.value.findings[0].message.startswith(message)
    assert caught.value.findings[0].remedy


@pytest.mark.parametrize(
    "line",
    [
        "python -um pkg.train --lr 3",
        "python -mpkg.train --lr 3",
        "sh -c 'python -Bmpkg.train --lr 3'",
    ],
)
def test_a_module_behind_options_without_a_space(line: str) -> None:
    command = read_command(shlex.split(line))
    assert (command.kind, command.words) == ("module", ["pkg.train", "--lr", "3"])


@pytest.mark.parametrize(
    ("line", "remark"),
    [
        ("timeout -k5 10 train.py", "timeout: omitted -k5: no key for it"),
        ("env -iuX train.py", "env: omitted -i, -uX: no key for it"),
        ("taskset -c 0-3 train.py", "taskset: omitted 0-3: no key for it"),
        ("numactl --cpunodebind=0 train.py", "numactl: omitted --cpunodebind=0: no key for it"),
    ],
)
def test_options_of_wrappers_are_named(line: str, remark: str) -> None:
    assert remark in read_command(shlex.split(line)).remarks


@pytest.mark.parametrize(
    ("line", "words", "nodes", "ranks"),
    [
        ("llamafactory-cli train a.yaml", "llamafactory.launcher a.yaml", 1, 0),
        (
            "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=1 NPROC_PER_NODE=4 MASTER_PORT=1 "
            "llamafactory-cli train a.yaml learning_rate=1e-5",
            "llamafactory.launcher a.yaml learning_rate=1e-5",
            2,
            4,
        ),
        ("axolotl train a.yml", "axolotl.cli.train a.yml", 1, 0),
        ("axolotl train a.yml --num-processes 2", "axolotl.cli.train a.yml", 1, 2),
        ("axolotl train a.yml --launcher=python --debug", "axolotl.cli.train a.yml --debug", 1, 1),
        (
            "axolotl train a.yml --launcher torchrun -- --nproc_per_node=8 --nnodes=2 --rdzv_id=x",
            "axolotl.cli.train a.yml",
            2,
            8,
        ),
    ],
)
def test_programs_that_start_torchrun_with_their_module(
    line: str, words: str, nodes: int, ranks: int
) -> None:
    command = found(line)
    assert (command.kind, command.words) == ("module", words.split())
    assert (command.nodes, command.processes) == (nodes, ranks)


@pytest.mark.parametrize("line", ["llamafactory-cli train", "axolotl train a.yml --cloud c.yml"])
def test_what_these_programs_do_besides_is_an_error(line: str) -> None:
    with pytest.raises(RsctlError):
        read_command(line.split())


@pytest.mark.parametrize(
    ("line", "omitted"),
    [
        ("torchrun --rdzv_endpoint= train.py", "torchrun: omitted --rdzv_endpoint="),
        ("srun -t 1 --jobid '' torchrun train.py", "srun: omitted --jobid "),
        (
            "accelerate launch --num_machines 2 --num_processes 2 --main_process_ip '' train.py",
            "accelerate launch: omitted --main_process_ip ",
        ),
        ("deepspeed --no_local_rank --master_addr= train.py", "deepspeed: omitted --master_addr="),
    ],
)
def test_an_empty_place_where_ranks_meet_is_not_needed(line: str, omitted: str) -> None:
    assert found(line).remarks == (f"{omitted}: rsctl does this itself",)


def test_torchrun_reads_its_nodes_and_ranks_from_variables() -> None:
    command = found("PET_NNODES=2 PET_NPROC_PER_NODE=4 torchrun train.py")
    assert (command.nodes, command.processes) == (2, 4)
    assert command.remarks == (
        "omitted PET_NNODES, PET_NPROC_PER_NODE: rsctl or its launcher sets them",
    )
    assert found("PET_NNODES=2 torchrun --nnodes 3 train.py").nodes == 3


@pytest.mark.parametrize(
    ("line", "remark"),
    [
        (
            "CUDA_VISIBLE_DEVICES=0,3 torchrun train.py",
            "CUDA_VISIBLE_DEVICES=0,3 has GPUs of this machine: remove it elsewhere",
        ),
        (
            "torchrun train.py c.py --launcher slurm",
            "--launcher slurm has the script read ranks of slurm: use --launcher pytorch",
        ),
        (
            "torchrun train.py --launcher=mpi",
            "--launcher mpi has the script read ranks of mpi: use --launcher pytorch",
        ),
        ("torchrun train.py --launcher pytorch", ""),
        (
            "singularity exec --nv /scratch/pytorch.sif python train.py",
            "singularity exec: /scratch/pytorch.sif is not an image of docker://: set image.uri to "
            "the image that it has, and targets.slurm.container: apptainer",
        ),
        ("torchrun train.py --node_rank 1", ""),
        ("train.py --rank $R --world-size 2", ""),
        ("train.py --rank 8", ""),  # of LoRA
        (
            "train.py --rank 0 --world-size 2",
            "--rank is the number of one node: set workers.count and run.launcher: once, "
            "and instead of run.script a run.command: [bash, -c, ...] that passes $NODE_RANK, "
            "$NNODES, $MASTER_ADDR and $MASTER_PORT",
        ),
        ("torchrun --nnodes 2 train.py trainer.num_nodes=2", ""),
        (
            "train.py fit --trainer.num_nodes 2 --trainer.devices=1",
            "--trainer.num_nodes=2 is the script's number of nodes: set workers.count",
        ),
        (
            "train.py trainer.num_nodes=4",
            "trainer.num_nodes=4 is the script's number of nodes: set workers.count",
        ),
        ("torchrun --nproc-per-node 4 train.py trainer.devices=4", ""),
        ("accelerate launch train.py trainer.devices=4", ""),
        ("train.py trainer.devices=auto", ""),
        (
            "train.py trainer=ddp trainer.devices=4",
            "trainer.devices=4 is the script's number of ranks on a node: set workers.processes",
        ),
        (
            "train.py --machine-rank 0 --dist-url tcp://h:1",
            "--machine-rank is the number of one node: set workers.count and run.launcher: once, "
            "and instead of run.script a run.command: [bash, -c, ...] that passes $NODE_RANK, "
            "$NNODES, $MASTER_ADDR and $MASTER_PORT",
        ),
    ],
)
def test_remarks_on_what_another_place_decides(line: str, remark: str) -> None:
    assert found(line).remarks == ((remark,) if remark else ())


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ("def main():\n    import submitit\n", "submitit"),
        # https://github.com/IjlalBaig/fabric-distributed-training/blob/main/train.py
        ("import sagemaker\nfrom sagemaker.pytorch import PyTorch\n", "SageMaker's SDK"),
        ("from sagemaker.train import ModelTrainer\n", "SageMaker's SDK"),
        ("job = aiplatform.CustomJob(\n", "Vertex AI's SDK"),
        ("job = aiplatform.CustomContainerTrainingJob(\n", "Vertex AI's SDK"),
        ("from google.cloud import aiplatform\naiplatform.start_run('a')\n", None),
        ("from sagemaker.experiments import Run\n", None),
    ],
)
def test_a_script_that_submits_jobs_itself(folder: Path, text: str, library: str | None) -> None:
    (folder / "train.py").write_text(text)
    command = in_folder(read_command(["train.py", "--nodes", "8"]), Path())
    remark = f"train.py submits jobs itself, with {library}: give the script of those jobs"
    assert command.remarks == ((remark,) if library else ())


@pytest.mark.parametrize(
    ("line", "remark"),
    [
        ("torchrun --nnodes '$N' train.py", "torchrun: --nnodes $N: set workers.count"),
        ("torchrun --nnodes 1:x train.py", "torchrun: --nnodes 1:x: set workers.count"),
        ("srun -N '$N' train.py", "srun: --nodes $N: set workers.count"),
        ("srun -N 2k train.py", "srun: --nodes 2k: set workers.count"),
    ],
)
def test_nodes_that_are_not_a_number_are_named(line: str, remark: str) -> None:
    command = found(line)
    assert (command.nodes, remark in command.remarks) == (1, True)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("deepspeed --no_local_rank --module pkg.train", "module"),
        ("deepspeed --no_local_rank --no_python bash train.sh", "command"),
    ],
)
def test_options_that_say_what_the_program_is_are_not_omitted(line: str, kind: str) -> None:
    command = read_command(line.split())
    assert (command.kind, command.remarks) == (kind, ())
