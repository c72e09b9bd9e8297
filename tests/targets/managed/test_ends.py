"""How a run in a cloud has ended: the first failure, limits, jobs that are gone, a full disk."""

from __future__ import annotations

import errno
import sqlite3
from typing import Any

import msgspec
import pytest

from rsctl.findings import ExitCode, JobState, RsctlError, error, warning
from rsctl.node.structured_lines import lock_of
from rsctl.runs.final_state import with_final_state
from rsctl.runs.folder import CostLimit, RestartLimit, RunFolder
from rsctl.runs.store import Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import Failure, FindingEvent, LogEvent, UnnamedFailure, now
from rsctl.runs.stream.journal import JournalCopy
from rsctl.runs.watch_rules import WatchSpec
from rsctl.targets.managed.service import JobStatus, Unreachable
from rsctl.targets.sagemaker.job_address import JobAddress as SageMakerAddress
from rsctl.targets.sagemaker.status import status_of as sagemaker_status
from rsctl.targets.vertex.job_address import JobAddress as VertexAddress
from rsctl.targets.vertex.status import status_of as vertex_status
from tests.fixtures import real

from .conftest import FakeCloud, FakeTarget, at, followed, line, reported, stored

NODE = f'{{"rsctl": "node", "replica": "r", "host": "h", "lock": "{lock_of("k")}"}}'
EXIT = '{"rsctl": "exit", "code": 3, "rank": 1, "time": "2026-11-21T12:00:20.000000Z", "key": "k"}'


def test_the_first_failure_is_that_of_the_rank_that_died_first(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [
        line(18, "worker-1", NODE),
        line(19, "worker-1", "RuntimeError: boom"),
        line(20, "worker-1", EXIT),
        line(21, "worker-0", "Connection closed by peer"),
    ]
    theirs = Failure(replica="worker-0", time=at(49), exit_code=1)
    cloud.end(JobState.FAILED, reason="workerpool0-0 exited with 1", failed=[theirs])
    events = followed(target, run)
    assert reported(events)[-4:] == [
        "worker-0 failed (as a result of the failure of worker-1)",
        "worker-1 failed",
        "reducer-0 cancelled (stopped after worker-1 had failed)",
        "job failed (worker-1 failed with exit code 3)",
    ]
    failure = stored(run).first_failure
    assert failure is not None
    assert (failure.replica, failure.exit_code, failure.rank) == ("worker-1", 3, 1)
    assert failure.lines[-1] == "RuntimeError: boom"


@pytest.mark.parametrize(
    ("code", "printed", "reason"),
    [
        ('143, "signal": "SIGTERM"', "step 3", "it was preempted"),
        ('137, "signal": "SIGKILL"', "step 3", "it was preempted"),
        ("1", "RuntimeError: Connection closed by peer [10.0.0.2]:4711", "it was preempted"),
        ("1", "ValueError: bad data", "worker-1 failed with exit code 1"),
        ('137, "signal": "SIGKILL", "oom_kills": 0', "step 3", "it was preempted"),
        (
            '137, "signal": "SIGKILL", "oom_kills": 1',
            "step 3",
            "worker-1 failed with exit code 137",
        ),
    ],
)
def test_a_job_that_the_cluster_ends_has_the_clusters_reason(
    cloud: FakeCloud, target: FakeTarget, run: str, code: str, printed: str, reason: str
) -> None:
    """Its ranks are ended by a signal, or lose a peer. An error of the script counts, and memory
    that was exhausted.
    """
    exit_line = EXIT.replace('"code": 3', f'"code": {code}')
    cloud.lines = [
        line(18, "worker-1", NODE),
        line(19, "worker-1", printed),
        line(20, "worker-1", exit_line),
    ]
    ended = error("node-failed", "the cluster ended the job: PREEMPTED", "submit it again")
    cloud.end(JobState.FAILED, reason="it was preempted", findings=[ended])
    assert reported(followed(target, run))[-1] == f"job failed ({reason})"
    failure = stored(run).first_failure
    assert failure is not None
    assert "the sender is unknown" not in f"{failure.causes}"
    assert (ended in failure.causes) == ("signal" in code and reason == "it was preempted")


@pytest.mark.parametrize("by", ["user", "limit", "cluster"])
def test_no_node_is_blamed_for_a_cancellation_by_rsctl(
    cloud: FakeCloud, target: FakeTarget, run: str, by: str
) -> None:
    """Slurm cancels a job whose node has failed its prolog in the same way; a bench repeats it."""
    if by == "limit":
        folder = RunFolder(run)
        folder.create(msgspec.structs.replace(folder.description(), queue=60.0))
    events = target.events(run, {}, follow=True)
    next(events)
    if by == "user":
        target.cancel(run)
    lost = warning("node-failed", "it was cancelled, or a prolog has failed", "submit it again")
    cloud.end(JobState.CANCELLED, findings=[lost])
    rest = [event for batch in events for event in batch]
    found = [event.finding for event in rest if isinstance(event, FindingEvent)]
    assert found == ([lost] if by == "cluster" else [])


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.EXPIRED])
@pytest.mark.parametrize(("key", "is_kept"), [("k", True), ("own", False)])
def test_a_job_whose_failed_node_was_kept_has_failed(
    cloud: FakeCloud, target: FakeTarget, run: str, state: JobState, key: str, is_kept: bool
) -> None:
    """Whatever ends it then; the job's own programs do not know the key."""
    kept = f'{{"rsctl": "kept", "code": 3, "key": "{key}"}}'
    cloud.lines = [line(18, "worker-1", NODE), line(21, "worker-1", kept)]
    cloud.end(state)
    events = reported(followed(target, run))
    assert ("worker-1 failed" in events) == is_kept
    why = "job failed (worker-1 has failed with exit code 3)" if is_kept else f"job {state.value}"
    assert events[-1] == why


