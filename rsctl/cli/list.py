"""`rsctl list`: the runs, the newest first."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import bring_all_up_to_date, shown
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.cli.views import state_on
from rsctl.findings import ExitCode
from rsctl.runs.disk_use import disk_use
from rsctl.runs.final_state import with_final_state
from rsctl.runs.home import run_directory
from rsctl.runs.store import Run, Store
from rsctl.stream.events import now, seconds_between
from rsctl.stream.formatting import format_bytes, format_duration, format_number
from rsctl.stream.sanitize import sanitize_line

_MAX_METRICS = 3


@make_command("list")
@options.errors_as_json
def command(
    limit: options.Limit = 20,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also what each run takes on the disk.")
    ] = False,
    output: options.Output = "text",
) -> int:
    """List runs, the newest first."""
    store = Store()
    bring_all_up_to_date(store.unfinished())
    runs = [with_final_state(run) for run in store.runs(limit + 1 if limit else -1)]
    runs, older = (runs[:limit], runs[limit:]) if limit else (runs, [])
    show_findings(store.damage())
    sizes = {run.run: disk_use(run_directory(run.run)) for run in runs if verbose}
    if output == "json":
        print_json({"runs": [{**shown(store, run), **_disk(run, sizes)} for run in runs]})
    elif not runs and not store.damaged:
        typer.echo("no runs yet; start one: rsctl submit JOB", err=True)
    elif runs:
        _print_table(runs, {run.run: store.last_values(run.run) for run in runs}, sizes)
    if older:
        print_message(f"there are older runs: rsctl list -n {2 * limit}, or -n 0 for all")
    return int(ExitCode.SUCCEEDED)


def _disk(run: Run, sizes: dict[str, int]) -> dict[str, int]:
    return {"disk": sizes[run.run]} if run.run in sizes else {}


def _print_table(
    runs: list[Run], values: dict[str, dict[str, float]], sizes: dict[str, int]
) -> None:
    width = max(len(run.run) for run in runs)
    beside = max(8, *(len(run.target) for run in runs))
    disk = "      DISK" if sizes else ""
    head = f"{'RUN':<{width}}  {'TARGET':<{beside}}  {'STATE':<10}  EXIT  {'CREATED (UTC)':<16}"
    typer.echo(f"{head}     TIME{disk}  OVERRIDES AND METRICS")
    for run in runs:
        took = format_duration(seconds_between(run.created, run.ended or now()))
        created = run.created[:16].replace("T", " ")
        state = state_on(sys.stdout, run.state, 10)
        code = "" if run.exit_code is None else run.exit_code
        details = _details(run, values[run.run])
        start = f"{run.run:<{width}}  {run.target:<{beside}}  {state}  {code:>4}  {created}"
        disk = f"  {format_bytes(sizes[run.run]):>8}" if sizes else ""
        typer.echo(f"{start}  {took:>7}{disk}  {details}".rstrip())


def _details(run: Run, values: dict[str, float]) -> str:
    """What was laid over the job file, and the last values of metrics, the declared ones first."""
    named = [name for name in run.metrics_spec if name in values]
    named += [name for name in values if name not in run.metrics_spec]
    metrics = [f"{name}={format_number(values[name])}" for name in named[:_MAX_METRICS]]
    more = [f"and {len(named) - _MAX_METRICS} more"] * (len(named) > _MAX_METRICS)
    settings = [f"--set {setting}" for setting in run.settings]
    return sanitize_line("  ".join([*settings, *metrics, *more]))
