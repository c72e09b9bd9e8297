"""The status of a job, by what Slurm says of it and what the job itself has written down."""

from __future__ import annotations

import pytest

from rsctl.targets.managed.service import JobStatus
from rsctl.targets.slurm.cluster import JobRecord
from rsctl.targets.slurm.records import record_of_scontrol
from rsctl.targets.slurm.rest import Answer, RestCluster
from rsctl.targets.slurm.states import States, read_states
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
        ("QOSGrpGRES", "a limit of its quality of service stops it (QOSGrpGRES)"),
        (
            "QOSNotAllowed",
            "its partition or account does not take its quality of service (QOSNotAllowed)",
        ),
        ("AssocMaxJobsLimit", "a limit of your account stops it (AssocMaxJobsLimit)"),
        (
            "launch_failed_requeued_held",
            "it is held in the queue: scontrol release (launch failed requeued held)",
        ),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            "the nodes that it needs are down, drained or reserved",
        ),
    ],
)
def test_why_a_job_waits(reason: str, shown: str) -> None:
    """With all that Slurm says: a shorter time limit helps in a maintenance alone."""
    assert str(pending(reason).reason).startswith(shown)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Resources", "2026-11-27T10:00:00.000000Z"),
        ("JobHeldUser", None),
        ("JobHeldAdmin", None),
        ("JobHoldMaxRequeue", None),
        ("job_requeued_in_held_state", None),
        ("launch_failed_requeued_held", None),
        ("PartitionConfig", None),
        ("QOSMaxNodePerJobLimit", None),
    ],
)
def test_a_job_that_waits_for_a_person_has_no_expected_start(
    reason: str, expected: str | None
) -> None:
    """Slurm 24.11 shows a time for a held job, too, and for one that its partition refuses."""
    status = status_of(JobRecord(7, "PENDING", reason=reason), States(), 1795773600.0)
    assert status is not None
    starts = {fact.name: fact.value for fact in status.facts}
    assert starts.get("expected_start") == expected
    assert ("expects to start" in str(status.reason)) == (expected is not None)


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
        ("PartitionConfig", "targets.slurm.partition"),
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


BEGUN = """\
2026-11-27T10:00:00.000000Z started c/7 0 n1
2026-11-27T10:00:01.000000Z running 0 worker 0 n1 10.0.0.1 2000
"""
LOST = "Slurm no longer knows the job, and the job has not written down how it ended"


@pytest.mark.parametrize(
    ("record", "ending", "expected", "codes"),
    [
        (None, "0 done", ("succeeded", None), []),
        (None, "1 done", ("failed", "exit code 1"), []),
        (None, "3 cannot convert image x on n1", ("failed", "cannot convert image x on n1"), []),
        (None, "143 time-limit", ("expired", "its time limit was reached"), []),
        (None, "0 time-limit", ("succeeded", None), []),
        (None, "143 ended", ("cancelled", "Slurm ended it"), []),
        (None, "", ("failed", LOST), ["forgotten"]),
        (JobRecord(7, "COMPLETED"), "0 done", ("succeeded", None), []),
        (JobRecord(7, "COMPLETED"), "0 time-limit", ("succeeded", None), []),
        (JobRecord(7, "CANCELLED"), "143 ended", ("cancelled", None), []),
        (JobRecord(7, "TIMEOUT"), "143 time-limit", ("expired", "its time limit was reached"), []),
        (
            JobRecord(7, "FAILED", exit_code="143:0"),
            "143 time-limit",
            ("expired", "it was stopped before its time limit"),
            [],
        ),
        (JobRecord(7, "FAILED", exit_code="1:0"), "1 done", ("failed", "exit code 1"), []),
        (JobRecord(7, "FAILED", exit_code="0:9"), "", ("failed", "signal 9"), []),
        (JobRecord(7, "FAILED", exit_code="3:0"), "3 no python3", ("failed", "no python3"), []),
        (
            JobRecord(7, "FAILED", reason="JobLaunchFailure"),
            "",
            ("failed", "Slurm could not start it"),
            ["node-failed"],
        ),
        (JobRecord(7, "NODE_FAIL"), "", ("failed", "a node failed"), ["node-failed"]),
        (
            JobRecord(7, "NODE_FAIL", failed_node="n1"),
            "",
            ("failed", "a node failed: n1"),
            ["node-failed"],
        ),
        (JobRecord(7, "PREEMPTED"), "143 ended", ("failed", "it was preempted"), ["node-failed"]),
        (JobRecord(7, "RUNNING"), "", ("running", None), []),
        (JobRecord(7, "NEW"), "", ("running", "its state is 'NEW'"), []),
    ],
)
def test_how_a_job_is_or_has_ended(
    record: JobRecord | None, ending: str, expected: tuple[str, str | None], codes: list[str]
) -> None:
    """Without a record Slurm has forgotten the job, and what it has written down decides."""
    ended = f"2026-11-27T10:00:09.000000Z ended {ending}\n" if ending else ""
    status = status_of(record, read_states(BEGUN + ended))
    assert status is not None
    assert (status.state, status.reason) == expected
    assert [finding.code for finding in status.findings] == codes


