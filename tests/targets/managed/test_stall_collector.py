"""A job in a cloud that stalls, by the reports in its log."""

from __future__ import annotations

from rsctl.findings import Finding, JobState
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.targets.base import Pool, replica_names
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.service import JobStatus
from rsctl.targets.managed.stall_collector import StallCollector

from .conftest import POOLS, FakeCloud, FakeTarget, at, followed, line, reported

STALL = '{"rsctl": "stall", "number": 1, "ranks": 0, "quiet": 11, "idle": 11, "trains": true}'
WORKERS = ("worker-0", "worker-1")


class StallingCloud(FakeCloud):
    """Its job's containers start, and stall, so often. What follows is printed when all lines from
    before have been read more than once.
    """

    def __init__(self, starts: int) -> None:
        super().__init__()
        self.starts, self.reads = starts, 0
        self.status = JobStatus(state=JobState.RUNNING, time=at(1))

    def call(self, name: str) -> None:
        super().call(name)
        if name != "log":
            return
        self.reads += 1
        if self.reads % 6:
            return
        if not self.starts:
            self.end(JobState.CANCELLED)
            return
        self.starts -= 1
        second = self.reads // 6
        node = '{{"rsctl": "node", "replica": "{}", "host": "h"}}'
        self.lines += [line(second, name, node.format(name)) for name in WORKERS]
        self.lines += [line(second, name, STALL) for name in WORKERS]


def test_each_start_of_a_job_can_stall(run: str) -> None:
    """A preempted container has not said that its stall is over."""
    names = replica_names(POOLS)
    folder = RunFolder(run)
    folder.create(RunDescription(run=run, target="vertex", request={}, replicas=names, stall=10))
    told = reported(followed(FakeTarget(StallingCloud(starts=2)), run))
    assert [words for words in told if "finding" in words] == ["job finding stall"] * 2


def test_each_start_can_fail_the_job_once() -> None:
    description = RunDescription(
        run="r", target="vertex", request={}, replicas=["worker-0"], stall=10, on_stall="fail"
    )
    progress = CollectorProgress()
    failed: list[str] = []
    told: list[Finding] = []

    def report(finding: Finding, _: str | None) -> None:
        if progress.is_new(finding):
            told.append(finding)

    pools = [Pool(role="worker", count=1)]
    collector = StallCollector(description, pools, report, failed.append)
    for attempt in (1, 2):
        collector.resume("worker-0")
        for _ in range(2):
            collector.read(line(1, "worker-0", STALL))
            collector.judge(at(1))
        assert (len(failed), len(told)) == (attempt, attempt)
        progress.begin(attempt + 1)


def test_a_node_is_silent_by_the_clock_of_the_log() -> None:
    told: list[Finding] = []
    description = RunDescription(
        run="r", target="vertex", request={}, replicas=list(WORKERS), stall=10
    )
    pools = [Pool(role="worker", count=2)]
    collector = StallCollector(description, pools, lambda f, _: told.append(f), print)
    collector.read(line(1, "worker-0", STALL))
    collector.read(line(2, "worker-1", '{"rsctl": "telemetry"}'))
    collector.judge(at(50))
    assert told == []
    collector.judge("2026-11-21T12:01:03.000000Z")
    assert [finding.code for finding in told] == ["stall"]