@pytest.mark.parametrize(
    "printed",
    [
        [EXIT],
        [EXIT.replace(', "key": "k"', "")],
        [EXIT.replace('"key": "k"', '"key": null')],
        [EXIT.replace('"key": "k"', f'"key": "{lock_of("own")}"')],
        ['{"rsctl": "exit", "code": 0}'],
        ['{"rsctl": "exit", "code": "x"}'],
    ],
)
@pytest.mark.parametrize("is_launched", [True, False])
def test_what_the_job_itself_prints_is_no_report(
    cloud: FakeCloud, target: FakeTarget, run: str, printed: list[str], is_launched: bool
) -> None:
    if is_launched:
        node = NODE.replace(lock_of("k"), lock_of("own"))
        cloud.lines = [line(18, "worker-1", node)]
    cloud.lines += [line(20 + n, "worker-1", text) for n, text in enumerate(printed)]
    theirs = Failure(replica="worker-1", time=at(49), exit_code=9)
    cloud.end(JobState.FAILED, failed=[theirs])
    assert reported(followed(target, run))[-1] == "job failed (worker-1 failed with exit code 9)"


def test_what_a_job_prints_after_its_launcher_is_no_announcement(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """Without a launcher it would count, as docs/explanation/security.md says."""
    own = NODE.replace(lock_of("k"), lock_of("own"))
    imitated = f'{{"rsctl": "exits", "lock": "{lock_of("k")}"}}'
    cloud.lines = [line(18 + n, "worker-1", text) for n, text in enumerate([own, imitated, EXIT])]
    theirs = Failure(replica="worker-1", time=at(49), exit_code=9)
    cloud.end(JobState.FAILED, failed=[theirs])
    assert reported(followed(target, run))[-1] == "job failed (worker-1 failed with exit code 9)"


def test_a_reducer_that_was_lost_before_the_workers_had_succeeded(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    lost = '{"rsctl": "exit", "code": 139, "rank": null, "time": "2026-11-21T12:00:20.000000Z"}'
    lost = lost.replace("}", ', "key": "k"}')
    cloud.lines = [
        line(10, "reducer-0", NODE),
        line(20, "reducer-0", lost),
        line(30, "worker-0", "loss=1"),
    ]
    cloud.end(JobState.SUCCEEDED)
    assert reported(followed(target, run))[-4:] == [
        "worker-0 succeeded",
        "worker-1 succeeded",
        "reducer-0 failed (the workers continued without it)",
        "job succeeded",
    ]


def test_a_job_that_ends_with_its_chief(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    cloud.lines = [line(30, "worker-0", "loss=1")]
    cloud.end(JobState.SUCCEEDED, ended_roles=())
    assert reported(followed(target, run))[-4:] == [
        "worker-0 succeeded",
        "worker-1 cancelled (ended with the chief, result not known)",
        "reducer-0 succeeded (stopped after the workers had ended)",
        "job succeeded",
    ]


def test_a_replica_without_a_log_is_explained_by_the_cloud(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    theirs = Failure(replica="worker-1", time=at(49), exit_code=137)
    cloud.end(JobState.FAILED, reason="worker-1 ran out of memory", failed=[theirs])
    followed(target, run)
    failure = stored(run).first_failure
    assert failure is not None
    assert (failure.replica, failure.lines) == ("worker-1", ["worker-1 ran out of memory"])


@pytest.mark.parametrize("one", real("job_errors"), ids=lambda one: one["text"][:40])
def test_the_jobs_own_error_has_a_cause(
    one: dict[str, Any], cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """The replica, its rank and the cause are read from the error text; there is no log."""
    status = status_of_failed(one["cloud"], one["text"], one["workers"])
    cloud.end(JobState.FAILED, reason=one["text"], failed=status.failed, findings=status.findings)
    followed(target, run)
    failure = stored(run).first_failure
    assert failure is not None
    causes = [cause.code for cause in failure.causes]
    assert causes[:1] == ([one["cause"]] if one["cause"] else [])
    assert all(cause.remedy for cause in failure.causes)
    assert [failure.replica, failure.exit_code] == one["failed"]
    assert (failure.rank, failure.signal) == (one["rank"], one["signal"])
    if one["named"]:
        assert failure.causes[0].message.endswith(f": {one['named']}")
    assert [finding.code for finding in status.findings] == list(filter(None, [one["finding"]]))


def status_of_failed(service: str, text: str, workers: int) -> JobStatus:
    """The status of a job of that many workers which failed with this text."""
    if service == "vertex":
        counts = [1, workers - 1] if workers > 1 else [1]
        job = {
            "state": "JOB_STATE_FAILED",
            "endTime": at(49),
            "error": {"code": 3, "message": text},
            "jobSpec": {"workerPoolSpecs": [{"replicaCount": str(n)} for n in counts]},
        }
        return vertex_status(job, VertexAddress.of_url("vertex://my-project/us-central1/42"), 0.0)
    answer = {"FailureReason": text, "TrainingJobStatus": "Failed", "TrainingEndTime": 1.0}
    resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": workers}
    address = SageMakerAddress("us-east-1", "job")
    return sagemaker_status({**answer, "ResourceConfig": resources}, address)


def test_the_log_has_the_say_over_the_jobs_own_error(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [line(20, "worker-0", "ModuleNotFoundError: No module named 'apex'")]
    text = "The replica workerpool0-0 exited with a non-zero status of 1.\nCUDA out of memory"
    status = status_of_failed("vertex", text, 1)
    cloud.end(JobState.FAILED, reason=text, failed=status.failed)
    followed(target, run)
    failure = stored(run).first_failure
    assert failure is not None
    assert [cause.code for cause in failure.causes] == ["module"]
    assert failure.lines == ["ModuleNotFoundError: No module named 'apex'"]


def test_mpirun_reports_on_the_chief_which_rank_failed_elsewhere(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    texts = [
        "[1,mpirank:8,worker-1]<stderr>:Traceback (most recent call last):",
        "[1,mpirank:8,worker-1]<stderr>:RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",
        "MPI_ABORT was invoked on rank 8 in communicator MPI_COMM_WORLD",
        "with errorcode 1.",
    ]
    cloud.lines = [line(20 + n, "worker-0", text) for n, text in enumerate(texts)]
    cloud.lines.append(line(30, "worker-1", "Orted process exited"))
    failed = [Failure(replica="worker-0", time=at(49), exit_code=1)]
    cloud.end(JobState.FAILED, reason="it failed", failed=failed)
    events = followed(target, run)
    failure = stored(run).first_failure
    assert failure is not None
    assert (failure.replica, failure.rank, failure.log) == ("worker-1", 8, "worker-0")
    assert [cause.code for cause in failure.causes] == ["gpu-memory"]
    assert reported(events)[-4:] == [
        "worker-0 failed (as a result of the failure of worker-1)",
        "worker-1 failed",
        "reducer-0 cancelled (stopped after worker-1 had failed)",
        "job failed (worker-1 failed with exit code 1)",
    ]


def test_a_cause_in_the_error_of_a_job_whose_failed_replica_is_not_named(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    text = "AlgorithmError: OSError: [Errno 28] No space left on device"
    cloud.end(JobState.FAILED, reason=text)
    events = followed(target, run)
    findings = [event.finding for event in events if isinstance(event, FindingEvent)]
    assert [(finding.code, bool(finding.remedy)) for finding in findings] == [("disk", True)]
    assert stored(run).reason == text


def test_why_it_ended_may_come_after_the_end(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.end(JobState.FAILED, reason="to be reported", is_settled=False)
    events = target.events(run, {}, follow=True)
    assert [event for _ in range(5) for event in next(events)] == []
    assert stored(run).state is JobState.FAILED
    theirs = Failure(replica="worker-1", time=at(49), exit_code=1)
    cloud.end(JobState.FAILED, reason="worker-1 exited with 1", failed=[theirs])
    assert reported([event for batch in events for event in batch])[-1] == (
        "job failed (worker-1 failed with exit code 1)"
    )
    assert stored(run).reason == "worker-1 failed with exit code 1"


def test_a_time_limit_may_be_known_after_the_end(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [line(10, "worker-0", "up")]
    cloud.end(JobState.FAILED, reason="to be reported", is_settled=False)
    events = target.events(run, {}, follow=True)
    next(events)
    cloud.end(JobState.EXPIRED, reason="it ran longer than 1 h")
    assert reported([event for batch in events for event in batch]) == [
        "worker-0 cancelled (stopped after the job's time limit was reached)",
        "worker-1 cancelled (stopped after the job's time limit was reached)",
        "reducer-0 cancelled (stopped after the job's time limit was reached)",
        "job expired (it ran longer than 1 h)",
    ]
    known = stored(run)
    assert (known.state, known.exit_code) == (JobState.EXPIRED, 6)


def test_a_job_that_waits_too_long_is_cancelled_and_has_expired(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    folder = RunFolder(run)
    folder.create(msgspec.structs.replace(folder.description(), queue=60.0))
    events = target.events(run, {}, follow=True)  # it is queued since a day that has long passed
    assert reported(next(events)) == ["job queued"]
    for _ in range(3):
        next(events)
    assert cloud.calls.count("cancel") == 1
    assert cloud.calls.count("status") > 1
    cloud.end(JobState.CANCELLED)
    rest = [event for batch in events for event in batch]
    assert reported(rest)[-1] == "job expired (it waited longer than limits.queue of 60 s)"
    known = stored(run)
    assert (known.state, known.exit_code) == (JobState.EXPIRED, 6)


def test_a_job_that_has_its_machines_does_not_wait_for_them(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """It downloads what it needs, which is billed."""
    folder = RunFolder(run)
    folder.create(msgspec.structs.replace(folder.description(), queue=60.0))
    cloud.status = JobStatus(state=JobState.STARTING, time=at(0), has_machines=True)
    target.poll(run)
    assert not cloud.cancelled
    target.release(run)
    cloud.status = JobStatus(state=JobState.STARTING, time=at(0))
    target.poll(run)
    assert cloud.cancelled


def test_the_wait_for_machines_counts_by_the_clock_of_the_cloud(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """This machine's clock is days ahead of the job's times."""
    folder = RunFolder(run)
    folder.create(msgspec.structs.replace(folder.description(), queue=50.0))
    for seconds, is_cancelled in ((50, False), (51, True)):
        cloud.status = JobStatus(state=JobState.QUEUED, time=at(0), at=at(seconds))
        target.poll(run)
        target.release(run)
        assert cloud.cancelled is is_cancelled


@pytest.fixture
def dear(run: str) -> str:
    """A run that costs 360 dollars an hour, and may cost 5."""
    folder = RunFolder(run)
    limit = CostLimit(dollars=5.0, per_hour=360.0, ends_at_limit=False)
    folder.create(msgspec.structs.replace(folder.description(), cost=limit))
    return run


def test_a_job_that_costs_too_much_is_cancelled_and_has_expired(
    cloud: FakeCloud, target: FakeTarget, dear: str
) -> None:
    events = target.events(dear, {}, follow=True)
    next(events)
    assert not cloud.cancelled  # what it waits for does not cost
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(0))  # since a day that has passed
    target.poll(dear)
    while not cloud.cancelled:
        next(events)
    cloud.end(JobState.CANCELLED)
    rest = [event for batch in events for event in batch]
    assert reported(rest)[-1] == (
        "job expired (it has reached its limits.cost of 5.00 USD: ended by rsctl)"
    )
    assert cloud.calls.count("cancel") == 1
    known = stored(dear)
    assert (known.state, known.exit_code) == (JobState.EXPIRED, 6)


def test_costs_count_by_the_clock_of_the_cloud(
    cloud: FakeCloud, target: FakeTarget, dear: str
) -> None:
    for seconds, is_cancelled in ((50, False), (51, True)):
        cloud.status = JobStatus(state=JobState.RUNNING, time=at(0), at=at(seconds))
        target.poll(dear)
        target.release(dear)
        assert cloud.cancelled is is_cancelled


def test_the_time_before_a_job_runs_costs_if_it_is_billed(
    cloud: FakeCloud, target: FakeTarget, dear: str
) -> None:
    cloud.status = JobStatus(state=JobState.STARTING, time=at(0), started=at(0))
    target.poll(dear)
    assert cloud.cancelled


def test_the_time_before_a_restart_costs_too(
    cloud: FakeCloud, target: FakeTarget, dear: str
) -> None:
    """Its machines may stay. Here the job runs, is started again, and is still being started."""
    folder = RunFolder(dear)
    limit = CostLimit(dollars=5.0, per_hour=0.000001, ends_at_limit=False)
    folder.create(msgspec.structs.replace(folder.description(), cost=limit))
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(0))
    target.poll(dear)
    target.release(dear)
    assert not cloud.cancelled  # it is cheap so far
    folder.create(
        msgspec.structs.replace(
            folder.description(), cost=msgspec.structs.replace(limit, per_hour=360.0)
        )
    )
    cloud.status = JobStatus(state=JobState.STARTING, time=at(40))
    target.poll(dear)
    assert cloud.cancelled


class LossyCloud(FakeCloud):
    """Its first cancel call, or the answer to it, is lost."""

    def __init__(self, is_answer: bool) -> None:
        super().__init__()
        self.is_answer = is_answer

    def call(self, name: str) -> None:
        super().call(name)
        assert len(self.calls) < 1000
        if name == "cancel":
            is_first = self.calls.count("cancel") == 1
            if self.is_answer or not is_first:
                self.end(JobState.CANCELLED)
            if is_first:
                raise Unreachable("the cloud gives no answer")


STALL = '{"rsctl": "stall", "number": 1, "ranks": 0, "quiet": 11, "idle": 11, "trains": true}'


@pytest.mark.parametrize("is_answer", [True, False])
@pytest.mark.parametrize(
    ("limit", "state", "lines", "end"),
    [
        ({"queue": 60.0}, JobState.QUEUED, {}, "expired (it waited longer than limits.queue"),
        (
            {"cost": CostLimit(dollars=5.0, per_hour=360.0, ends_at_limit=False)},
            *(JobState.RUNNING, {}, "expired (it has reached its limits.cost of 5.00 USD"),
        ),
        (
            {"restarts": RestartLimit(0, is_spot=False)},
            *(JobState.RUNNING, {1: NODE, 9: NODE}, "failed (it was restarted more often than"),
        ),
        (
            {"stall": 10, "on_stall": "fail"},
            *(JobState.RUNNING, {1: STALL}, "failed (ended by rsctl: it had stalled: "),
        ),
        (
            {"watch": {"high": WatchSpec(metric="loss", above="5", fails=True)}},
            *(
                JobState.RUNNING,
                {1: "loss=9", 2: "loss=8"},
                "failed (ended by rsctl: loss is 9, above 5",
            ),
        ),
    ],
)
def test_a_limit_ends_a_job_although_a_cancel_call_or_its_answer_is_lost(
    run: str,
    limit: dict[str, Any],
    state: JobState,
    lines: dict[int, str],
    end: str,
    is_answer: bool,
) -> None:
    folder, cloud = RunFolder(run), LossyCloud(is_answer)
    folder.create(msgspec.structs.replace(folder.description(), **limit))
    cloud.status = JobStatus(state=state, time=at(0))
    workers = ("worker-0", "worker-1")
    cloud.lines = [line(second, name, lines[second]) for second in lines for name in workers]
    events = reported(followed(FakeTarget(cloud), run))
    assert [words for words in events if words.startswith(f"job {end}")]
    values = [metric.value for _, metric in Store().metrics(run)]
    assert values == [float(text[5:]) for text in lines.values() if "loss" in text for _ in workers]


def test_a_user_cancels_a_job_with_a_limit(cloud: FakeCloud, target: FakeTarget, dear: str) -> None:
    cloud.end(JobState.CANCELLED)
    assert reported(followed(target, dear))[-1] == "job cancelled"


def test_a_time_limit_that_is_what_the_cost_pays_for_says_so(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    folder = RunFolder(run)
    limit = CostLimit(dollars=5.0, per_hour=360.0, ends_at_limit=True)
    folder.create(msgspec.structs.replace(folder.description(), cost=limit))
    cloud.end(JobState.EXPIRED, reason="it ran longer than 50s")
    assert reported(followed(target, run))[-1] == (
        "job expired (it has run for as long as its limits.cost of 5.00 USD allows)"
    )


class _Gone:
    """The cloud knows no such job."""

    def __init__(self, cloud: FakeCloud) -> None:
        self.cloud, self.refuses = cloud, True

    def __call__(self, name: str) -> None:
        self.cloud.calls.append(name)
        if self.refuses and name in ("status", "cancel"):
            finding = error("not-found", "the cloud has no job 7")
            raise RsctlError(ExitCode.REFUSED, finding)


def test_a_job_that_the_cloud_does_not_know_any_more_has_ended(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud, "call", _Gone(cloud))
    events = followed(target, run)
    why = "the job no longer exists in the cloud: the cloud has no job 7"
    assert reported(events) == [f"job failed ({why})"]
    assert stored(run).ended is not None
    calls = len(cloud.calls)
    target.reconcile(run)
    assert len(cloud.calls) == calls  # nobody asks again


def test_a_job_that_is_gone_can_be_cancelled(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud, "call", _Gone(cloud))
    target.cancel(run)
    target.reconcile(run)
    assert stored(run).state is JobState.FAILED


def test_a_new_job_may_not_be_known_everywhere_yet(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(Store().path) as database:
        database.execute("UPDATE runs SET created=?", (now(),))
    gone = _Gone(cloud)
    monkeypatch.setattr(cloud, "call", gone)
    events = target.events(run, {}, follow=True)
    assert next(events) == []
    gone.refuses = False
    cloud.end(JobState.SUCCEEDED)
    assert reported([event for batch in events for event in batch])[-2:] == [
        "job succeeded",
        "job finding metric-unseen",
    ]


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED])
def test_a_full_disk_does_not_hide_how_a_job_ended(
    cloud: FakeCloud,
    target: FakeTarget,
    run: str,
    monkeypatch: pytest.MonkeyPatch,
    state: JobState,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def full_store(*_: object) -> None:
        raise DiskFull(ExitCode.ENVIRONMENT, error("store", "its disk is full"))

    events = target.events(run, {}, follow=True)
    assert reported(next(events)) == ["job queued"]
    with monkeypatch.context() as patch:
        patch.setattr(JournalCopy, "write", full)
        patch.setattr(Store, "keep", full_store)
        patch.setattr(Store, "record", full_store)
        cloud.lines = [line(10, "worker-0", "loss=1")]
        cloud.end(state)
        seen = reported([event for batch in events for event in batch])
    assert "job finding disk-full" in seen
    known = stored(run)
    assert not known.state.is_final
    assert (with_final_state(known).state, with_final_state(known).ended) == (state, at(50))
    # With space again, the rest is collected.
    assert "10 worker-0: loss=1" in reported(followed(target, run))
    assert stored(run).state is state


def test_a_full_disk_does_not_let_a_job_run_beyond_its_limit(
    cloud: FakeCloud, target: FakeTarget, dear: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_store(*_: object) -> None:
        raise DiskFull(ExitCode.ENVIRONMENT, error("store", "its disk is full"))

    cloud.status = JobStatus(state=JobState.RUNNING, time=at(0))
    with monkeypatch.context() as patch:
        patch.setattr(Store, "keep", full_store)
        target.poll(dear)
    assert cloud.cancelled


def test_a_job_that_ended_before_it_was_seen_to_run_has_its_start(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """What it cost counts from there."""
    cloud.end(JobState.SUCCEEDED, started=at(10))
    events = followed(target, run)
    assert reported(events)[0] == "job running"
    known = stored(run)
    assert (known.started, known.ended, known.state) == (at(10), at(50), JobState.SUCCEEDED)


def test_a_job_that_never_ran_has_no_start(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    cloud.end(JobState.FAILED, reason="no machines")
    followed(target, run)
    assert stored(run).started is None


TOOLKIT = "2026-11-21 12:00:{second:02},000 sagemaker-training-toolkit ERROR    {text}"


def toolkit_lines(second: int, replica: str, code: int, problem: str) -> list[LogEvent]:
    """What AWS's toolkit writes: trainer.py's `train`, errors.py's `_CalledProcessError`."""
    texts = [
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        problem,
        TOOLKIT.format(second=second, text="Reporting training FAILURE"),
        TOOLKIT.format(second=second, text="ExecuteUserScriptError:"),
        f"ExitCode {code}",
        f'ErrorMessage "{problem}',
        '"',
        'Command "/opt/conda/bin/python3.12 train.py"',
        TOOLKIT.format(second=second, text="Encountered exit_code 1"),
    ]
    return [line(second, replica, text, f"{replica}-{second}-{n}") for n, text in enumerate(texts)]


def test_the_toolkits_reports_in_the_logs_say_who_failed(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [
        line(10, "worker-0", "loss=1"),
        *toolkit_lines(20, "worker-1", 3, "ValueError: no such column"),
        *toolkit_lines(25, "worker-0", 1, "RuntimeError: Connection closed by peer"),
    ]
    reason = (
        'AlgorithmError: ExecuteUserScriptError:\nExitCode 3\nErrorMessage "ValueError: no such'
    )
    cloud.end(JobState.FAILED, reason=reason, unnamed=UnnamedFailure(exit_code=3, text=reason))
    events = followed(target, run)
    assert reported(events)[-4:] == [
        "worker-0 failed (as a result of the failure of worker-1)",
        "worker-1 failed",
        "reducer-0 cancelled (stopped after worker-1 had failed)",
        "job failed (worker-1 failed with exit code 3)",
    ]
    failure = stored(run).first_failure
    assert failure is not None
    assert (failure.replica, failure.exit_code) == ("worker-1", 3)
    assert "ValueError: no such column" in failure.lines


@pytest.mark.parametrize(
    ("lines", "text", "expected"),
    [
        (
            {"worker-1": ["Traceback (most recent call last):", "  x", "KeyError: 'a'"]},
            "AlgorithmError: , exit code: 1",
            ["worker-1"],
        ),
        (
            {
                "worker-0": ["Traceback (most recent call last):", "KeyError: 'tried again'"]
                + [f"step {n}" for n in range(60)],
                "worker-1": ["/usr/bin/train: line 3: torchrun: command not found"],
            },
            "AlgorithmError: /usr/bin/train: line 3: torchrun: command not found, exit code: 127",
            ["worker-1"],
        ),
        ({"worker-0": ["loss=1"], "worker-1": ["loss=2"]}, "AlgorithmError: , exit code: 7", []),
        ({}, "AlgorithmError: , exit code: 7", []),
    ],
)
def test_other_logs_say_who_failed_by_what_they_end_with(
    cloud: FakeCloud,
    target: FakeTarget,
    run: str,
    lines: dict[str, list[str]],
    text: str,
    expected: list[str],
) -> None:
    cloud.lines = [
        line(10, replica, each, f"{replica}-{number}")
        for replica, texts in lines.items()
        for number, each in enumerate(texts)
    ]
    code = int(text.rpartition(" ")[2])
    cloud.end(JobState.FAILED, reason=text, unnamed=UnnamedFailure(exit_code=code, text=text))
    states = reported(followed(target, run))
    assert [each.split()[0] for each in states if each.startswith(("worker", "reducer"))
            and " failed" in each.partition("(")[0]] == expected  # fmt: skip
    failure = stored(run).first_failure
    assert (failure.exit_code if failure else None) == (code if expected else None)
