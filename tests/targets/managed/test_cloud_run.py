"""A run in a cloud, from its submission to its end, whatever is killed or lost on the way."""

from __future__ import annotations

import errno
import json
import sqlite3
from typing import Any

import msgspec
import pytest

from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.final_state import with_final_state
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import Run, Store
from rsctl.runs.store_errors import DiskFull
from rsctl.spec.job import Image, Job
from rsctl.spec.job import Run as Command
from rsctl.stream.events import Failure, FindingEvent, MetricEvent, now
from rsctl.stream.journal import JournalCopy
from rsctl.targets.base import ImagePlan, Plan, replica_names
from rsctl.targets.managed.collector import Collector
from rsctl.targets.managed.fill import filled
from rsctl.targets.managed.service import JobStatus, Line

from .conftest import POOLS, URL, FakeCloud, FakeTarget, Killed, at, followed, line, told

EXIT = '{"rsctl": "exit", "code": 3, "rank": 1, "time": "2026-11-21T12:00:20.000000Z"}'


def stored(run: str) -> Run:
    found = Store().get(run)
    assert found is not None
    return found


def states(run: str) -> list[tuple[str, str, int | None, str | None]]:
    return [(r.replica, r.state.value, r.exit_code, r.reason) for r in stored(run).replicas]


def test_a_run_is_told_from_its_queue_to_its_end(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.status = JobStatus(state=JobState.QUEUED, time=at(0), reason="waiting for quota")
    events = target.events(run, {}, follow=True)
    seen = next(events)
    cloud.lines = [
        line(10, "worker-0", "epoch 1 loss=0.5"),
        line(11, None, "the service says hello"),
        line(12, "reducer-0", "up"),
    ]
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(5))
    cloud.end(JobState.SUCCEEDED)
    seen += [event for batch in events for event in batch]
    assert told(seen) == [
        "job queued (waiting for quota)",
        "worker-0 running",
        "10 worker-0: epoch 1 loss=0.5",
        "reducer-0 running",
        "12 reducer-0: up",
        "worker-0 succeeded",
        "worker-1 succeeded",
        "reducer-0 succeeded (stopped after the workers had ended)",
        "job succeeded",
    ]
    known = stored(run)
    assert (known.state, known.exit_code, known.ended) == (JobState.SUCCEEDED, 0, at(50))
    assert cloud.log_since == "2026-11-21T11:50:00.000000Z"  # clocks may differ
    metrics = [metric for _, metric in Store().metrics(run)]
    assert metrics == [MetricEvent(time=at(10), replica="worker-0", name="loss", value=0.5)]


