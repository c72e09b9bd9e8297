"""A job with the ID of a run's job that is not the run's: on another cluster, or after a controller
has lost its state and numbers its jobs from an earlier ID (seen with 24.11).
"""

from __future__ import annotations

import subprocess

import pytest

from rsctl.findings import RsctlError
from rsctl.targets.slurm.commands import CommandCluster
from rsctl.targets.slurm.job import SlurmJob
from rsctl.targets.slurm.job_address import JobAddress

CONTROLLER = "JobId=7 JobName={name} JobState=RUNNING Comment={comment} Restarts=0 ExitCode=0:0\n"
ACCOUNTING = "TIMEOUT|0:0|1764230000|1764230001|1764233601|n0|0|{name}\n"
FORGOTTEN = "slurm_load_jobs error: Invalid job id specified\n"


def job(form: str, name: str, comment: str) -> tuple[SlurmJob, list[str]]:
    """The job 7 of run `ours-1`, on a cluster whose job 7 is this one, and what it is asked."""
    asked: list[str] = []
    shown = form.format(name=name, comment=comment).encode()

    def run(program: str) -> subprocess.CompletedProcess[bytes]:
        asked.append(program)
        if "sacct" in program or (form == CONTROLLER and "scontrol show job" in program):
            return subprocess.CompletedProcess([], 0, shown, b"")
        if "scontrol show job" in program:
            return subprocess.CompletedProcess([], 1, b"", FORGOTTEN.encode())
        return subprocess.CompletedProcess([], 0, b"", b"")

    cluster = CommandCluster("ssh://login", run, is_local=True)
    return SlurmJob(JobAddress("ssh://login", "trial", 7, "/nowhere/ours-1"), cluster), asked


@pytest.mark.parametrize(
    ("form", "name", "comment"),
    [
        (CONTROLLER, "theirs-2", "rsctl:theirs-2"),
        (CONTROLLER, "theirs", "(null)"),
        (CONTROLLER, "theirs", "project=physics"),
        (CONTROLLER, "ours-1", "rsctl:ours-11"),
        (ACCOUNTING, "theirs", ""),
    ],
)
def test_the_job_of_another_is_left_alone(form: str, name: str, comment: str) -> None:
    """It is not the run's, and `rsctl cancel` does not end it."""
    other, asked = job(form, name, comment)
    with pytest.raises(RsctlError, match="knows no job 7 of run ours-1"):
        other.status()
    other.cancel()
    assert not any("scancel" in program for program in asked)


@pytest.mark.parametrize(
    ("form", "comment"),
    [
        (CONTROLLER, "rsctl:ours-1"),
        (CONTROLLER, "rsctl:ours-1,x"),
        (CONTROLLER, "(null)"),
        (CONTROLLER, "project=physics"),  # a plugin of the cluster has replaced it
        (ACCOUNTING, ""),
    ],
)
def test_the_job_of_the_run(form: str, comment: str) -> None:
    """By the comment; by the name where Slurm names no comment, as accounting."""
    own, asked = job(form, "ours-1", comment)
    assert own.status().state == ("expired" if form == ACCOUNTING else "starting")
    own.cancel()
    assert "scancel 7" in asked[-1]


def test_a_job_that_was_submitted_elsewhere() -> None:
    """It is described by its URL and by what the cluster says of it."""
    own, _ = job(ACCOUNTING, "ours-1", "")
    described = own.describe()
    assert (described.name, described.run) == ("ours-1", "ours-1")
    assert described.created == "2025-11-27T07:53:20.000000Z"
    assert described.request == {"connection": "ssh://login", "folder": "/nowhere/ours-1"}
    assert [(pool.role, pool.count) for pool in described.pools] == [("worker", 1)]
    other, _ = job(ACCOUNTING, "theirs", "")
    with pytest.raises(RsctlError, match="knows no job 7 of run ours-1"):
        other.describe()