def test_a_job_that_neither_slurm_nor_its_folder_knows() -> None:
    """A file whose first line makes no sense still says how the job has ended."""
    assert status_of(None, States()) is None
    odd = BEGUN.replace("c/7", "c/x") + "2026-11-27T10:00:09.000000Z ended 0 done\n"
    status = status_of(None, read_states(odd))
    assert status is not None
    assert status.state == "succeeded"


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING"])
def test_a_job_without_ranks_is_starting(state: str) -> None:
    """Unless it ends before its ranks have started."""
    status = status_of(JobRecord(7, state), read_states(BEGUN.splitlines()[0]))
    assert status is not None
    assert status.state == ("starting" if state == "RUNNING" else "running")


def test_a_requeued_job_whose_script_has_written_nothing_yet_is_starting() -> None:
    """Its ranks ran in its earlier start. As running, and then starting, it would count twice."""
    begun = read_states(BEGUN + "2026-11-27T10:00:09.000000Z ended 143 ended\n")
    status = status_of(JobRecord(7, "RUNNING", restarts=1), begun)
    assert status is not None
    assert (status.state, status.attempt) == ("starting", 2)


def test_a_node_without_memory() -> None:
    status = status_of(JobRecord(7, "OUT_OF_MEMORY"), read_states(BEGUN))
    assert status is not None
    assert status.reason == "a node was out of the memory that the job asked for"
    [finding] = status.findings
    assert (finding.code, finding.path) == ("memory", "targets.slurm.memory")


def test_a_requeued_job_that_waits() -> None:
    """Its times are the cluster's; what Slurm shows as its start is the expected one."""
    record = JobRecord(
        7, "PENDING", reason="Priority", restarts=2, submitted=1764237600.0, started=1764241200.0
    )
    status = status_of(record, read_states(BEGUN), 1764241200.0)
    assert status is not None
    assert (status.state, status.time, status.started) == (
        *("queued", "2025-11-27T10:00:00.000000Z", None),
    )
    assert status.reason == (
        "jobs with a higher priority are before it (Priority); Slurm expects to start it at "
        "2025-11-27T11:00Z"
    )
    assert (status.attempt, status.restarted) == (3, "Slurm has requeued it")
    assert status.is_interrupted
    assert [(fact.name, fact.text) for fact in status.facts] == [
        ("slurm_job", "Slurm job 7"),
        ("requeued", "requeued 2 time(s)"),
        ("expected_start", "expected to start at 2025-11-27T11:00:00.000000Z"),
        ("replica_nodes", "worker-0 on n1"),
    ]
    assert [(f.code, f.message) for f in status.findings] == [
        ("requeued", "Slurm has requeued the job 2 time(s)")
    ]


def test_attempts_within_an_allocation_count() -> None:
    """As those that Slurm begins: a program without rsctl-launch says nothing of its start.

    The log may tell of the next attempt before the status does: until then Slurm has ended none.
    """
    first = status_of(JobRecord(7, "RUNNING"), read_states(BEGUN))
    assert first is not None
    assert not first.is_interrupted
    again = "2026-11-27T10:00:02.000000Z failed 0 7\n2026-11-27T10:00:03.000000Z running 1 x\n"
    for record in (JobRecord(7, "RUNNING"), None):
        status = status_of(record, read_states(BEGUN + again))
        assert status is not None
        assert (status.attempt, status.restarted) == (
            *(2, "exit code 7; the batch script has started all replicas again"),
        )
        assert not status.is_interrupted
    requeued = BEGUN + again + "2026-11-27T10:00:09.000000Z started c/7 1 n1\n"
    status = status_of(JobRecord(7, "RUNNING", restarts=1), read_states(requeued))
    assert status is not None
    assert (status.attempt, status.restarted) == (3, "Slurm has requeued it")
    assert status.is_interrupted


def test_the_times_of_a_job_that_has_ended() -> None:
    record = JobRecord(
        7, "COMPLETED", submitted=1764237600.0, started=1764241200.0, ended=1764244800.0
    )
    status = status_of(record, read_states(BEGUN))
    assert status is not None
    assert status.started == "2025-11-27T11:00:00.000000Z"
    assert status.time == "2025-11-27T12:00:00.000000Z"
