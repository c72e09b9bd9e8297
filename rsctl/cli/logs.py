"""`rsctl logs RUN`: the merged log, complete or followed."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import click

from rsctl.cli import options
from rsctl.cli.runs import find_run
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.store import Run, Store
from rsctl.spec.units import Duration
from rsctl.stream.encode import event_line
from rsctl.stream.events import LogEvent
from rsctl.stream.text import LineFormat
from rsctl.targets.base import Cursor, Target

Keep = Callable[[LogEvent], object]


@click.command("logs", help="Show the merged log of a run.")
@options.run_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@click.option("--role", type=click.Choice(["worker", "reducer"]), help="Only this role.")
@click.option("--replica", metavar="NAME", multiple=True, help="Only this replica. Repeatable.")
@click.option("--since", metavar="TIME", help="Only from a time on: 10m ago, or RFC 3339.")
@click.option("--tail", metavar="N", type=click.IntRange(min=0), help="Only the last N lines.")
@click.option("--grep", metavar="REGEX", help="Only lines in which this is found.")
@click.option("--failed", is_flag=True, help="Only the replica that failed first.")
@options.output_option
@options.talk_options
def command(
    run: str,
    follow: bool,
    role: str | None,
    replica: tuple[str, ...],
    since: str | None,
    tail: int | None,
    grep: str | None,
    failed: bool,
    output: str,
) -> int:
    """Exit with 0 whatever became of the run; `status --watch` ends with its exit code."""
    known, target = find_run(Store(), run)
    names = _chosen(known, role, replica, failed)
    tests = _tests(names, since, grep)
    cursor = _start(target, known, tail if not tests else None)
    write = _writer(output, names or [r.replica for r in known.replicas])
    batches = _matching(target, known.run, cursor, follow, tests)
    if tail is not None and not follow:
        last = deque((line for batch in batches for line in batch), maxlen=tail)
        write(list(last))
        return int(ExitCode.SUCCEEDED)
    if tail is not None:
        past = deque(_past(target, known.run, dict(cursor), tests, cursor), maxlen=tail)
        write(list(past))
        batches = _matching(target, known.run, cursor, follow, tests)
    for batch in batches:
        write(batch)
    return int(ExitCode.SUCCEEDED)


def _past(
    target: Target, run: str, start: Cursor, tests: list[Keep], cursor: Cursor
) -> Iterator[LogEvent]:
    """The lines that are there by now; moves `cursor` behind them."""
    for batch in _matching(target, run, start, False, tests):
        yield from batch
    cursor.update(start)


def _start(target: Target, run: Run, tail: int | None) -> Cursor:
    return {} if tail is None else target.tail(run.run, tail)


def _matching(
    target: Target, run: str, cursor: Cursor, follow: bool, tests: list[Keep]
) -> Iterator[list[LogEvent]]:
    for events in target.events(run, cursor, follow):
        lines = [event for event in events if isinstance(event, LogEvent)]
        for test in tests:
            lines = [line for line in lines if test(line)]
        yield lines


def _chosen(
    run: Run, role: str | None, replicas: tuple[str, ...], failed: bool
) -> list[str] | None:
    """The replicas asked for, or None for all. Raises RsctlError for one that the run has not."""
    if not (role or replicas or failed):
        return None
    known = [replica.replica for replica in run.replicas]
    unknown = [name for name in replicas if name not in known]
    if unknown:
        remedy = f"it has {', '.join(known)}" if known else "it has none yet"
        raise RsctlError(
            ExitCode.USAGE, error("replica", f"{run.run} has no replica {unknown[0]!r}", remedy)
        )
    chosen = list(replicas) or [n for n in known if not role or n.startswith(f"{role}-")]
    if failed:
        if run.first_failure is None:
            raise RsctlError(ExitCode.USAGE, error("failed", f"{run.run} has no failure"))
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
            raise click.BadParameter(str(problem), param_hint="--grep") from None
        tests.append(lambda line: pattern.search(line.text))
    return tests


def _since(text: str) -> str:
    """A time in the form of the events' own."""
    try:
        moment = datetime.now(timezone.utc) - timedelta(seconds=Duration.parse(text))
    except ValueError:
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            raise click.BadParameter(
                f"{text!r} is neither a duration such as 10m nor a time such as "
                "2026-01-31T12:00:00Z",
                param_hint="--since",
            ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _writer(output: str, replicas: list[str]) -> Callable[[list[LogEvent]], None]:
    if output == "json":
        binary = sys.stdout.buffer

        def write_json(lines: list[LogEvent]) -> None:
            if lines:
                binary.write(b"".join(map(event_line, lines)))
                binary.flush()

        return write_json
    formatted = LineFormat(options.in_color(sys.stdout), replicas)

    def write_text(lines: list[LogEvent]) -> None:
        if lines:
            sys.stdout.write(formatted.lines(lines))
            sys.stdout.flush()

    return write_text
