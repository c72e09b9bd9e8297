"""What a plan for Slurm remarks or refuses, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import Finding
from rsctl.job.from_command import read_command
from rsctl.targets.slurm.target import TARGET
from tests.kit import rendering

UNUSED = (
    "target slurm uses this only with targets.slurm.container -> set targets.slurm.container, or "
    "prepare the environment in targets.slurm.setup"
)
OWN = "itself, or needs its default -> remove it"


def slurm(**options: Any) -> dict[str, Any]:
    """Changes to a job's options for Slurm."""
    return {"targets": {"slurm": options}}


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a job without anything to remark": ({}, []),
    "inputs in each mode": (
        {
            "inputs": {
                mode: {"uri": "/usr/bin", "mode": mode} for mode in ("mount", "copy", "stream")
            }
        },
        [],
    ),
    "a folder with a slash at its end": (
        slurm(shared="/shared/me/"),
        [
            "error targets.slurm.shared: /shared/me/ is not the shortest path of the folder -> "
            "remove `.`, `..` and double slashes, and the slash at the end"
        ],
    ),
    "a type of GPUs, and no GPUs": (
        slurm(gpu_type="a100"),
        [
            "warning targets.slurm.gpu_type: the job asks for no GPUs, so that their type is not "
            "used -> set workers.accelerator, such as a100:8"
        ],
    ),
    "a type of the chief's GPUs": (
        {
            "chief": {"accelerator": "a100:1"},
            "targets": {"slurm": {"gpu_type": "a100"}},
        },
        [],
    ),
    "a folder of PYTHONPATH that is not in the package": (
        {"run": {"env": {"PYTHONPATH": "src:../.."}}, "image": {"base": "a:1"}},
        [
            f"note image.base: {UNUSED}",
            "warning run.env.PYTHONPATH: PYTHONPATH has ../.., which leads out of image.source: "
            "nodes have no such folder -> write the job file in a folder that has both, with "
            "paths from there",
        ],
    ),
    "the longest usual time limit": ({"limits": {"timeout": "30d"}}, []),
    "a longer time limit, and half a minute": (
        {"limits": {"timeout": "30d30s"}},
        [
            "warning limits.timeout: a time limit of 30d30s is above that of most partitions -> "
            "`sinfo -o '%P %l'` shows the limits; a job above its partition's may wait forever",
            "note limits.timeout: Slurm counts time limits in minutes: it is rounded up -> None",
        ],
    ),
    "a time limit as long as the default of limits.grace": (
        {"limits": {"timeout": "2m"}},
        [
            "note limits.grace: the ranks get no signal before the time limit, because "
            "limits.timeout is not longer than limits.grace, whose default is 2m -> set a shorter "
            "limits.grace"
        ],
    ),
    "a shorter grace, and the next longer time limit": (
        {"limits": {"timeout": "2m", "grace": "119s"}},
        [],
    ),
    "a time limit a minute longer than the default of limits.grace": (
        {"limits": {"timeout": "3m"}},
        [],
    ),
    "the longest grace of sbatch": ({"limits": {"timeout": "20h", "grace": "65535s"}}, []),
    "a longer grace than sbatch takes": (
        {"limits": {"timeout": "20h", "grace": "19h"}},
        [
            "error limits.grace: sbatch signals at most 65535 s (18h12m) before the time limit -> "
            "set limits.grace: 18h, or less"
        ],
    ),
    "options of sbatch that keys set": (
        slurm(sbatch=["-N4", "--gpus-per-node=8", "--mem-per=1", "--nice=1"]),
        [
            "error targets.slurm.sbatch[0]: -N of sbatch has a key -> set workers.count instead",
            "error targets.slurm.sbatch[1]: --gpus-per-node of sbatch has a key -> set "
            "workers.accelerator instead",
            "error targets.slurm.sbatch[2]: --mem-per-cpu of sbatch has a key -> set "
            "targets.slurm.memory instead",
        ],
    ),
    "generic resources": (
        slurm(sbatch=["--gres=nvme:100,shm:1", "--gre=gpu:a100:4,nvme:100", "--gres=gpu"]),
        [
            f"error targets.slurm.sbatch[{n}]: --gres of sbatch has a key -> set "
            "workers.accelerator instead"
            for n in (1, 2)
        ],
    ),
    "options that rsctl sets": (
        slurm(sbatch=["-J=x", "--parsable"], srun=["--mpi=pmix", "--pty", "-n8"]),
        [
            f"error targets.slurm.sbatch[0]: rsctl sets -J of sbatch {OWN}",
            f"error targets.slurm.sbatch[1]: rsctl sets --parsable of sbatch {OWN}",
            f"error targets.slurm.srun[1]: rsctl sets --pty of srun {OWN}",
            f"error targets.slurm.srun[2]: rsctl sets -n of srun {OWN}",
        ],
    ),
    "an image without a container": (
        {
            "image": {
                "base": "python:3.12",
                "env": {"A": "1"},
                "run": ["true"],
                "python": ["numpy"],
                "apt": ["git"],
                "transport": "none",
                "repository": "example.com/team/train",
                "platform": "linux/amd64",
            }
        },
        [
            f"note image.{name}: {UNUSED}"
            for name in (
                *("base", "env", "run", "python", "apt", "transport", "repository", "platform"),
            )
        ],
    ),
    "an image by its tag": (
        {"image": {"uri": "pytorch/pytorch:2.8.0"}, **slurm(container="apptainer")},
        [
            "note image.uri: an image by tag is converted again for each run -> name it by its "
            "digest, as in NAME@sha256:…: then it is converted once"
        ],
    ),
    "a role with an image of its own": (
        {"roles": {"ps": {"count": 1, "image": "example.com/ps:1"}}},
        [
            "error roles.ps.image: target slurm starts all replicas from one image or from none -> "
            "remove it, or use another target"
        ],
    ),
    "backends without what they need": (
        {"comm": {"backend": "nccl"}},
        [
            "error comm.backend: backend nccl needs GPUs, and the workers have none -> set "
            "comm.backend: gloo"
        ],
    ),
    "rsctl's own backend without reducers": (
        {"comm": {"backend": "rsctl"}, "reducers": {"count": 0}},
        ["error comm.backend: backend rsctl needs reducers -> set reducers.count"],
    ),
    "a launcher that starts no reducers and sets no variables": (
        {
            "run": {"launcher": "none", "script": None, "command": ["./train"]},
            "reducers": {"count": 1},
            "comm": {"backend": "gloo"},
        },
        [
            "error reducers.count: reducers need rsctl-launch, which launcher none does not use -> "
            "use launcher torchrun or once",
            "error comm: comm: needs rsctl-launch, which launcher none does not use -> use "
            "launcher torchrun or once",
        ],
    ),
    "as many reducers as workers": (
        {"reducers": {"count": "auto"}},
        [
            "note reducers.count: 2 reducers: as many as workers, because rsctl does not know the "
            "links of the nodes -> None"
        ],
    ),
    "no reducers of one worker": ({"workers": {"count": 1}, "reducers": {"count": "auto"}}, []),
    "reducers of a job that is requeued": (
        {"limits": {"restarts": "platform"}, "reducers": {"count": 1}},
        [
            "note reducers.count: reducers run on the workers' nodes, because the job may be "
            "requeued -> for nodes of their own, set targets.slurm.reducer_placement: separate"
        ],
    ),
    "reducers with nodes of their own in a job that is requeued": (
        {
            "limits": {"restarts": "platform"},
            "reducers": {"count": 1},
            **slurm(reducer_placement="separate"),
        },
        [
            "warning targets.slurm.requeue: Slurm does not requeue a heterogeneous job when it "
            "preempts the job -> set targets.slurm.reducer_placement: colocated, or "
            "targets.slurm.requeue: no"
        ],
    ),
    "a machine of reducers that have no nodes": (
        {
            "reducers": {"count": 1, "machine": "cpu"},
            **slurm(reducer_placement="colocated"),
        },
        [
            "note reducers.machine: reducers run on the workers' nodes, so their machine is not "
            "used -> None"
        ],
    ),
    "a requeue beside HyperPod's own": (
        slurm(requeue="yes", auto_resume=True),
        [
            "warning targets.slurm.auto_resume: HyperPod resumes the steps itself, and a requeue "
            "would start the job again -> remove targets.slurm.auto_resume, or set "
            "limits.restarts: never"
        ],
    ),
}