def test_what_the_service_says_stands_beside_the_state(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [line(3, None, "Resources are insufficient in region: r.")]
    events = target.events(run, {}, follow=True)
    seen = [event for _ in range(4) for event in next(events)]
    assert told(seen) == ["job queued", "job queued (Resources are insufficient in region: r.)"]


def test_a_line_that_comes_late_keeps_its_place(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [
        line(10, "worker-0", "a"),
        line(20, "worker-0", "c"),
        line(15, "worker-0", "late"),
        line(30, "worker-0", "d"),
    ]
    cloud.end(JobState.SUCCEEDED)
    lines = [text for text in told(followed(target, run)) if text[:2].isdigit()]
    assert lines == ["10 worker-0: a", "20 worker-0: c", "20 worker-0: late", "30 worker-0: d"]


def test_the_first_failure_is_that_of_the_rank_that_died_first(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [
        line(19, "worker-1", "RuntimeError: boom"),
        line(20, "worker-1", EXIT),
        line(21, "worker-0", "Connection closed by peer"),
    ]
    theirs = Failure(replica="worker-0", time=at(49), exit_code=1)
    cloud.end(JobState.FAILED, reason="workerpool0-0 exited with 1", failed=[theirs])
    events = followed(target, run)
    assert told(events)[-4:] == [
        "worker-0 failed (in the wake of worker-1)",
        "worker-1 failed",
        "reducer-0 cancelled (stopped after worker-1 had failed)",
        "job failed (worker-1 failed with exit code 3)",
    ]
    failure = stored(run).first_failure
    assert failure is not None
    assert (failure.replica, failure.exit_code, failure.rank) == ("worker-1", 3, 1)
    assert failure.lines == ["RuntimeError: boom"]


def test_a_reducer_that_was_lost_before_the_workers_had_succeeded(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    lost = '{"rsctl": "exit", "code": 139, "rank": null, "time": "2026-11-21T12:00:20.000000Z"}'
    cloud.lines = [line(20, "reducer-0", lost), line(30, "worker-0", "loss=1")]
    cloud.end(JobState.SUCCEEDED)
    assert told(followed(target, run))[-4:] == [
        "worker-0 succeeded",
        "worker-1 succeeded",
        "reducer-0 failed (the workers went on without it)",
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


def test_why_it_ended_may_come_after_the_end(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.end(JobState.FAILED, reason="to be told", is_settled=False)
    events = target.events(run, {}, follow=True)
    assert [event for _ in range(5) for event in next(events)] == []
    assert stored(run).state is JobState.FAILED
    theirs = Failure(replica="worker-1", time=at(49), exit_code=1)
    cloud.end(JobState.FAILED, reason="worker-1 exited with 1", failed=[theirs])
    assert told([event for batch in events for event in batch])[-1] == (
        "job failed (worker-1 failed with exit code 1)"
    )
    assert stored(run).reason == "worker-1 failed with exit code 1"


def test_a_time_limit_may_be_told_after_the_end(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [line(10, "worker-0", "up")]
    cloud.end(JobState.FAILED, reason="to be told", is_settled=False)
    events = target.events(run, {}, follow=True)
    next(events)
    cloud.end(JobState.EXPIRED, reason="it ran longer than 1 h")
    assert told([event for batch in events for event in batch]) == [
        "worker-0 cancelled (stopped after the job's time had run out)",
        "worker-1 cancelled (stopped after the job's time had run out)",
        "reducer-0 cancelled (stopped after the job's time had run out)",
        "job expired (it ran longer than 1 h)",
    ]
    known = stored(run)
    assert (known.state, known.exit_code) == (JobState.EXPIRED, 6)


def test_a_second_follower_reads_what_the_first_collects(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [line(10, "worker-0", "a")]
    first = target.events(run, {}, follow=True)
    next(first)
    asked = len(cloud.calls)
    second = FakeTarget(cloud).events(run, {}, follow=True)
    seen = [event for _ in range(3) for event in next(second)]
    assert told(seen) == ["job queued", "worker-0 running", "10 worker-0: a"]
    assert len(cloud.calls) == asked
    first.close()
    cloud.end(JobState.CANCELLED)
    rest = [event for batch in second for event in batch]
    assert told(rest)[-1] == "job cancelled"


def test_a_killed_collector_loses_and_repeats_nothing(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(1))
    cloud.lines = [line(second, "worker-0", f"loss={second}") for second in range(10, 20)]
    whole = Store.keep
    kept = 0

    def killed(self: Store, *arguments: Any) -> None:
        nonlocal kept
        kept += 1
        if kept == 4:
            raise KeyboardInterrupt
        whole(self, *arguments)

    monkeypatch.setattr(Store, "keep", killed)
    store, folder = Store(), RunFolder(run)
    collector = Collector(folder, store, cloud.open(URL), stored(run))
    with pytest.raises(KeyboardInterrupt):
        any(collector.step() is None for _ in range(100))
    cloud.end(JobState.SUCCEEDED)
    lines = [text for text in told(followed(target, run)) if text[:2].isdigit()]
    assert lines == [f"{second} worker-0: loss={second}" for second in range(10, 20)]
    values = [metric.value for _, metric in Store().metrics(run)]
    assert values == [float(second) for second in range(10, 20)]
    assert told(followed(target, run)).count("job running") == 1


def test_a_cloud_that_is_away_for_long_is_told_once(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.unreachable = 10
    cloud.end(JobState.SUCCEEDED)
    findings = [e.finding for e in followed(target, run) if isinstance(e, FindingEvent)][:1]
    assert [(f.severity, f.message) for f in findings] == [
        ("warning", "the cloud gives no answer; the job goes on, and is asked for again")
    ]


def test_findings_are_told_once_and_facts_are_kept(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    quota = error("quota", "quota is full", "ask for more")
    cloud.status = JobStatus(state=JobState.QUEUED, time=at(0), findings=[quota])
    events = target.events(run, {}, follow=True)
    seen = [event for _ in range(3) for event in next(events)]
    cloud.lines = [
        line(10, "worker-0", "NET/FastSocket : Using"),
        line(11, "worker-1", "NET/FastSocket : Using"),
    ]
    cloud.measured = [
        MetricEvent(time=at(30), replica="reducer-0", name="cloud.received", value=5.0)
    ]
    cloud.end(JobState.SUCCEEDED, findings=[quota])
    seen += [event for batch in events for event in batch]
    findings = [event.finding.code for event in seen if isinstance(event, FindingEvent)]
    assert findings == ["quota", "wrong-plugin", "metric-unseen"]
    assert stored(run).facts == [("engaged", "5 bytes, 1 noticed", True)]


def submitted(cloud: FakeCloud, target: FakeTarget, lost_by: type[BaseException]) -> Run:
    """What is known of a run whose submission has ended like this, after the job was made."""
    image = ImagePlan(tag=None, transport="none")
    pools = {"pools": POOLS, "world_size": 2}
    plan = Plan(run="t-bbbbbb", target="vertex", image=image, env={}, request={}, **pools)
    known = Run(
        run=plan.run,
        name="t",
        target="vertex",
        url="vertex://t-bbbbbb",
        state=JobState.QUEUED,
        created=now(),
        plan=msgspec.to_builtins(plan),
    )
    job = Job(name="t", run=Command(command=["true"]), image=Image(uri="i"))
    cloud.lost_by = lost_by
    with pytest.raises(lost_by):
        target.submit(plan, job, lambda: Store().add(known), lambda _event: None)
    return stored(plan.run)


def test_a_submission_that_was_killed_before_the_answer_is_found_again(
    cloud: FakeCloud, target: FakeTarget
) -> None:
    run = submitted(cloud, target, Killed)
    assert run.url == "vertex://t-bbbbbb"
    cloud.end(JobState.SUCCEEDED)
    assert told(followed(target, run.run))[-1] == "job succeeded"
    assert (stored(run.run).url, cloud.calls.count("create")) == (URL, 1)


def test_a_submission_that_was_interrupted_leaves_no_job(
    cloud: FakeCloud, target: FakeTarget
) -> None:
    assert submitted(cloud, target, KeyboardInterrupt).url == URL
    assert cloud.cancelled


def test_a_submission_that_never_reached_the_cloud_is_given_up(
    target: FakeTarget, run: str
) -> None:
    Store().locate(run, f"vertex://{run}")
    target.reconcile(run)  # it was created years ago, as far as its record says
    known = stored(run)
    assert (known.state, known.reason) == (JobState.FAILED, "it was killed before it was sent")
    assert followed(target, run) == []


def test_a_job_that_was_submitted_elsewhere(cloud: FakeCloud, target: FakeTarget) -> None:
    cloud.lines = [line(10, "worker-0", "a")]
    cloud.end(JobState.SUCCEEDED)
    run = target.adopt(URL).run
    assert (run, target.adopt(URL).run) == ("their-job-9bvf9a", run)
    assert "10 worker-0: a" in told(followed(target, run))
    assert [r.replica for r in stored(run).replicas] == replica_names(POOLS)


def test_a_job_that_waits_too_long_is_cancelled_and_has_expired(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    folder = RunFolder(run)
    folder.create(msgspec.structs.replace(folder.description(), queue=60.0))
    events = target.events(run, {}, follow=True)  # it is queued since a day that has long passed
    assert told(next(events)) == ["job queued"]
    assert cloud.cancelled
    cloud.end(JobState.CANCELLED)
    rest = [event for batch in events for event in batch]
    assert told(rest)[-1] == "job expired (it waited longer than limits.queue of 60 s)"
    known = stored(run)
    assert (known.state, known.exit_code) == (JobState.EXPIRED, 6)


def test_cancel_asks_the_cloud(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    target.cancel(run)
    assert cloud.cancelled


def test_what_a_request_leaves_open_is_filled_in() -> None:
    request = {
        "body": {
            "pools": [{"imageUri": "r/i:tag", "env": [{"name": "TOKEN", "value": None}]}, {}],
            "Environment": {"TOKEN": None, "A": "r/i:tag"},
            "other": None,
        }
    }
    before = json.dumps(request)
    assert filled(request, "r/i:tag", "r/i@sha256:1", {"TOKEN": "secret"}) == {
        "body": {
            "pools": [
                {"imageUri": "r/i@sha256:1", "env": [{"name": "TOKEN", "value": "secret"}]},
                {},
            ],
            "Environment": {"TOKEN": "secret", "A": "r/i:tag"},
            "other": None,
        }
    }
    assert json.dumps(request) == before


def test_lines_of_any_kind_survive(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    texts = ["", "\x1b[31mred\x1b[0m", "a\rb", "\udcff", "x" * 300_000]
    cloud.lines = [Line(at(10 + i), str(i), "worker-0", "stderr", t) for i, t in enumerate(texts)]
    cloud.end(JobState.SUCCEEDED)
    seen = [e.text for e in followed(target, run) if type(e).__name__ == "LogEvent"]
    assert "".join(seen[4:]) == "x" * 300_000
    assert seen[:4] == ["", "\x1b[31mred\x1b[0m", "a\rb", "\\udcff"]


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
    why = "the cloud has no such job any more: the cloud has no job 7"
    assert told(events) == [f"job failed ({why})"]
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
    assert told([event for batch in events for event in batch])[-2:] == [
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
    assert told(next(events)) == ["job queued"]
    with monkeypatch.context() as patch:
        patch.setattr(JournalCopy, "write", full)
        patch.setattr(Store, "keep", full_store)
        patch.setattr(Store, "record", full_store)
        cloud.lines = [line(10, "worker-0", "loss=1")]
        cloud.end(state)
        seen = told([event for batch in events for event in batch])
    assert "job finding disk-full" in seen
    known = stored(run)
    assert not known.state.is_final
    assert (with_final_state(known).state, with_final_state(known).ended) == (state, at(50))
    # With space again, the rest is collected.
    assert "10 worker-0: loss=1" in told(followed(target, run))
    assert stored(run).state is state
