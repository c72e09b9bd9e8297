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
from rsctl.targets.slurm.rest import Answer
from rsctl.targets.slurm.rest_requests import RestRequests

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
    """The checks by their names, of a job with these options, and `given` programs on the PATH."""
    programs, shared = tmp_path / "bin", tmp_path / "shared"
    for folder in (programs, shared, tmp_path / "source"):
        folder.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "source" / "train.py").touch()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def check(
        *, given: dict[str, str] | None = None, timeout: str = "2h", **options: Any
    ) -> dict[str, Check]:
        for name, program in (given or {}).items():
            (programs / name).write_text(f"#!/bin/sh\n{program}\n")
        file = {
            "name": "train",
            "target": "slurm",
            "image": {"source": "source", "uri": "pytorch/pytorch:2.8.0"},
            "run": {"script": "train.py"},
            "limits": {"timeout": timeout},
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


def sinfo(*rows: str, version: str = "slurm 24.11.5") -> dict[str, str]:
    """An sinfo that lists these partitions."""
    listed = "; ".join(f"echo '{row}'" for row in rows)
    return {"sinfo": f"case $1 in --version) echo '{version}' ;; *) {listed or ':'} ;; esac"}


ONE_OF = "set targets.slurm.partition to one of batch, lab, old"
TOO_LONG = "and limits.timeout is longer: the job would wait forever, or be refused"
SHORTER = "set a shorter limits.timeout, or another partition"


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("connection", {}, ("ok", None, "Slurm 24.11.5 by local", None)),
        (
            "connection",
            {"given": sinfo(version="slurm 22.05.0")},
            ("ok", None, "Slurm 22.05.0 by local", None),
        ),
        (
            "connection",
            {"given": sinfo(version="slurm 21.08.8")},
            (
                *("error", "targets.slurm.connection"),
                "Slurm 21.08.8 is older than 22.05, the oldest that rsctl is tested with",
                "use a newer cluster",
            ),
        ),
        (
            "connection",
            {"given": sinfo(version="no slurm")},
            ("error", None, "'no slurm' is not a version of Slurm", None),
        ),
        (
            "partition",
            {"partition": "gpu"},
            ("error", "targets.slurm.partition", "there is no partition gpu", ONE_OF),
        ),
        (
            "partition",
            {"given": sinfo("a infinite 1 up")},
            (
                *("error", "targets.slurm.partition", "the cluster has no default partition"),
                "set targets.slurm.partition to one of a",
            ),
        ),
        (
            "partition",
            {"partition": "batch,old", "timeout": "1d"},
            (
                *("ok", None),
                "partition batch (4 nodes, at most 1-00:00:00), old (2 nodes, at most infinite)",
                None,
            ),
        ),
        (
            "partition",
            {"timeout": "1d1m"},
            (
                *("error", "limits.timeout"),
                f"partition batch allows 1-00:00:00, {TOO_LONG}",
                SHORTER,
            ),
        ),
        (
            "partition",
            {"given": sinfo("a* 30:00 1 up"), "timeout": "31m"},
            ("error", "limits.timeout", f"partition a allows 30:00, {TOO_LONG}", SHORTER),
        ),
        (
            "partition",
            {"given": sinfo("a* 1:30:00 1 up"), "timeout": "90m"},
            ("ok", None, "partition a (1 nodes, at most 1:30:00)", None),
        ),
        (
            "partition",
            {"partition": "a,b", "given": sinfo("a 30:00 2 up", "b 2:00:00 2 up"), "timeout": "1h"},
            (
                "ok",
                None,
                "partition a (2 nodes, at most 30:00), b (2 nodes, at most 2:00:00)",
                None,
            ),
        ),
        (
            "partition",
            {"partition": "a,b", "given": sinfo("a 30:00 2 up", "b 40:00 2 up"), "timeout": "1h"},
            (
                *("error", "limits.timeout"),
                f"partition a allows 30:00, b allows 40:00, {TOO_LONG}",
                SHORTER,
            ),
        ),
        (
            "partition",
            {"partition": "a,b", "given": sinfo("a 30:00 2 up", "b 2:00:00 2 down")},
            (
                *("error", "targets.slurm.partition", "partition b is down: it starts no jobs"),
                "set another partition",
            ),
        ),
        (
            "shared folder",
            {"shared": "/no/folder"},
            (
                *("error", "targets.slurm.shared"),
                "/no/folder does not exist there, or you may not write to it",
                "make the folder, and set targets.slurm.shared to it",
            ),
        ),
        ("schedule", {}, ("ok", None, "Job 7 to start at noon", None)),
        (
            "schedule",
            {"given": {"sbatch": "cat >/dev/null"}},
            ("ok", None, "Slurm would accept the job", None),
        ),
        (
            "schedule",
            {"given": {"sbatch": "cat >/dev/null; echo 'sbatch: error: Invalid qos'; exit 1"}},
            (
                *("error", "targets.slurm.qos"),
                "Slurm refused to schedule the job: Invalid qos",
                "`sacctmgr show qos` lists them",
            ),
        ),
        (
            "container",
            {"container": "pyxis", "given": {"srun": "echo --container-image=IMAGE"}},
            ("ok", None, "pyxis is installed", None),
        ),
        (
            "container",
            {"container": "pyxis"},
            (
                *("error", "targets.slurm.container"),
                "srun has no option --container-image",
                "set another targets.slurm.container, or load its module in targets.slurm.setup",
            ),
        ),
        ("account", {}, ("ok", None, "account physics", None)),
        (
            "account",
            {"account": "math", "given": {"sacctmgr": "echo 'a||'; echo 'b||'; echo 'a|x|'"}},
            (
                *("error", "targets.slurm.account"),
                "you have no association with account math",
                "set targets.slurm.account to one of a, b",
            ),
        ),
        (
            "account",
            {"given": {"sacctmgr": ""}},
            (
                *("error", None, "you have no association with an account of the cluster"),
                "ask the cluster's administrators for one",
            ),
        ),
        (
            "account",
            {"given": {"sacctmgr": "exit 1"}},
            ("skipped", None, "the cluster has no accounting", None),
        ),
    ],
)
def test_the_result_of_a_check(
    doctor: Doctor, name: str, options: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    found = doctor(**options)[name]
    assert (found.verdict, found.path, found.message, found.remedy) == expected


def test_a_machine_without_slurm(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is checked."""
    monkeypatch.setenv("PATH", "/nowhere")
    [(name, found)] = doctor().items()
    assert (name, found.verdict) == ("connection", "error")
    assert found.message == "this machine has no command sbatch"


def rows(**states: str) -> list[dict[str, Any]]:
    """Partitions as slurmrestd lists them: `day` has a time limit of a day and an hour."""
    limits = {"day": {"set": True, "infinite": False, "number": 1500}}
    unlimited = {"set": True, "infinite": True, "number": 0}
    return [
        {
            "name": name,
            "maximums": {"time": limits.get(name, unlimited)},
            "nodes": {"total": 3},
            "partition": {"state": [state]},
        }
        for name, state in states.items()
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("skipped", "slurmrestd does not name the default partition")),
        ({"partition": "gpu"}, ("ok", "partition gpu (3 nodes, at most infinite)")),
        (
            {"partition": "day", "timeout": "25h"},
            ("ok", "partition day (3 nodes, at most 25:00:00)"),
        ),
        (
            {"partition": "day", "timeout": "1501m"},
            ("error", f"partition day allows 25:00:00, {TOO_LONG}"),
        ),
        ({"partition": "old"}, ("error", "partition old is inactive: it starts no jobs")),
        ({"partition": "lab"}, ("error", "there is no partition lab")),
    ],
)
def test_partitions_by_slurmrestd(
    doctor: Doctor,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    expected: tuple[str, str],
) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "ping": {"meta": {"slurm": {"release": "24.11.5"}}},
        "partitions": {"partitions": rows(gpu="UP", day="UP", old="INACTIVE")},
    }

    def call(self: RestRequests, method: str, path: str, body: object = None) -> Answer:
        del self, method, body
        return Answer(200, bodies[path.rstrip("/").rpartition("/")[2]])

    monkeypatch.setenv("SLURM_JWT", "token")
    monkeypatch.setattr(RestRequests, "call", call)
    found = doctor(connection="http://localhost:6820", **options)
    assert found["connection"].message == "Slurm 24.11.5 by http://localhost:6820"
    assert (found["partition"].verdict, found["partition"].message) == expected
    assert found["shared folder"].verdict == "ok"
    hidden = doctor(connection="http://localhost:6820", shared="/no/folder")["shared folder"]
    assert (hidden.verdict, hidden.path) == ("warning", "targets.slurm.connection")
