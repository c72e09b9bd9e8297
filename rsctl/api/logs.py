"""The log of a run: a selection of its lines, from a time or a line on."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.folder import RunFolder
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import Cursor, FindingEvent, LogEvent
from rsctl.runs.stream.progress_bar import read_progress_bar
from rsctl.runs.stream.sanitize import without_escapes
from rsctl.targets import get
from rsctl.targets.base import Pool, Target, replica_names

_Test = Callable[[LogEvent], object]

OnFinding = Callable[[FindingEvent], object]
"""Gets a finding that came up while the run ran."""


@dataclass(frozen=True)
class LogFilter:
    """Which lines of a log.

    `replicas` may name ranks, such as `worker-0/3`, where several share a replica's log. `failed`
    selects the lines of the replica that failed first. `since` is a time in RFC 3339 with
    microseconds in UTC, as in the events. `tail_of` says which lines count for the last N.
    """

    role: str | None = None
    replicas: tuple[str, ...] = ()
    failed: bool = False
    since: str | None = None
    grep: str | None = None
    tail_of: _Test | None = None


def log_batches(
    run: RunRecord,
    chosen: LogFilter,
    tail: int | None,
    follow: bool,
    on_finding: OnFinding = bool,
) -> Iterator[list[LogEvent]]:
    """Lists of lines in their order. Raises RsctlError for an unknown replica or an invalid
    regex.

    `on_finding` gets the findings that arrive with them.
    """
    target, tests = get(run.target), _tests(chosen, chosen_replicas(run, chosen))
    cursor: Cursor = {}
    if tail is not None:
        shown = [*tests, chosen.tail_of] if chosen.tail_of else tests
        lines, cursor = _last(target, run.run, shown, tail, on_finding)
        yield lines
    if tail is None or follow:
        yield from _matching(target, run.run, cursor, follow, tests, on_finding)


def chosen_replicas(run: RunRecord, chosen: LogFilter) -> list[str] | None:
    """The requested replicas, or None for all. Raises RsctlError for an unknown replica."""
    if not (chosen.role or chosen.replicas or chosen.failed):
        return None
    known = replica_names(msgspec.convert(run.plan["pools"], list[Pool]))
    asked = [name.partition("/")[0] for name in chosen.replicas]
    unknown = [name for name in asked if name not in known]
    if unknown:
        message = f"{run.run} has no replica {unknown[0]!r}"
        finding = error("replica", message, f"it has {', '.join(known)}")
        raise RsctlError(ExitCode.USAGE, finding)
    role = chosen.role
    roles = dict.fromkeys(name.rpartition("-")[0] for name in known)
    if role and role not in (*roles, "worker", "reducer"):
        remedy = f"it has {', '.join(roles)}"
        raise RsctlError(
            ExitCode.USAGE, error("replica", f"{run.run} has no role {role!r}", remedy)
        )
    names = [n for n in asked or known if not role or n.rpartition("-")[0] == role]
    if chosen.failed:
        first = run.first_failure.replica if run.first_failure else None
        return [name for name in names if name == first]
    return names


def _last(
    target: Target, run: str, tests: list[_Test], count: int, on_finding: OnFinding
) -> tuple[list[LogEvent], Cursor]:
    """The last matching lines of the log so far, and the cursor behind them.

    If the last lines of the log contain too few matches, it searches further back.
    """
    back = count
    while True:
        cursor = target.tail(run, back)
        is_all = not any(cursor.values())
        batches = _matching(target, run, cursor, False, tests, on_finding)
        lines = deque((line for batch in batches for line in batch), maxlen=count)
        if is_all or len(lines) == count:
            return list(lines), cursor
        back *= 8


def _matching(
    target: Target,
    run: str,
    cursor: Cursor,
    follow: bool,
    tests: list[_Test],
    on_finding: OnFinding = bool,
) -> Iterator[list[LogEvent]]:
    for events in target.events(run, cursor, follow):
        for event in events:
            if isinstance(event, FindingEvent):
                on_finding(event)
        lines = [event for event in events if isinstance(event, LogEvent)]
        for test in tests:
            lines = [line for line in lines if test(line)]
        yield lines


def _tests(chosen: LogFilter, replicas: list[str] | None) -> list[_Test]:
    tests: list[_Test] = []
    if replicas is not None:
        names = frozenset(replicas)
        tests.append(lambda line: line.replica in names)
    if any("/" in name for name in chosen.replicas):
        wanted = frozenset(chosen.replicas)
        tests.append(lambda line: line.replica in wanted or line.rank in wanted)
    if since := chosen.since:
        tests.append(lambda line: line.time >= since)
    if chosen.grep:
        try:
            pattern = re.compile(chosen.grep)
        except re.error as problem:
            message = f"{chosen.grep!r} is not a valid regular expression: {problem}"
            raise RsctlError(ExitCode.USAGE, error("grep", message)) from None
        tests.append(lambda line: _matches(pattern, line.text))
    return tests


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a line matches as it is shown, or with its colours."""
    return any(pattern.search(form) for form in {without_escapes(text), text})


def progress_bar(run_id: str, replica: str) -> str | None:
    """The progress bar that a replica shows right now, if any."""
    return read_progress_bar(RunFolder(run_id).log(replica))
