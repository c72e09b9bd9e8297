"""`rsctl debug RUN`: what each rank does, and who holds up the others."""

from __future__ import annotations

import typer

from rsctl.api.debug import RunInspection, inspect_run
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run_collected
from rsctl.cli.show import print_json, print_message
from rsctl.runs.home import run_directory
from rsctl.runs.stream.sanitize import sanitize_line


@make_command("debug")
def command(run: options.RunId, output: options.Output = "text") -> None:
    """Show what each rank of a run is doing, and which rank the others wait for.

    On this machine and under docker compose rsctl asks the ranks now, without a change to the run.
    In a cloud, and for a run that has ended, it shows the last reports of a stall from the log.

    Exit code: 0; 1 if no node answers; 2 if an ended run has no report; 4 if the target's nodes
    cannot be asked and have not reported.
    """
    found = inspect_run(find_run_collected(run).record)
    if output == "json":
        print_json(found)
    else:
        _print(found)


def _print(found: RunInspection) -> None:
    typer.echo(sanitize_line(found.verdict.message))
    for line in found.verdict.lines:
        typer.echo(f"  {sanitize_line(line)}")
    for replica in found.silent:
        typer.echo(f"  {replica} does not answer")
    if not found.asked:
        print_message("these are the last reports in the log; the ranks were not asked now")
    folders = sorted(run_directory(found.run).glob("*/evidence"))
    folders += sorted(run_directory(found.run).glob("outputs/rsctl-evidence/*"))
    for folder in folders[:8]:
        print_message(f"stacks, Flight Recorder, connections: {folder}")
