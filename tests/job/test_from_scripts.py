"""Command lines that start a shell script: the remedy has the command that the script starts."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.job.from_command import read_command


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return tmp_path


SHELL_SCRIPT = """#!/bin/bash
#SBATCH --nodes=2   # of the cluster
#SBATCH -p gpu
GPUS=$1
export NODE_RANK=${NODE_RANK:-0}
python -m pip install x.py
if true; then
  PYTHONPATH="$(dirname $0)/..":$PYTHONPATH \\
  torchrun --nproc_per_node=$GPUS \\
    $(dirname "$0")/train.py "${@:2}"
fi
"""


@pytest.mark.parametrize(
    ("line", "text", "command"),
    [
        (
            "bash tools/run.sh 8 --lr 1",
            SHELL_SCRIPT,
            "PYTHONPATH=tools/..:$PYTHONPATH torchrun --nproc_per_node=8 tools/train.py --lr 1",
        ),
        (
            "A=1 ./tools/run.sh",
            SHELL_SCRIPT,
            "A=1 PYTHONPATH=./tools/..:$PYTHONPATH srun --nodes=2 -p gpu "
            "torchrun --nproc_per_node=$GPUS ./tools/train.py ${@:2}",
        ),
        ("tools/run.sh", "torchrun tools/train.py", "torchrun tools/train.py"),
        (
            "sbatch -J name tools/run.sh",
            SHELL_SCRIPT,
            "PYTHONPATH=tools/..:$PYTHONPATH srun --nodes=2 -p gpu -J name "
            "torchrun --nproc_per_node=$GPUS tools/train.py ${@:2}",
        ),
        (
            "sbatch tools/run.sh",
            "srun -n 2 python train.py 'a b'",
            "srun -n 2 python train.py 'a b'",
        ),
        ("sh tools/run.sh", "make\npython train.py --lr 1", "python train.py --lr 1"),
        (
            "sh tools/run.sh",
            'ARGS=(--nnodes 2\n  --nproc_per_node=$GPUS)\nCMD="train.py --lr 1"\n'
            'torchrun "${ARGS[@]}" $CMD',
            "torchrun --nnodes 2 --nproc_per_node=$GPUS train.py --lr 1",
        ),
        ("sh tools/run.sh", "python -m pip install x\npython train.py", "python train.py"),
        (
            "uv run bash tools/run.sh",
            "torchrun --nproc_per_node=${2:-2} ${1:-example.py}",
            "torchrun --nproc_per_node=${2:-2} ${1:-example.py}",
        ),
        (
            "sh tools/run.sh a.py",
            "torchrun --nproc_per_node=${2:-2} ${1:-example.py}",
            "torchrun --nproc_per_node=${2:-2} a.py",
        ),
        (
            "tools/run.sh 4 --data 'a b' -j 4",
            'N=$1\nshift\ntorchrun --nproc_per_node=$N train.py "$@"',
            "torchrun --nproc_per_node=4 train.py --data 'a b' -j 4",
        ),
        (
            "sh tools/run.sh x",
            'go() { torchrun "$1" "$@"; }\ngo train.py',
            "torchrun $1 $@",
        ),
        (
            "sh tools/run.sh -n 4",
            "while [ $# -gt 0 ]; do N=$2; shift; done\ntorchrun --nproc_per_node=$N train.py $1",
            "torchrun --nproc_per_node=$N train.py $1",
        ),
        (
            "sh tools/run.sh",
            "export PATH=/a:$PATH\nexport CUDA_DEVICE_MAX_CONNECTIONS=1 HF_TOKEN=abc\n"
            "export LIBS=/a:$LIBS\nexport LIBS=/b:$LIBS HOST=$(hostname)\n"
            "export RUN='torchrun train.py' XLA_FLAGS='--a --b'\n$RUN > log 2>&1\nexport LATE=1",
            "CUDA_DEVICE_MAX_CONNECTIONS=1 'HF_TOKEN=***' LIBS=/b:/a:$LIBS "
            "'XLA_FLAGS=--a --b' torchrun train.py",
        ),
        (
            "sh tools/run.sh",
            "D=`pwd`\ntorchrun ${D}/train.py --out=$(pwd)/out",
            "torchrun ./train.py --out=./out",
        ),
        # https://github.com/bigscience-workshop/bigscience/blob/master/train/tr1-13B-base
        (
            "sbatch tools/run.sh",
            "#SBATCH --nodes=2\npython prepare.py\nG=8\n"
            'export LAUNCHER="python -u -m torch.distributed.run \\\n    --nproc_per_node $G '
            '--nnodes $SLURM_NNODES \\\n    "\nexport CMD="`pwd`/train.py --lr 1"\nclear; srun '
            "--jobid $SLURM_JOBID bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 | tee a",
            'srun --nodes=2 --jobid "$SLURM_JOBID" python -u -m torch.distributed.run '
            '--nproc_per_node 8 --nnodes 2 --node_rank "$SLURM_PROCID" ./train.py --lr 1',
        ),
        (
            "sh tools/run.sh",
            'C="python train.py --lr 1"\nsrun -l bash -lc "$C"',
            "srun -l python train.py --lr 1",
        ),
        # https://mmpretrain.readthedocs.io/en/latest/user_guides/train.html
        (
            "GPUS=16 CPUS_PER_TASK=2 tools/run.sh part c.py --amp --resume auto",
            "PARTITION=$1\nGPUS=${GPUS:-8}\nCPUS_PER_TASK=${CPUS_PER_TASK:-5}\n"
            "PY_ARGS=${@:3}\nsrun -p ${PARTITION} --ntasks=${GPUS} -c ${CPUS_PER_TASK} python "
            'train.py ${2} ${PY_ARGS} --note "all of $@"',
            "GPUS=16 CPUS_PER_TASK=2 srun -p part --ntasks=16 -c 2 python train.py c.py --amp "
            "--resume auto --note 'all of part c.py --amp --resume auto'",
        ),
        ("sh tools/run.sh", "# old.py \\\ntorchrun train.py", "torchrun train.py"),
        ("sh tools/run.sh", 'C="A=1 torchrun train.py &> log"\neval ${C}', "A=1 torchrun train.py"),
        ("sh tools/run.sh", 'eval "torchrun $A train.py"', "torchrun $A train.py"),
        (
            "sh tools/run.sh",
            "A=1 uv run torchrun train.py --files {0..2}.tar '--x={\"a\": 1}' 2>&1 | tee log",
            "A=1 uv run torchrun train.py --files '{0..2}.tar' '--x={\"a\": 1}'",
        ),
        (
            "sh tools/run.sh",
            "RUN=torchrun\nS=a.py\nS=b.py\n$RUN --rdzv_endpoint $(hostname) $S",
            'torchrun --rdzv_endpoint "$X" $S',
        ),
        # https://github.com/NVlabs/FourCastNet/blob/master/submit_batch.sh
        (
            "sbatch tools/run.sh",
            "#SBATCH --image=nersc/pytorch:ngc-22.02-v0\nfile=./config/AFNO.yaml\nconfig='afno'\n"
            'srun -u --mpi=pmi2 shifter \\\n    bash -c "\n    source export_DDP_vars.sh\n'
            '    python train.py --yaml_config=$file --config=$config model.config=$config\n"\n',
            "srun --image=nersc/pytorch:ngc-22.02-v0 -u --mpi=pmi2 shifter python train.py "
            "--yaml_config=./config/AFNO.yaml --config=afno model.config=afno",
        ),
        # https://github.com/ashleve/lightning-hydra-template#how-to-run
        (
            "sh tools/run.sh",
            "trainer=ddp\ndevices=4\n"
            "python train.py trainer=$trainer devices=${devices} tags=[$trainer]",
            "python train.py trainer=ddp devices=4 tags=[ddp]",
        ),
        (
            "sbatch tools/run.sh",
            "#SBATCH --nodes=2 -n 16\n#SBATCH --gpus-per-node 8\nG=4\n"
            "time srun -l torchrun --nnodes ${SLURM_NNODES} --nproc_per_node=$G train.py "
            "--node $SLURM_NODEID --all $SLURM_NTASKS --gpus=$SLURM_GPUS_PER_NODE-$SLURM_NTASKS_X",
            "srun --nodes=2 -n 16 --gpus-per-node 8 -l torchrun --nnodes 2 --nproc_per_node=4 "
            'train.py --node "$SLURM_NODEID" --all 16 --gpus=8-$SLURM_NTASKS_X',
        ),
    ],
)
def test_the_remedy_for_a_shell_script_is_the_command_that_it_starts(
    folder: Path, line: str, text: str, command: str
) -> None:
    (folder / "tools").mkdir()
    (folder / "tools" / "run.sh").write_text(text)
    with pytest.raises(RsctlError) as caught:
        read_command(shlex.split(line))
    [finding] = caught.value.findings
    before, _, shown = (finding.remedy or "").partition(": rsctl init ")
    assert shown.partition("; the others are ")[0] == command
    assert before.endswith(", with values for its variables")


# https://github.com/ashleve/lightning-hydra-template/blob/main/scripts/schedule.sh
def test_a_script_that_starts_several_programs(folder: Path) -> None:
    lines = [f"python train.py trainer.max_epochs={n} logger=csv\n" for n in (5, 10)]
    (folder / "schedule.sh").write_text("".join(lines))
    with pytest.raises(RsctlError) as caught:
        read_command(["bash", "schedule.sh"])
    assert caught.value.findings[0].remedy == (
        "give the one of its 2 commands that trains, with values for its variables: "
        "rsctl init python train.py trainer.max_epochs=5 logger=csv; "
        "the others are `python train.py trainer.max_epochs=10 logger=csv`"
    )


def test_the_other_commands_of_a_script_are_shown_in_their_order_and_in_short(folder: Path) -> None:
    text = "export HF_TOKEN=xyz\npython make.py\ntorchrun train.py\nA_API_KEY=xyz python eval.py\n"
    (folder / "start.sh").write_text(
        text + f"python long.py {'x' * 90}\n" + "python b.py\npython c.py\npython d.py\n"
    )
    with pytest.raises(RsctlError) as caught:
        read_command(["bash", "start.sh"])
    first, _, others = (caught.value.findings[0].remedy or "").partition("; the others are ")
    assert first == (
        "give the one of its 7 commands that trains, with values for its variables: "
        "rsctl init 'HF_TOKEN=***' torchrun train.py"
    )
    assert others.split(", ") == [
        "`python make.py`",
        "`'A_API_KEY=***' python eval.py`",
        f"`python long.py {'x' * 65}...`",
        "`python b.py`",
        "`python c.py`",
        "...",
    ]


def test_other_commands_are_shown_once_each_in_one_line_without_secrets(folder: Path) -> None:
    """A branch may start the same command as another one."""
    text = "if $A; then torchrun train.py; else torchrun train.py; fi\n"
    (folder / "start.sh").write_text(text)
    with pytest.raises(RsctlError) as caught:
        read_command(["bash", "start.sh"])
    one = "give the command that it starts, with values for its variables: rsctl init "
    assert caught.value.findings[0].remedy == f"{one}torchrun train.py"
    (folder / "start.sh").write_text(f"{text}python up.py --api-key xyz 'a\n  b'\n")
    with pytest.raises(RsctlError) as caught:
        read_command(["bash", "start.sh"])
    assert (caught.value.findings[0].remedy or "").endswith(
        "2 commands that trains, with values for its variables: rsctl init torchrun train.py; "
        "the others are `python up.py --api-key '***' 'a b'`"
    )


def test_the_remedy_names_what_a_batch_script_prepares(folder: Path) -> None:
    text = "#SBATCH -n 2\nmodule load cuda/12\nsource /env/bin/activate\nsrun train.py\nml x\n"
    (folder / "a.sbatch").write_text(text)
    setup = "then add `module load cuda/12`, `source /env/bin/activate` to targets.slurm.setup: "
    for line, is_here in (("sbatch a.sbatch", True), ("bash a.sbatch", False)):
        with pytest.raises(RsctlError) as caught:
            read_command(line.split())
        assert (setup in (caught.value.findings[0].remedy or "")) == is_here


def test_a_secret_before_a_shell_script_is_not_shown(folder: Path) -> None:
    (folder / "run.sh").write_text(
        "export HF_TOKEN=xyz\nA_API_KEY=xyz torchrun train.py $WANDB_API_KEY"
    )
    with pytest.raises(RsctlError) as caught:
        read_command(["WANDB_API_KEY=abc", "./run.sh"])
    assert "abc" not in str(caught.value)
    assert "xyz" not in str(caught.value)
    expected = "'WANDB_API_KEY=***' 'HF_TOKEN=***' 'A_API_KEY=***' torchrun train.py $WANDB_API_KEY"
    assert str(caught.value).endswith(expected)


@pytest.mark.parametrize("text", ["make train", "python train.py '", "\udcff"])
def test_a_shell_script_without_such_a_command(folder: Path, text: str) -> None:
    (folder / "run.sh").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(RsctlError) as caught:
        read_command(["./run.sh"])
    assert (caught.value.findings[0].remedy or "").startswith("give SCRIPT.py")
