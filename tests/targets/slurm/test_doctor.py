"""What `rsctl doctor` makes of the answers of a cluster's commands, which programs play here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rsctl.api.job_file import make_submission
from rsctl.targets.doctor import Check
from rsctl.targets.slurm.doctor import slurm_checks

SINFO = """#!/bin/sh
case "$*" in
    --version) echo "slurm 24.11.5" ;;
    *) echo "batch* 1-00:00:00 4 up"; echo "old infinite 2 inact"
       case " $* " in *" --all "*) echo "lab infinite 2 up" ;; esac ;;
esac
"""
PROGRAMS = {
    "sinfo": SINFO,
    "sbatch": "#!/bin/sh\ncat >/dev/null\necho 'sbatch: Job 7 to start at noon'\n",
    "sacctmgr": "#!/bin/sh\necho 'physics|lab|normal'\n",
    "srun": "#!/bin/sh\n",
}

Doctor = Callable[..., dict[str, Check]]


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """The checks by their names, of a job with these options of the target."""
    programs, shared = tmp_path / "bin", tmp_path / "shared"
    for folder in (programs, shared, tmp_path / "source"):
        folder.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "source" / "train.py").touch()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def check(**options: Any) -> dict[str, Check]:
        file = {
            "name": "train",
            "target": "slurm",
            "image": {"source": "source", "uri": "pytorch/pytorch:2.8.0"},
            "run": {"script": "train.py"},
            "limits": {"timeout": "2h"},
            "targets": {"slurm": {"shared": str(shared), **options}},
        }
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(file))
        made = make_submission(str(path))
        return {each.name: each for each in slurm_checks(made.job, made.plan)}

    return check


def test_a_hidden_partition_can_be_used(doctor: Doctor) -> None:
    """sinfo leaves it out, and sbatch takes it."""
    assert doctor(partition="lab")["partition"].verdict == "ok"
    batch = doctor()["partition"]
    assert batch.message == "partition batch (4 nodes, at most 1-00:00:00)"


def test_a_partition_that_starts_no_jobs(doctor: Doctor) -> None:
    """A job in it would wait until an administrator opens it."""
    found = doctor(partition="old")["partition"]
    assert (found.verdict, found.path) == ("error", "targets.slurm.partition")
    assert found.message == "partition old is inact: it starts no jobs"


def test_accounts_have_no_case(doctor: Doctor) -> None:
    """Slurm stores them in lower case, and takes each way to write them."""
    assert doctor(account="Physics")["account"].verdict == "ok"
    assert doctor(account="math")["account"].verdict == "error"


def test_the_account_that_is_charged(doctor: Doctor, tmp_path: Path) -> None:
    """Slurm lists accounts by name: the first one is not the user's default."""
    assert doctor()["account"].message == "account physics"
    associations = "#!/bin/sh\nprintf '%s\\n' 'art|lab|normal' 'physics|lab|normal'\n"
    (tmp_path / "bin" / "sacctmgr").write_text(associations)
    assert doctor()["account"].message == "your default account, of art, physics"
    assert doctor(account="Physics")["account"].message == "account Physics"


def test_a_container_runtime_that_setup_loads(doctor: Doctor) -> None:
    """The doctor runs no line of setup, and login nodes may lack what nodes have."""
    assert doctor(container="apptainer")["container"].verdict == "error"
    loaded = doctor(container="apptainer", setup=["module load apptainer"])["container"]
    assert loaded.verdict == "skipped"
    assert "targets.slurm.setup" in loaded.message
