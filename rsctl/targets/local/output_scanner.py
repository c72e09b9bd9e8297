"""Reads metrics, exits, findings and versions out of the output of a local job's replicas."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rsctl.findings import Finding
from rsctl.runs.exit_reports import ExitReports, restarts_in_place, runtime_finding, without_node
from rsctl.runs.recorder import Recorder
from rsctl.runs.stalls.reports import NodeReport, StallReports
from rsctl.runs.stragglers import StragglerMonitor
from rsctl.runs.stream.events import Failure, LogEvent
from rsctl.runs.stream.metrics import MetricReader, MetricSpec
from rsctl.runs.stream.rank_marks import take_mark, without_marks
from rsctl.runs.stream.redraws import measured
from rsctl.runs.watch_rules import Trip, WatchRules, WatchSpec


class Scanned(msgspec.Struct):
    """The content of new lines that the supervisor acts on: the exits that ranks report, whether
    the node has started its ranks again, the exit code of a failed node that is kept, and reports
    on a stall.
    """

    failures: list[Failure] = []
    has_restarted: bool = False
    kept: int | None = None
    reports: list[NodeReport] = []


class OutputScanner:
    """Records metrics, exits and findings in new lines of output, each finding once."""

    def __init__(
        self,
        metrics: Mapping[str, MetricSpec],
        recorder: Recorder,
        watch: Mapping[str, WatchSpec],
    ) -> None:
        self._reader = MetricReader(metrics)
        self._recorder = recorder
        self._exits = ExitReports({})
        self._findings: list[Finding] = []  # replicas tend to find the same
        self._stalls = StallReports()
        self._rules, self._stragglers = WatchRules(watch), StragglerMonitor()
        self.trips: list[Trip] = []
        """The rules of `watch` that have held since the list was last emptied."""

    def begin_attempt(self) -> None:
        """New launchers start, with new keys."""
        self._exits.locks.clear()

    def scan(self, replica: str, lines: bytes, time: str) -> Scanned:
        """Record the data in whole lines of a replica, which have this time in its log."""
        events, scanned = self._candidates(replica, lines, time), Scanned()
        for event in events:
            self._exits.announced(event)
            if failure := self._exits.read(event):
                scanned.failures.append(failure)
            if scanned.kept is None:
                scanned.kept = self._exits.kept(event)
            if restarts_in_place(event):
                scanned.failures = without_node(scanned.failures, replica)
                scanned.has_restarted = True
            finding = runtime_finding(event, len(self._findings))
            if finding and finding not in self._findings:
                self._findings.append(finding)
                self._recorder.finding(finding, replica)
            if report := self._stalls.read(event):
                scanned.reports.append(report)
            self._recorder.reports(event)
        for metrics in self._reader.read_all(events):
            self._recorder.metrics(metrics)
            self.trips += self._rules.read(metrics)
            for straggler, where in self._stragglers.read(metrics):
                self._recorder.finding(straggler, where)
        for finding in self._reader.take_findings():
            self._recorder.finding(finding)
        return scanned

    def _candidates(self, replica: str, lines: bytes, time: str) -> list[LogEvent]:
        """The lines, if any of them may hold metrics, findings or exits; mostly none does."""
        text = lines.decode(errors="backslashreplace")
        if not self._reader.may_hold_metrics(without_marks(text)):
            return []
        read = [take_mark(replica, line) for line in text.split("\n")]
        return measured(LogEvent(time, replica, "", "stdout", line, rank) for rank, line in read)
