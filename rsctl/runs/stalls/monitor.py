"""Decides whether a job has stalled, by its log and the reports of its nodes. It reads no clock.

A node reports when none of its ranks has progressed for `limits.stall`. The job has stalled when
all nodes that train have, when its log has been as silent, and when either a rank waits for others
or no process uses a processor. All nodes are asked then: one may be writing a checkpoint, or may
not answer at all.

Nodes answer at different moments, and on a busy machine ranks may answer late. So a rank is named
only if two inquiries, one after the other, name the same. As long as none is named, the monitor
asks again from time to time. If no node answers, such as where `docker exec` fails, the reports
that the nodes have made without being asked count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec.structs import replace

from rsctl.runs.stalls.reports import NodeReport, RankReport
from rsctl.runs.stalls.verdict import find_verdict
from rsctl.runs.stalls.verdict_type import Verdict

ANSWER_SECONDS = 15.0
"""How long nodes may take to answer: longer than their ranks may take."""
_MOST_INQUIRIES = 4
_ASK_AGAIN_SECONDS = 30.0
_SLACK = 0.7
"""The part of the limit that a node may count when it is asked just before its own report."""
_CONTRADICTION = "the cause is not known: the ranks answer differently each time they are asked"


class StallMonitor:
    """Judges one attempt of a job. `limit` is in seconds; `ask` sends nodes a numbered request."""

    def __init__(self, limit: float, ask: Callable[[Collection[str], int], None]) -> None:
        self._limit, self._ask = limit, ask
        self._output_at: float | None = None
        self._number = 0
        self.begin_attempt()

    def begin_attempt(self) -> None:
        """All nodes start again."""
        self._quiet: dict[str, NodeReport] = {}
        self._active: set[str] = set()
        self._active_until = 0.0
        self._ended: dict[str, NodeReport] = {}
        self._output_at = None
        self._forget_verdict()

    def _forget_verdict(self) -> None:
        self.verdict: Verdict | None = None
        self._not_before = 0.0
        self._drop_inquiry()

    def _drop_inquiry(self) -> None:
        """The job has progressed: what nodes have answered is out of date."""
        self._asked_at: float | None = None
        self._answers: dict[str, NodeReport] = {}
        self._candidate: Verdict | None = None
        self._inquiries = 0

    def output(self, time: float) -> None:
        """A program of the job has printed something."""
        self._output_at = time

    def report(self, report: NodeReport) -> None:
        """A node has reported."""
        if report.ended:
            self._ended[report.replica] = report
        elif report.over:
            self._quiet.pop(report.replica, None)
            self._forget_verdict()
        elif report.asked is not None:
            if report.asked == self._number:
                self._answers[report.replica] = report
        else:
            self._active.discard(report.replica)
            self._quiet[report.replica] = report
            if report.replica in self._answers:
                self._answers[report.replica] = report  # it is newer

    def judge(self, running: Collection[str], time: float) -> Verdict | None:
        """The verdict when the job has stalled, once; if it names none, again when one does.

        `running` are all replicas that run.
        """
        is_named = self.verdict is not None and self.verdict.names_someone
        if not self._limit or is_named or not self._quiet:
            return None
        if self._output_at is not None and time - self._output_at < self._limit:
            self._drop_inquiry()
            return None
        if self._asked_at is None:
            is_active = time < self._active_until and not self._active.isdisjoint(running)
            if time >= self._not_before and not is_active:
                self._inquire(running, time)
            return None
        if not set(running) <= set(self._answers) and time - self._asked_at < ANSWER_SECONDS:
            return None
        answers, self._answers, self._asked_at = self._answers, {}, None
        if not answers:
            answers, running = self._unasked(running)
        found = self._decide(answers, running)
        if found is None:
            self._drop_inquiry()
            self._active_until = time + max(self._limit, _ASK_AGAIN_SECONDS)
            return None
        return self._settle(found, time)

    def collapse(self) -> Verdict | None:
        """Why ranks of different collectives have failed, by their last reports; None if not so.

        Backends fail where shapes or operations differ, often on a rank that did no wrong.
        """
        if not self._ended:
            return None
        nodes = [
            replace(n, reports=tuple(map(_last_call_failed, n.reports)))
            for n in self._ended.values()
        ]
        verdict = find_verdict(nodes, [])
        return verdict if verdict.kind == "mismatch" else None

    def _inquire(self, running: Collection[str], time: float) -> None:
        self._number += 1
        self._asked_at, self._answers = time, {}
        self._ask(running, self._number)

    def _unasked(self, running: Collection[str]) -> tuple[dict[str, NodeReport], Collection[str]]:
        """The nodes' own reports, if all nodes that train are quiet, and the nodes that made them.

        Reducers report only if asked.
        """
        training = [name for name in running if not name.startswith("reducer-")]
        reports = {name: self._quiet[name] for name in training if name in self._quiet}
        return (reports, training) if len(reports) == len(training) else ({}, running)

    def _decide(self, answers: dict[str, NodeReport], running: Collection[str]) -> Verdict | None:
        """The verdict by the answers to one inquiry; None if the job has not stalled."""
        training = [report for report in answers.values() if report.trains]
        self._active = {r.replica for r in training if r.quiet < self._limit * _SLACK}
        if self._active or not training:
            return None
        waits = any(rank.waits or not rank.answers for r in training for rank in r.reports)
        is_idle = all(report.idle >= self._limit * _SLACK for report in training)
        absent = [name for name in running if name not in answers]
        if not waits and not is_idle and not absent:
            self._active = {r.replica for r in training}
            return None
        return find_verdict(answers.values(), running)

    def _settle(self, found: Verdict, time: float) -> Verdict | None:
        """The verdict of two inquiries that agree. Inquiries that do not agree name none."""
        before, self._candidate = self._candidate, found
        self._inquiries += 1
        is_agreed = before is not None and _names(before) == _names(found)
        if not is_agreed and self._inquiries < _MOST_INQUIRIES:
            return None
        if not is_agreed:
            found = Verdict(kind="unknown", message=_CONTRADICTION, lines=found.lines)
        self._candidate, self._inquiries = None, 0
        self._not_before = time + max(self._limit, _ASK_AGAIN_SECONDS)
        is_new = self.verdict is None or found.names_someone
        self.verdict = found
        return found if is_new else None


def _names(verdict: Verdict) -> tuple[object, ...]:
    return verdict.kind, verdict.guilty, verdict.replicas


def _last_call_failed(report: RankReport) -> RankReport:
    """The report of a rank that an exception has ended: what it called last has not succeeded."""
    groups = {
        name: replace(
            group,
            entries=[
                replace(entry, ended=entry.ended and entry.number < group.called)
                for entry in group.entries
            ],
        )
        for name, group in report.groups.items()
    }
    return replace(report, groups=groups)
