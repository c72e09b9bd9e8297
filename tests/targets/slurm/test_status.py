"""Why a job waits, as `scontrol show job` and slurmrestd say it."""

from __future__ import annotations

import pytest

from rsctl.targets.managed.service import JobStatus
from rsctl.targets.slurm.records import record_of_scontrol
from rsctl.targets.slurm.rest import Answer, RestCluster
from rsctl.targets.slurm.states import States
from rsctl.targets.slurm.status import status_of


def pending(reason: str) -> JobStatus:
    """The status of a job that waits for a reason."""
    text = f"JobId=7 JobName=x JobState=PENDING Reason={reason} Dependency=(null) Restarts=0\n"
    status = status_of(record_of_scontrol(text, 7), States())
    assert status is not None
    return status


MAINTENANCE = (
    "its time limit reaches into a maintenance, whose times `scontrol show reservation` shows "
    "(ReqNodeNotAvail, Reserved for maintenance)"
)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("Priority", "jobs with a higher priority are before it (Priority)"),
        ("ReqNodeNotAvail,_Reserved_for_maintenance", MAINTENANCE),
        ("ReqNodeNotAvail, Reserved for maintenance", MAINTENANCE),
        (
            "ReqNodeNotAvail, UnavailableNodes:gpu[1-3]",
            "a node that it needs is not available (ReqNodeNotAvail, UnavailableNodes:gpu[1-3])",
        ),
        ("Burst_buffer_pre_run", "Burst buffer pre run"),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            "the nodes that it needs are down, drained or reserved",
        ),
    ],
)
def test_why_a_job_waits(reason: str, shown: str) -> None:
    """With all that Slurm says: a shorter time limit helps in a maintenance alone."""
    assert str(pending(reason).reason).startswith(shown)


def test_why_a_job_waits_by_slurmrestd() -> None:
    """Its description has what the commands show as the reason."""
    row = {
        "job_id": 7,
        "job_state": ["PENDING"],
        "state_reason": "ReqNodeNotAvail",
        "state_description": "ReqNodeNotAvail, Reserved for maintenance",
    }

    class Requests:
        who, remedy_of_login = "slurmrestd", ""

        def call(self, method: str, path: str, body: object = None) -> Answer:
            del method, path, body
            return Answer(200, {"jobs": [row]})

    status = status_of(RestCluster("http://localhost:6820", Requests()).job(7), States())
    assert status is not None
    assert status.reason == MAINTENANCE


@pytest.mark.parametrize(
    ("reason", "path"),
    [
        ("PartitionTimeLimit", "limits.timeout"),
        ("QOSMaxWallDurationPerJobLimit", "limits.timeout"),
        ("AssocMaxNodePerJobLimit", "workers.count"),
        ("QOSMaxGRESPerJob", "workers.count"),
        ("DependencyNeverSatisfied", "targets.slurm.sbatch"),
        ("InvalidAccount", "targets.slurm.account"),
        ("InvalidQOS", "targets.slurm.qos"),
        ("QOSMaxJobsPerUserLimit", None),
        ("AssocGrpGRES", None),
        ("Resources", None),
    ],
)
def test_a_job_that_never_starts_has_a_warning(reason: str, path: str | None) -> None:
    """A limit of all jobs together passes; a limit of one job does not."""
    findings = [f for f in pending(reason).findings if f.code == "pending"]
    assert [f.path for f in findings] == ([path] if path else [])
    assert all(f.remedy for f in findings)
