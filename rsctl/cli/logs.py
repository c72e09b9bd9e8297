"""`rsctl logs RUN`: the merged log, complete or followed."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Annotated, Literal, Optional

import msgspec
import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.output import in_color
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_events, print_message, show_findings
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.findings import INCOMPLETE_LOG, findings_of
from rsctl.runs.store import Run, Store
from rsctl.spec.units import Duration
from rsctl.stream.events import TIME_LENGTH, Cursor, LogEvent
from rsctl.stream.formatting import LineFormat, format_line
from rsctl.targets.base import Pool, Target, replica_names

_FILTERS = "Filters"

Keep = Callable[[LogEvent], object]


@make_command("logs")
def command(
    run: options.Run,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")
    ] = False,
    role: Annotated[
        Optional[Literal["worker", "reducer"]],
        typer.Option("--role", rich_help_panel=_FILTERS, help="Only this role."),
    ] = None,
    replica: Annotated[
        list[str],
        typer.Option(
            "--replica",
            metavar="NAME",
            rich_help_panel=_FILTERS,
            help="Only this replica. Repeatable.",
        ),
    ] = [],
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", rich_help_panel=_FILTERS, help="Only the replica that failed first."
        ),
    ] = False,
    since: Annotated[
        Optional[str],
        typer.Option(
            "--since",
            metavar="TIME",
            rich_help_panel=_FILTERS,
            help="Only from a time on: 10m (before now) or RFC 3339.",
        ),
    ] = None,
    grep: Annotated[
        Optional[str],
        typer.Option(
            "--grep",
            metavar="REGEX",
            rich_help_panel=_FILTERS,
            help="Only lines in which this is found.",
        ),
    ] = None,
    tail: Annotated[
        Optional[int],
        typer.Option(
            "--tail", metavar="N", min=0, rich_help_panel=_FILTERS, help="Only the last N lines."
        ),
    ] = None,
    output: options.Output = "text",
) -> int:
    """Show the merged log of a run.

    Exit code: 0 whatever became of the run; that of the run is what `rsctl status --watch` ends
    with.
    """
    known, target = find_run(Store(), run)
    replicas = replica_names(msgspec.convert(known.plan["pools"], list[Pool]))
    names = _chosen(known, replicas, role, replica, failed)
    tests = _tests(names, since, grep)
    write = _writer(output, names or replicas)
    cursor: Cursor = {}
    if tail is not None:
        shown = tests if output == "json" else [*tests, _is_shown]
        lines, cursor = _last(target, known.run, shown, tail)
        write(lines)
    if tail is None or follow:
        for batch in _matching(target, known.run, cursor, follow, tests):
            write(batch)
    show_findings(finding for finding in findings_of(known.run) if finding.code in INCOMPLETE_LOG)
    return int(ExitCode.SUCCEEDED)


def _last(target: Target, run: str, tests: list[Keep], count: int) -> tuple[list[LogEvent], Cursor]:
    """The last matching lines of what is there by now, and the cursor behind them.

    So many lines back from the end there may be too few that match; then it goes further back.
    """
    back = count
    while True:
        cursor = target.tail(run, back)
        is_all = not any(cursor.values())
        batches = _matching(target, run, cursor, False, tests)
        lines = deque((line for batch in batches for line in batch), maxlen=count)
        if is_all or len(lines) == count:
            return list(lines), cursor
        back *= 8


def _is_shown(line: LogEvent) -> bool:
    return format_line(line.text) is not None


def _matching(
    target: Target, run: str, cursor: Cursor, follow: bool, tests: list[Keep]
) -> Iterator[list[LogEvent]]:
    for events in target.events(run, cursor, follow):
        lines = [event for event in events if isinstance(event, LogEvent)]
        for test in tests:
            lines = [line for line in lines if test(line)]
        yield lines


def _chosen(
    run: Run, known: list[str], role: str | None, named: Sequence[str], failed: bool
) -> list[str] | None:
    """The replicas asked for, or None for all. Raises RsctlError for one that the run has not."""
    if not (role or named or failed):
        return None
    unknown = [name for name in named if name not in known]
    if unknown:
        raise RsctlError(
            ExitCode.USAGE,
            error(
                "replica",
                f"{run.run} has no replica {unknown[0]!r}",
                f"it has {', '.join(known)}",
            ),
        )
    chosen = [n for n in named or known if not role or n.startswith(f"{role}-")]
    if failed:
        if run.first_failure is None:
            print_message(f"{run.run} has no failure")
            return []
        chosen = [name for name in chosen if name == run.first_failure.replica]
    return chosen


def _tests(names: list[str] | None, since: str | None, grep: str | None) -> list[Keep]:
    tests: list[Keep] = []
    if names is not None:
        chosen = frozenset(names)
        tests.append(lambda line: line.replica in chosen)
    if since:
        start = _since(since)
        tests.append(lambda line: line.time >= start)
    if grep:
        try:
            pattern = re.compile(grep)
        except re.error as problem:
            raise typer.BadParameter(str(problem), param_hint="--grep") from None
        tests.append(lambda line: pattern.search(line.text))
    return tests


def _since(text: str) -> str:
    """A time in the form of the events' own."""
    try:
        moment = datetime.now(timezone.utc) - timedelta(seconds=Duration.parse(text))
    except ValueError:
        moment = _moment(text)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}".zfill(TIME_LENGTH)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(
            timezone.utc
        )
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither a duration such as 10m nor a time such as 2026-01-31T12:00:00Z",
            param_hint="--since",
        ) from None


def _writer(output: str, replicas: list[str]) -> Callable[[list[LogEvent]], None]:
    if output == "json":
        return print_events
    formatted = LineFormat(in_color(sys.stdout), replicas)

    def write_text(lines: list[LogEvent]) -> None:
        if lines:
            sys.stdout.write(formatted.lines(lines))
            sys.stdout.flush()

    return write_text
