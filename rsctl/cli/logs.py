"""`rsctl logs RUN`: the merged log, complete or followed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Optional

import typer

from rsctl.api import LogFilter, Run, RunRecord
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.output import in_color
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_events, print_message, show_findings
from rsctl.cli.silence import first_awaited, silence_told
from rsctl.cli.times import parse_since
from rsctl.cli.views.run_text import failure_block, final_state_line
from rsctl.runs.findings import LOG_REFUSED, NO_ANSWER
from rsctl.runs.stream.events import FindingEvent, LogEvent, now
from rsctl.runs.stream.formatting import LineFormat, is_shown
from rsctl.runs.stream.headline import CHIEF
from rsctl.runs.stream.sanitize import sanitize

_FILTERS = "Filters"
MOST_FOLLOWED = 8


@make_command("logs", json_errors="events")
def command(
    run: options.RunId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the run has ended.")
    ] = False,
    role: Annotated[
        Optional[str],
        typer.Option(
            "--role",
            metavar="ROLE",
            rich_help_panel=_FILTERS,
            help="Show only this role: worker, reducer, or a role of the job.",
        ),
    ] = None,
    replica: Annotated[
        list[str],
        typer.Option(
            "--replica",
            metavar="NAME",
            autocompletion=options.complete_replicas,
            rich_help_panel=_FILTERS,
            help="Show only this replica, or one of its ranks: worker-0/3. Repeatable.",
        ),
    ] = [],
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", rich_help_panel=_FILTERS, help="Show only the replica that failed first."
        ),
    ] = False,
    everyone: Annotated[
        bool,
        typer.Option(
            "--all",
            rich_help_panel=_FILTERS,
            help=f"With --follow, show all replicas; the default for up to {MOST_FOLLOWED} "
            "workers.",
        ),
    ] = False,
    since: Annotated[
        Optional[str],
        typer.Option(
            "--since",
            metavar="TIME",
            rich_help_panel=_FILTERS,
            help="Show only lines since a time: 10m (ago) or RFC 3339.",
        ),
    ] = None,
    grep: Annotated[
        Optional[str],
        typer.Option(
            "--grep",
            metavar="REGEX",
            rich_help_panel=_FILTERS,
            help="Show only lines that contain this text.",
        ),
    ] = None,
    tail: Annotated[
        Optional[int],
        typer.Option(
            "--tail",
            metavar="N",
            min=0,
            rich_help_panel=_FILTERS,
            help="Show only the last N lines.",
        ),
    ] = None,
    output: options.Output = "text",
) -> None:
    """Show the merged log of a run.

    With --follow and many workers, it shows only the first worker, unless you choose replicas.

    Exit code: 0 regardless of the run's result, 9 if rsctl cannot follow the run to its end;
    `rsctl status --watch` exits with the run's exit code.
    """
    handle = find_run(run, asks_cloud=False)
    if failed:
        with silence_told(handle.id):
            handle.collect()
        handle.reload()
    chosen = LogFilter(
        role=role,
        replicas=tuple(replica),
        failed=failed,
        since=parse_since(since) if since else None,
        grep=_pattern(grep) if grep else None,
        tail_of=None if output == "json" else is_shown,
    )
    if follow and output == "text" and not everyone:
        chosen = _followed(handle, chosen)
    replicas = handle.chosen_replicas(chosen)
    is_without_failure = failed and handle.record.first_failure is None
    if is_without_failure:
        print_message(f"no replica of {handle.id} has failed")
    write = _writer(output, replicas or handle.replicas)
    show_obstacle = _obstacles_since(now())
    batches = handle.log_batches(chosen, tail=tail, follow=follow, on_finding=show_obstacle)
    batches = batches if follow else first_awaited(handle.id, batches)
    has_lines = tail == 0 or is_without_failure
    for batch in batches:
        write(batch)
        has_lines = has_lines or any(output == "json" or is_shown(line) for line in batch)
    findings = handle.log_findings()
    if not has_lines and any((role, replica, failed, grep, since)):
        print_message(f"no line of {handle.id} matches")
    elif not (has_lines or findings):
        is_final = handle.reload().state.is_final
        print_message(f"{handle.id} has written nothing{'' if is_final else ' yet'}")
    show_findings(findings)
    if follow and output == "text":
        _print_end(handle.reload())


def _print_end(run: RunRecord) -> None:
    """Print how a followed run ended; its failure first, which the log may show elsewhere."""
    if run.state.is_final:
        for line in [*failure_block(run), final_state_line(run, now())]:
            print_message(sanitize(line))


def _followed(run: Run, chosen: LogFilter) -> LogFilter:
    """The replicas to follow: the chief if there are many workers, unless replicas or lines were
    chosen.
    """
    workers = [name for name in run.replicas if name.startswith("worker-")]
    is_chosen = chosen.role or chosen.replicas or chosen.failed or chosen.grep
    if is_chosen or len(workers) <= MOST_FOLLOWED:
        return chosen
    print_message(
        f"{run.id} has {len(workers)} workers: following only {CHIEF}; to follow all: rsctl logs "
        f"-f --all {run.id}"
    )
    return replace(chosen, replicas=(CHIEF,))


def _obstacles_since(begin: str) -> Callable[[FindingEvent], None]:
    """Shows why no lines come, as soon as that is known: no permission, or no answer."""

    shown: list[object] = []

    def show(event: FindingEvent) -> None:
        is_new = event.time >= begin and event.finding not in shown
        if event.finding.code in (LOG_REFUSED, NO_ANSWER) and is_new:
            shown.append(event.finding)
            show_findings([event.finding])

    return show


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise typer.BadParameter(str(problem), param_hint="--grep") from None
    return text


def _writer(output: str, replicas: list[str]) -> Callable[[list[LogEvent]], None]:
    if output == "json":
        return print_events
    formatted = LineFormat(in_color(sys.stdout), replicas)

    def write_text(lines: list[LogEvent]) -> None:
        if lines:
            sys.stdout.write(formatted.lines(lines))
            sys.stdout.flush()

    return write_text
