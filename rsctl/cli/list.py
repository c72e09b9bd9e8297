"""`rsctl list`: the runs, newest first."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from rsctl.api import Finding, Run, RunRecord, dollars, runs
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_json, print_message
from rsctl.cli.times import parse_since
from rsctl.cli.views.run_text import state_on
from rsctl.findings import ExitCode, JobState
from rsctl.runs.stream.events import now, seconds_between
from rsctl.runs.stream.formatting import format_bytes, format_duration, format_number
from rsctl.runs.stream.sanitize import sanitize_line

_MAX_METRICS = 3


@make_command("list")
@options.errors_as_json
def command(
    limit: options.Limit = 20,
    name: Annotated[
        Optional[str],
        typer.Option(
            "--name", metavar="GLOB", help="Only runs of jobs with this name, such as 'train*'."
        ),
    ] = None,
    state: Annotated[
        list[JobState],
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only runs in this state, such as running or failed. Repeatable.",
        ),
    ] = [],
    since: Annotated[
        Optional[str],
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only runs created since a time: 2h (ago) or RFC 3339.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Also show its placement, its cost and its size on the disk.",
        ),
    ] = False,
    output: options.Output = "text",
) -> int:
    """List runs, newest first."""
    reported: list[str] = []

    def report(name: str, findings: tuple[Finding, ...]) -> None:
        reported.append(name)
        show_outdated(name, findings)

    handles = runs(
        limit + 1 if limit else None,
        name=name,
        states=state,
        since=parse_since(since) if since else None,
        on_outdated=report,
    )
    handles, older = (handles[:limit], handles[limit:]) if limit else (handles, [])
    sizes = {run.id: run.disk_use() for run in handles if verbose}
    if output == "json":
        print_json({"runs": [{**run.to_dict(), **_disk(run, sizes)} for run in handles]})
    elif handles:
        _print_table(handles, sizes)
    elif not reported:
        is_chosen = name is not None or state or since
        nothing = "no such runs" if is_chosen else "no runs yet; start one: rsctl submit JOB"
        typer.echo(nothing, err=True)
    if older:
        print_message(
            f"there are older runs; to see them: rsctl list -n {2 * limit}, or -n 0 for all"
        )
    return int(ExitCode.SUCCEEDED)


def _disk(run: Run, sizes: dict[str, int]) -> dict[str, int]:
    return {"disk": sizes[run.id]} if run.id in sizes else {}


def _print_table(found: list[Run], sizes: dict[str, int]) -> None:
    width = max(len(run.id) for run in found)
    beside = max(8, *(len(run.record.target) for run in found))
    disk = "        COST      DISK" if sizes else ""
    head = f"{'RUN':<{width}}  {'TARGET':<{beside}}  {'STATE':<10}  EXIT  {'CREATED (UTC)':<16}"
    typer.echo(f"{head}     TIME{disk}  OVERRIDES AND METRICS")
    for each in found:
        run = each.record
        took = format_duration(seconds_between(run.created, run.ended or now()))
        created = run.created[:16].replace("T", " ")
        state = state_on(sys.stdout, run.state, 10)
        code = "" if run.exit_code is None else run.exit_code
        details = _details(run, each.last_values())
        details = f"{_placement(run)}{details}" if sizes else details
        start = f"{run.run:<{width}}  {run.target:<{beside}}  {state}  {code:>4}  {created}"
        disk = f"  {_cost(each):>10}  {format_bytes(sizes[run.run]):>8}" if sizes else ""
        typer.echo(f"{start}  {took:>7}{disk}  {details}".rstrip())


def _cost(run: Run) -> str:
    """The run's cost as `12.30 USD`; empty if no price is known."""
    cost = run.cost()
    return dollars(cost.dollars) if cost and cost.dollars is not None else ""


def _placement(run: RunRecord) -> str:
    """The present placement of a run, among its possible placements."""
    tried = [placement for placement in run.placements if placement.began]
    nth = f"placement {len(tried)} of {len(run.placements)}"
    return f"{sanitize_line(str(tried[-1]))} ({nth})  " if tried else ""


def _details(run: RunRecord, values: dict[str, float]) -> str:
    """The overrides of the job file, and the last values of metrics, declared metrics first."""
    named = [name for name in run.metrics_spec if name in values]
    named += [name for name in values if name not in run.metrics_spec]
    metrics = [f"{name}={format_number(values[name])}" for name in named[:_MAX_METRICS]]
    more = [f"and {len(named) - _MAX_METRICS} more"] * (len(named) > _MAX_METRICS)
    settings = [f"--set {setting}" for setting in run.settings]
    return sanitize_line("  ".join([*settings, *metrics, *more]))
