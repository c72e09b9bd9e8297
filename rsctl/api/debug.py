"""The activity of each rank of a run in progress, and the rank that holds up the others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from time import monotonic, sleep
from typing import Protocol, runtime_checkable

from msgspec import Struct

from rsctl.findings import ExitCode, RsctlError, error, first_of
from rsctl.runs.folder import RunFolder
from rsctl.runs.reader import RunReader, cursor_before_last
from rsctl.runs.records import RunRecord
from rsctl.runs.stalls.monitor import ANSWER_SECONDS
from rsctl.runs.stalls.reports import NodeReport, StallReports
from rsctl.runs.stalls.verdict import find_verdict
from rsctl.runs.stalls.verdict_type import Verdict
from rsctl.runs.stream.events import LogEvent, StateEvent
from rsctl.targets import get

_POLL_SECONDS = 0.1
_IN_PROGRESS = "run the command while the job is in progress"


@runtime_checkable
class AskableTarget(Protocol):
    """A target whose nodes can be asked while they run."""

    def ask_nodes(self, run: str, replicas: Sequence[str], number: int) -> None:
        """Ask nodes for a report of this number, which comes into their logs."""


class RunInspection(Struct, kw_only=True):
    """The answers of the nodes of a run: the verdict, and the nodes that gave no answer.

    `asked` is false if they could not be asked, and the reports are the last of their own.
    """

    run: str
    verdict: Verdict
    nodes: list[NodeReport]
    silent: list[str]
    asked: bool


def inspect_run(run: RunRecord) -> RunInspection:
    """Ask the nodes of a collected run what they do. Raises RsctlError if that is not possible."""
    target = get(run.target)
    if not isinstance(target, AskableTarget) or run.state.is_final:
        return _last_reports(run)
    replicas = [r.replica for r in run.replicas if not r.state.is_final]
    if not replicas:
        message = f"no node of {run.run} runs: the run is {run.state.value}"
        raise RsctlError(ExitCode.JOB_FAILED, error("no-answer", message, "try again later"))
    number = random.SystemRandom().randrange(1, 10**12)
    folder = RunFolder(run.run)
    with closing(RunReader(folder, cursor_before_last(folder, 0))) as reader:
        target.ask_nodes(run.run, replicas, number)
        found, ended = _answers(reader, replicas, number)
    if not found and ended.issuperset(replicas):
        have = "has" if len(replicas) == 1 else "have"
        message = f"{first_of(replicas, 3)} of {run.run} {have} ended in the meantime"
        remedy = f"see its state: rsctl status {run.run}"
        raise RsctlError(ExitCode.JOB_FAILED, error("no-answer", message, remedy))
    if not found:
        message = f"no node of {run.run} has answered"
        remedy = "it needs rsctl-launch in the container, and comm.debug must not be off"
        raise RsctlError(ExitCode.JOB_FAILED, error("no-answer", message, remedy))
    replicas = [name for name in replicas if name in found or name not in ended]
    silent = [name for name in replicas if name not in found]
    nodes = [found[name] for name in replicas if name in found]
    verdict = find_verdict(nodes, replicas)
    return RunInspection(run=run.run, verdict=verdict, nodes=nodes, silent=silent, asked=True)


def _answers(
    reader: RunReader, replicas: Sequence[str], number: int
) -> tuple[dict[str, NodeReport], set[str]]:
    """The answers of replicas, and the replicas that have ended."""
    reports = StallReports()
    found: dict[str, NodeReport] = {}
    ended: set[str] = set()
    until = monotonic() + ANSWER_SECONDS
    while monotonic() < until and not set(replicas) <= found.keys() | ended:
        for event in reader.read(complete=False):
            if isinstance(event, StateEvent) and event.replica is not None:
                (ended.add if event.state.is_final else ended.discard)(event.replica)
            report = reports.read(event) if isinstance(event, LogEvent) else None
            if report is not None and report.asked == number:
                found[report.replica] = report
        sleep(_POLL_SECONDS)
    return found, ended


def _last_reports(run: RunRecord) -> RunInspection:
    """The last reports of a run that has ended, or whose nodes cannot be asked."""
    found: dict[str, NodeReport] = {}
    reports = StallReports()
    with closing(RunReader(RunFolder(run.run), {})) as reader:
        while batch := reader.read(complete=True):
            for event in batch:
                report = reports.read(event) if isinstance(event, LogEvent) else None
                if report is not None and report.over:
                    found.pop(report.replica, None)
                elif report is not None:
                    found[report.replica] = report
    if not found:
        raise _without_reports(run)
    nodes = [found[name] for name in sorted(found)]
    verdict = find_verdict(nodes, [])
    return RunInspection(run=run.run, verdict=verdict, nodes=nodes, silent=[], asked=False)


def _without_reports(run: RunRecord) -> RsctlError:
    if run.state.is_final:
        message = f"{run.run} has ended, and its log has no report of a stall"
        return RsctlError(ExitCode.USAGE, error("no-report", message, _IN_PROGRESS))
    message = (
        f"rsctl cannot ask the nodes of a job on {run.target}, and they have not reported a stall"
    )
    remedy = "set limits.stall: nodes then report into the log, and this command shows the reports"
    return RsctlError(ExitCode.REFUSED, error("unsupported", message, remedy))