def findings_of(folder: Path, changes: dict[str, Any]) -> list[Finding]:
    """All findings of a job of two workers with these changes."""
    (folder / "source").mkdir()
    (folder / "source" / "train.py").touch()
    job = {
        "name": "train",
        "target": "slurm",
        "image": {"source": "source"},
        "run": {"script": "train.py"},
        "workers": {"count": 2},
        "limits": {"timeout": "2h"},
        "targets": {"slurm": {"shared": "/shared/me"}},
    }
    return rendering.findings_of(folder, rendering.merged(job, changes), TARGET)


@pytest.mark.parametrize("case", CASES)
def test_findings(tmp_path: Path, case: str) -> None:
    changes, expected = CASES[case]
    found = findings_of(tmp_path, changes)
    assert [f"{f.severity} {f.path}: {f.message} -> {f.remedy}" for f in found] == expected


@pytest.mark.parametrize("name", ["sbatch", "srun", "hpc", "hyperpod", "parallelcluster"])
def test_other_names_of_the_target(tmp_path: Path, name: str) -> None:
    found = rendering.read_job(tmp_path, {"target": name}).findings
    assert [f.remedy for f in found if f.path == "target"] == ["rsctl calls it slurm"]


KEYS = {
    "targets.slurm.partition": "-p --partition",
    "targets.slurm.account": "-A --account",
    "targets.slurm.qos": "-q --qos",
    "targets.slurm.reservation": "--reservation",
    "targets.slurm.constraint": "-C --constraint",
    "targets.slurm.exclude": "-x --exclude",
    "targets.slurm.exclusive": "--exclusive",
    "targets.slurm.cpus": "-c --cpus-per-task",
    "targets.slurm.memory": "--mem --mem-per-cpu --mem-per-gpu",
    "workers.accelerator": "-G --gpus --gpus-per-node --gpus-per-task --gres",
    "targets.slurm.switches": "--switches",
    "targets.slurm.segment": "--segment",
    "targets.slurm.licenses": "-L --licenses",
    "limits.timeout": "-t --time",
    "targets.slurm.requeue": "--requeue --no-requeue",
    "limits.grace": "--signal",
    "workers.count": "-N --nodes",
}
OF_SBATCH = (
    "--batch --comment -D --chdir -e --error --export --export-file -H --hold --het-group -i "
    "--input -J --job-name -k --no-kill --kill-on-invalid-dep --mpi -n --ntasks --ntasks-per-node "
    "--ntasks-per-gpu --ntasks-per-socket -o --output --open-mode --parsable -Q --quiet "
    "--test-only --uid --gid -v --verbose -V --version -W --wait --wrap -h --help --usage "
    "--get-user-env --propagate --ignore-pbs -M --clusters"
)
OF_SRUN = (
    "--label -l -n --ntasks -N --nodes -w --nodelist -x --exclude -o --output -e --error -i "
    "--input -u --unbuffered -K --kill-on-bad-exit --het-group --overlap -J --job-name --jobid -s "
    "--overcommit --multi-prog -D --chdir --export --container --container-image "
    "--container-mounts --container-name --container-workdir --no-shell --pty -r --relative -t "
    "--time -m --distribution --ntasks-per-node --auto-resume --bcast -T --threads --task-prolog "
    "-X --disable-status -Z --no-allocate --test-only -p --partition -A --account -q --qos"
)


