"""A job in a cloud that stalls, by the reports in its log."""

from __future__ import annotations

from rsctl.findings import Finding
from rsctl.runs.folder import RunDescription
from rsctl.targets.base import Pool
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.stall_collector import StallCollector

from .conftest import line

STALL = '{"rsctl": "stall", "number": 1, "ranks": 0, "quiet": 11, "idle": 11, "trains": true}'
NODE = '{"rsctl": "node", "replica": "worker-0", "host": "h"}'


def test_each_start_of_a_job_can_stall() -> None:
    """A preempted container has not said that its stall is over."""
    description = RunDescription(
        run="r", target="vertex", request={}, replicas=["worker-0"], stall=10, on_stall="fail"
    )
    progress = CollectorProgress()
    failed: list[str] = []
    told: list[Finding] = []

    def report(finding: Finding, _: str | None) -> None:
        if progress.is_new(finding):
            told.append(finding)

    collector = StallCollector(description, report, failed.append)
    pools = [Pool(role="worker", count=1)]
    for attempt in (1, 2):
        for text in (NODE, STALL, STALL):
            collector.read(line(1, "worker-0", text))
            collector.judge(pools)
        assert (len(failed), len(told)) == (attempt, attempt)
        progress.begin(attempt + 1)
