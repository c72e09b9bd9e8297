"""A run in a cloud is followed and collected, whatever is killed or lost on the way."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from typing import Any

import pytest

from rsctl.findings import ExitCode, JobState, RsctlError, error, warning
from rsctl.runs import exit_reports
from rsctl.runs.folder import RunFolder
from rsctl.runs.goodput_records import goodput_of
from rsctl.runs.store import Store
from rsctl.runs.stream.events import FindingEvent, LogEvent, MetricEvent, now
from rsctl.targets.managed.collector import Collector
from rsctl.targets.managed.contact import Contact
from rsctl.targets.managed.service import JobStatus

from .conftest import URL, FakeCloud, FakeTarget, at, followed, line, reported, stored


def test_a_run_is_reported_from_its_queue_to_its_end(
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
    assert reported(seen) == [
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
    assert reported(seen) == ["job queued", "job queued (Resources are insufficient in region: r.)"]


def test_what_the_service_said_before_the_start_does_not_stand_beside_a_running_job(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """A detached run is first seen while it runs, and its log begins with the wait."""
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(5))
    cloud.lines = [
        line(3, None, "Waiting for job to be provisioned."),
        line(5, None, "Job is running."),
        line(7, None, "Replicas low on memory: workerpool0"),
    ]
    events = target.events(run, {}, follow=True)
    seen = [event for _ in range(5) for event in next(events)]
    assert reported(seen) == [
        "job running",
        "job running (Replicas low on memory: workerpool0)",
    ]


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
    lines = [text for text in reported(followed(target, run)) if text[:2].isdigit()]
    assert lines == ["10 worker-0: a", "20 worker-0: c", "20 worker-0: late", "30 worker-0: d"]


def test_a_job_cannot_print_findings_without_end(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are compared with each new one, and stored with each position in the log."""
    monkeypatch.setattr(exit_reports, "MOST_FINDINGS", 3)
    printed = '{{"rsctl": "finding", "severity": "warning", "code": "x", "message": "{}"}}'
    cloud.lines = [line(10, "worker-0", printed.format(number)) for number in range(9)]
    cloud.end(JobState.SUCCEEDED)
    seen = [event.finding for event in followed(target, run) if isinstance(event, FindingEvent)]
    told = [finding.message for finding in seen if finding.code in ("x", "too-many")]
    assert told == ["0", "1", "2", "the job reports more findings; see them in its log"]