def test_an_option_that_a_key_sets_is_refused_with_the_key(tmp_path: Path) -> None:
    wanted = [(option, key) for key, options in KEYS.items() for option in options.split()]
    found = findings_of(tmp_path, slurm(sbatch=[option for option, _ in wanted]))
    assert [(finding.message, finding.remedy) for finding in found] == [
        (f"{option} of sbatch has a key", f"set {key} instead") for option, key in wanted
    ]


@pytest.mark.parametrize(("program", "options"), [("sbatch", OF_SBATCH), ("srun", OF_SRUN)])
def test_an_option_that_rsctl_needs_is_refused(tmp_path: Path, program: str, options: str) -> None:
    """For itself, for the job's log, or to find the job again."""
    found = findings_of(tmp_path, slurm(**{program: options.split()}))
    assert [finding.message.partition(" of ")[0] for finding in found] == [
        f"rsctl sets {option}" for option in options.split()
    ]
    assert {finding.severity for finding in found} == {"error"}


@pytest.mark.parametrize(
    "option",
    [
        *("-w n1", "-D /a", "-K", "-m block", "--pty", "--overlap", "--container-mounts=/a:/b"),
        *("--container-image=a/b:1", "--container-workdir=/a", "--container-name=a", "-x n2"),
        *("--segment=2", "--mem-per-gpu=1G", "--mem-per-cpu=1G", "--mem=0", "-L a:1", "--requeue"),
        *("--signal=B:USR1@90", "--open-mode=append", "--het-group=0", "-s", "--exact", "-c 4"),
        *("--mail-type=ALL", "--dependency=afterok:1", "--ntasks-per-gpu=1", "--nice=1"),
        *(
            "--gres=nvme:20",
            "--gres=gpu:1,nvme:20",
            "--accel-bind=gn",
            "--mem-bind=local",
            "--gres-flags=enforce-binding",
            "--cpu-freq=High",
        ),
    ],
)
def test_init_writes_no_option_of_srun_that_a_plan_refuses(tmp_path: Path, option: str) -> None:
    (tmp_path / "train.py").touch()
    command = read_command(["srun", "-t", "10", "-G", "1", *option.split(), "train.py"])
    keys = {path.removeprefix("targets.slurm."): command.keys[path] for path in command.keys}
    options = {key: keys[key] for key in ("sbatch", "srun", "memory", "cpus") if key in keys}
    assert findings_of(tmp_path, slurm(**options)) == []
