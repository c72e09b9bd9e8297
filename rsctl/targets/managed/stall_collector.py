"""Judges a cloud job by the reports that its nodes print into the log, and by its metrics.

Nodes cannot be asked there. A node that has reported no stall is active while it prints anything,
such as its telemetry; one that prints nothing has stopped, or its machine is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rsctl.findings import Finding
from rsctl.runs.folder import RunDescription
from rsctl.runs.stalls.findings import is_output, stall_finding, verdict_replica
from rsctl.runs.stalls.reports import NodeReport, StallReports
from rsctl.runs.stalls.verdict import find_verdict
from rsctl.runs.stragglers import StragglerMonitor
from rsctl.runs.stream.events import LogEvent, MetricEvent, seconds_between
from rsctl.runs.watch_rules import WatchRules
from rsctl.targets.base import Pool, replica_names

_SILENT_SECONDS = 60.0
"""How long a node may print nothing, telemetry included, and still be alive: its lines come late.
"""


class StallCollector:
    """One job's reports. `report` takes a finding and the replica that it is about.

    `fail` is called with the reason where the job must end for it.
    """

    def __init__(
        self,
        description: RunDescription | None,
        pools: Iterable[Pool],
        report: Callable[[Finding, str | None], None],
        fail: Callable[[str], None],
    ) -> None:
        self._description, self._tell, self._fail = description, report, fail
        self._training = [n for n in replica_names(pools) if not n.startswith("reducer-")]
        self._reports = StallReports()
        self._quiet: dict[str, NodeReport] = {}
        self._printed: dict[str, str] = {}
        self._output = ""
        self._is_judged = False
        self._stragglers = StragglerMonitor()
        self._rules = WatchRules(description.watch if description is not None else {})

    def read(self, line: LogEvent) -> None:
        """Take what a line shows."""
        self._printed[line.replica] = max(line.time, self._printed.get(line.replica, ""))
        if is_output(line.text.encode(errors="replace")):
            self._output = max(self._output, line.time)
        report = self._reports.read(line)
        if report is None or report.asked is not None or report.ended:
            return
        if report.over:
            self.resume(line.replica)
        else:
            self._quiet[line.replica] = report

    def resume(self, replica: str) -> None:
        """A node works: its stall is over, or its container has started. A killed container has not
        said that its stall is over.
        """
        self._quiet.pop(replica, None)
        self._is_judged = False

    def read_metrics(self, metrics: list[MetricEvent]) -> None:
        """Report the rules of `watch` that hold with these values."""
        for straggler, replica in self._stragglers.read(metrics):
            self._tell(straggler, replica)
        for trip in self._rules.read(metrics):
            self._tell(trip.finding, trip.replica.partition("/")[0])
            if trip.fails:
                self._fail(trip.finding.message)

    def judge(self, time: str) -> None:
        """Report a stall, once, when all nodes that train have reported it or are silent; `time` is
        the present by the clock of the log.
        """
        description = self._description
        if description is None or not description.stall or self._is_judged or not self._quiet:
            return
        if self._output and seconds_between(self._output, time) < description.stall:
            return
        active = [
            n for n in self._training if n not in self._quiet and not self._is_silent(n, time)
        ]
        if active or not self._has_stalled(description.stall):
            return
        self._is_judged = True
        verdict = find_verdict(self._quiet.values(), self._training)
        self._tell(stall_finding(verdict, description), verdict_replica(verdict))
        if description.on_stall != "notify":
            self._fail(f"it had stalled: {verdict.message}")

    def _is_silent(self, replica: str, time: str) -> bool:
        last = self._printed.get(replica)
        return last is not None and seconds_between(last, time) > _SILENT_SECONDS

    def _has_stalled(self, limit: float) -> bool:
        nodes = self._quiet.values()
        waits = any(rank.waits or not rank.answers for node in nodes for rank in node.reports)
        return waits or all(node.idle >= limit for node in nodes)