def test_a_second_follower_reads_what_the_first_collects(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.lines = [line(10, "worker-0", "a")]
    first = target.events(run, {}, follow=True)
    next(first)
    asked = len(cloud.calls)
    second = FakeTarget(cloud).events(run, {}, follow=True)
    seen = [event for _ in range(3) for event in next(second)]
    assert reported(seen) == ["job queued", "worker-0 running", "10 worker-0: a"]
    assert len(cloud.calls) == asked
    first.close()
    cloud.end(JobState.CANCELLED)
    rest = [event for batch in second for event in batch]
    assert reported(rest)[-1] == "job cancelled"


def test_one_thread_can_read_what_several_have_begun_to_follow(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool of threads reads the iterators of two clients, at first both at the same time."""
    first, second = (target.events(run, {}, follow=True) for _ in range(2))
    with ThreadPoolExecutor(1) as other:
        new = iter([second])
        meanwhile = lambda _: [other.submit(next, events).result(9) for events in new]  # noqa: E731
        monkeypatch.setattr(cloud, "call", meanwhile)
        next(first)
        cloud.end(JobState.CANCELLED)
        for events in (second, first):
            batches = other.submit(list, islice(events, 50)).result(9)
            assert reported([event for batch in batches for event in batch])[-1] == "job cancelled"
    assert RunFolder(run).supervisor() is None  # the lock is free


def test_a_suspended_watcher_is_named(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    """Otherwise the last state that it stored would be the run's for ever."""
    first = target.events(run, {}, follow=True)
    next(first)
    other = FakeTarget(cloud)
    other.reconcile(run)
    lock = RunFolder(run).path / "supervisor.lock"
    os.utime(lock, (0, 0))
    with pytest.raises(RsctlError, match=f"process {os.getpid()} watches {run}, and has not "):
        FakeTarget(cloud).reconcile(run)
    next(first)
    FakeTarget(cloud).reconcile(run)
    first.close()


def test_a_run_whose_image_is_being_built_is_not_suspended(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    with Store().transaction() as db:
        db.execute("UPDATE runs SET url = ?", (f"vertex://{run}",))
    lock = RunFolder(run).lock()
    os.utime(lock, (0, 0))
    target.reconcile(run)
    os.close(lock)
    assert stored(run).state is JobState.QUEUED


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
    collector = Collector(folder, store, cloud.open(URL), stored(run), Contact(1.0))
    with pytest.raises(KeyboardInterrupt):
        any(collector.step() is None for _ in range(100))
    cloud.end(JobState.SUCCEEDED)
    lines = [text for text in reported(followed(target, run)) if text[:2].isdigit()]
    assert lines == [f"{second} worker-0: loss={second}" for second in range(10, 20)]
    values = [metric.value for _, metric in Store().metrics(run)]
    assert values == [float(second) for second in range(10, 20)]
    assert reported(followed(target, run)).count("job running") == 1


def test_a_cloud_that_is_away_for_long_is_reported_once(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.unreachable = 10
    cloud.end(JobState.SUCCEEDED)
    findings = [e.finding for e in followed(target, run) if isinstance(e, FindingEvent)][:1]
    assert [(f.severity, f.message) for f in findings] == [
        ("warning", "the cloud gives no answer; the job continues, and rsctl tries again")
    ]


def test_findings_are_reported_once_and_facts_are_kept(
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


def test_measurements_that_are_refused_do_not_affect_the_job(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    denied = error("denied", "AWS refuses: no", "ask for the permission")
    cloud.refused["measure"] = RsctlError(ExitCode.REFUSED, denied)
    cloud.end(JobState.SUCCEEDED)
    seen = [event.finding for event in followed(target, run) if isinstance(event, FindingEvent)]
    message = "the cloud's measurements cannot be read: AWS refuses: no; the job is not affected"
    assert warning("denied", message, "ask for the permission") in seen
    assert stored(run).state is JobState.SUCCEEDED


def test_goodput_counts_the_time_until_the_log_was_read(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """The log may be longer than one request reads, and the cloud may refuse to be asked."""
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(5))
    cloud.lines = [line(second, "worker-0", "loss=0.5") for second in (10, 20, 30)]
    found = []
    for _ in range(4):
        with suppress(RsctlError):
            target.reconcile(run)
        target.release(run)
        with closing(Store()) as store:
            found.append(goodput_of(store, stored(run)))
        if len(found) == 3:
            cloud.refused["status"] = RsctlError(ExitCode.ENVIRONMENT, error("aws", "expired"))
    assert [(one.until, one.seconds) for one in found[:2]] == [(at(20), 15.0), (at(30), 25.0)]
    assert found[2].until is not None
    assert found[2].until > cloud.lines[-1].time  # nothing more was written by then
    assert found[3] == found[2]


def test_lines_of_any_kind_survive(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    texts = ["", "\x1b[31mred\x1b[0m", "a\rb", "\udcff", "x" * 300_000]
    cloud.lines = [
        LogEvent(at(10 + i), "worker-0", str(i), "stderr", t) for i, t in enumerate(texts)
    ]
    cloud.end(JobState.SUCCEEDED)
    seen = [e.text for e in followed(target, run) if type(e).__name__ == "LogEvent"]
    begin, rest = seen[4:]
    mark = " [too long for one line: it continues in the next]"
    assert begin.removesuffix(mark) + rest == "x" * 300_000
    assert begin.endswith(mark)
    assert seen[:4] == ["", "\x1b[31mred\x1b[0m", "a\rb", "\\udcff"]


class Busy(FakeCloud):
    """The job prints a line before each read of its log."""

    def call(self, name: str) -> None:
        super().call(name)
        if name == "log":
            assert len(self.lines) < 100, "the log is read for as long as the job prints"
            time = at(30) if self.status.at else now()
            self.lines.append(LogEvent(time, "worker-0", str(len(self.lines)), "stdout", "more"))


class Behind(Busy):
    """The same; this machine's clock is days ahead of the cloud's."""

    def call(self, name: str) -> None:
        self.status = JobStatus(state=JobState.RUNNING, time=at(0), at=at(20))
        super().call(name)


@pytest.mark.parametrize("kind", [FakeCloud, Busy, Behind])
def test_the_log_of_a_job_that_goes_on(run: str, kind: type[FakeCloud]) -> None:
    """`rsctl logs` shows what the job had printed when it was called, and ends."""
    cloud = kind()
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(0))
    cloud.lines = [line(second, "worker-0", f"line {second}") for second in range(1, 11)]
    batches = FakeTarget(cloud).events(run, {}, follow=False)
    texts = [e.text for batch in batches for e in batch if isinstance(e, LogEvent)]
    assert texts[:10] == [f"line {second}" for second in range(1, 11)]
