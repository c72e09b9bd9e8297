"""Jobs whose batch script has not begun, by Slurm's own records and the job's log."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.targets.managed.service import JobStatus
from rsctl.targets.slurm.commands import CommandCluster
from rsctl.targets.slurm.job import SlurmJob
from rsctl.targets.slurm.job_address import JobAddress

LONG_AGO, LATER = "1764230009", "32503680000"
EXEC = (
    "its batch script did not run: a start file of bash, such as ~/.bash_profile, has ended it or "
    "has replaced it by `exec`"
)

Status = Callable[..., JobStatus]


@pytest.fixture(params=["local", "ssh"])
def status(request: pytest.FixtureRequest, tmp_path: Path) -> Status:
    """The status of a job with this state, exit code and text in its log."""

    def read(
        state: str,
        code: str = "0:0",
        log: str | None = "",
        *,
        ended: str = LONG_AGO,
        nodes: str = "(null)",
    ) -> JobStatus:
        row = (
            f"JobId=7 JobName=t-1 JobState={state} Reason=None Restarts=0 ExitCode={code} "
            f"SubmitTime=1764230000 StartTime=1764230001 EndTime={ended} NodeList={nodes} "
            "Comment=rsctl:t-1\n"
        )

        def run(program: str) -> subprocess.CompletedProcess[bytes]:
            if "scontrol show job" in program:
                return subprocess.CompletedProcess([], 0, row.encode(), b"")
            return subprocess.run(["sh", "-s"], input=program.encode(), capture_output=True)

        if log is not None:
            (tmp_path / "t-1.batch.log").write_text(log)
        cluster = CommandCluster("ssh://login", run, is_local=request.param == "local")
        job = SlurmJob(JobAddress("ssh://login", "trial", 7, f"{tmp_path}/t-1"), cluster)
        return job.status()

    return read


CANNOT = "cannot make /shared/t-1 on n1: is targets.slurm.shared there, and may you write to it?"
QUOTA = "mkdir: cannot create directory '/shared/t-1': Disk quota exceeded"


@pytest.mark.parametrize(
    ("state", "code", "log", "expected"),
    [
        ("FAILED", "3:0", f"{QUOTA}\nrsctl: {CANNOT}\n", ("failed", CANNOT)),
        (
            "FAILED",
            "1:0",
            "Welcome\n/etc/profile: line 9: no license\n\n",
            (
                "failed",
                "exit code 1 before its batch script began: /etc/profile: line 9: no license",
            ),
        ),
        ("FAILED", "1:0", "", ("failed", "exit code 1")),
        ("FAILED", "1:0", None, ("failed", "exit code 1")),
        ("COMPLETED", "0:0", "", ("failed", EXEC)),
        ("COMPLETED", "0:0", "zsh: no terminal\n", ("failed", f"{EXEC}: zsh: no terminal")),
        ("CANCELLED", "0:15", "", ("cancelled", None)),
    ],
)
def test_why_a_job_has_not_begun(
    status: Status, state: str, code: str, log: str | None, expected: tuple[str, str | None]
) -> None:
    """A start file with `exec zsh` made a job that had done nothing a success."""
    found = status(state, code, log)
    assert (found.state, found.reason) == expected


@pytest.mark.parametrize(
    ("code", "nodes", "reason"),
    [
        (
            "0:0",
            "n[0-1]",
            "it ended before its batch script began on n[0-1]: it was cancelled, or the prolog of "
            "a node has failed",
        ),
        ("0:0", "(null)", None),
        ("0:15", "n0", None),
    ],
)
def test_a_job_whose_node_has_failed_its_prolog(
    status: Status, code: str, nodes: str, reason: str | None
) -> None:
    """Slurm 24.11 cancels such a job, if it may not be requeued, and says nothing of the node. A
    bench repeats runs with this finding.
    """
    found = status("CANCELLED", code, None, nodes=nodes)
    assert (found.state, found.reason) == ("cancelled", reason)
    assert [each.code for each in found.findings] == (["node-failed"] if reason else [])


def test_a_folder_that_is_not_seen_yet(status: Status, tmp_path: Path) -> None:
    """As by a client of NFS, whatever the clock of this machine says."""
    found = status("COMPLETED", ended=LATER)
    assert (found.state, found.reason) == (
        *("running", f"it has ended, and {tmp_path} does not show its folder yet"),
    )


def test_a_folder_of_another_user(status: Status, tmp_path: Path) -> None:
    """Its records cannot be read, so that Slurm's own word counts."""
    (tmp_path / "t-1").write_text("not a folder that one can enter")
    assert status("COMPLETED").state == "succeeded"
