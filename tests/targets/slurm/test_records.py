"""Jobs as `scontrol show job -o` and `sacct` of Slurm 24.11 print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.targets.slurm import commands
from rsctl.targets.slurm.cluster import JobRecord
from rsctl.targets.slurm.records import record_of_sacct, record_of_scontrol

WORKERS = (
    "JobId=17 HetJobId=17 HetJobOffset=0 JobName=t-1 UserId=me(1000) JobState=FAILED "
    "Reason=NonZeroExitCode Dependency=(null) Restarts=1 ExitCode=1:0 SubmitTime=1764237600 "
    "StartTime=1764237610 EndTime=1764237700 NodeList=n[1-2] FailedNode=(null) Comment=rsctl:t-1 "
    "WorkDir=/home/me/a b StdErr=\n"
)
REDUCERS = (
    "JobId=18 HetJobId=17 HetJobOffset=1 JobName=t-1 JobState=NODE_FAIL Reason=None Restarts=1 "
    "ExitCode=0:0 NodeList=n3 FailedNode=n3 Comment=rsctl:t-1\n"
)
WAITS = (
    "JobId=17 JobName=t-1 JobState=PENDING Reason=Priority Restarts=0 ExitCode=0:0 "
    "SubmitTime=1764237600 StartTime=Unknown EndTime=Unknown NodeList=(null) Comment=(null)\n"
)
ENDED = JobRecord(
    id=17,
    state="FAILED",
    name="t-1",
    reason="NonZeroExitCode",
    comment="rsctl:t-1",
    nodes="n[1-2],n3",
    failed_node="n3",
    submitted=1764237600.0,
    started=1764237610.0,
    ended=1764237700.0,
    restarts=1,
    exit_code="1:0",
)


def test_a_job_of_the_controller() -> None:
    """Of a heterogeneous job the first component, with the nodes of all."""
    assert record_of_scontrol(WORKERS + REDUCERS, 17) == ENDED
    assert record_of_scontrol(WAITS, 17) == JobRecord(
        id=17, state="PENDING", name="t-1", reason="Priority", submitted=1764237600.0
    )
    assert record_of_scontrol(WAITS, 1) is None


def test_a_job_of_accounting() -> None:
    row = "CANCELLED by 1000|0:15|1764237600|1764237610|1764237700|n[1-2]|1|t-1|with a bar\n"
    assert record_of_sacct(f"\n{row}", 17) == JobRecord(
        id=17,
        state="CANCELLED",
        name="t-1|with a bar",
        nodes="n[1-2]",
        submitted=1764237600.0,
        started=1764237610.0,
        ended=1764237700.0,
        restarts=1,
        exit_code="0:15",
    )
    pending = record_of_sacct("PENDING|0:0|1764237600|Unknown|Unknown|None assigned||t-1\n", 17)
    assert pending is not None
    assert (pending.started, pending.ended, pending.restarts) == (None, None, 0)
    assert pending.nodes == ""
    assert record_of_sacct("sacct: error: slurmdbd is away\n", 17) is None


FORGOTTEN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
TIMES = "1764237600|1764237610|Unknown"


@pytest.mark.parametrize(
    ("sacct", "state"),
    [
        (f"echo 'CANCELLED by 1000|0:15|{TIMES}|n1|0|t-1'", "CANCELLED"),
        (f"echo 'RUNNING|0:0|{TIMES}|n1|0|t-1'", None),
        (f"echo 'PENDING|0:0|{TIMES}|None assigned|0|t-1'", None),
        ("exec sleep 600", None),
        ("echo 'Slurm accounting storage is disabled' >&2; exit 1", None),
    ],
)
def test_a_job_that_the_controller_has_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sacct: str, state: str | None
) -> None:
    """Accounting that is late, hangs or has missed the end does not keep a run alive forever."""
    for name, text in {"scontrol": FORGOTTEN, "sacct": sacct}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(commands, "_SECONDS", 5.0)
    monkeypatch.setattr(commands, "_ACCOUNTING_SECONDS", 0.2, raising=False)
    cluster = commands.CommandCluster("local", commands.run_locally, is_local=True)
    record = cluster.job(17)
    assert (record and record.state) == state
