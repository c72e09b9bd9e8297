"""`rsctl history WHERE`: the samples of a job over commits, and the steps in them."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from rsctl.api import read_series
from rsctl.cli import options
from rsctl.cli.command import ParentCommand, make_command
from rsctl.cli.show import print_json

_EPILOG = (
    "rsctl history add WHERE BENCH: append a bench. rsctl history bisect JOB: search for the "
    "commit with which a job became worse."
)


class _History(ParentCommand):
    words = ("add", "bisect")


@make_command("history", cls=_History, epilog=_EPILOG)
def command(
    location: Annotated[
        str,
        typer.Argument(metavar="WHERE", help="The history: FILE, gs://…, s3://… or git:REF:PATH."),
    ],
    metrics: options.MetricNames = [],
    cells: Annotated[
        list[str],
        typer.Option(
            "--cell", metavar="KEY=VALUE", help="Show only cells with this value. Repeatable."
        ),
    ] = [],
    job: Annotated[
        Optional[str], typer.Option("--job", metavar="NAME", help="Show only the job of this name.")
    ] = None,
    output: options.Output = "text",
) -> None:
    """Show the samples of a job over commits, and the steps in them.

    Exit code: 0 regardless of the steps; `rsctl gate --history` decides.
    """
    view = read_series(location, metrics=metrics, cells=cells, job=job)
    if output == "json":
        print_json(view)
    else:
        from rsctl.cli.views.history import print_history

        print_history(view)
