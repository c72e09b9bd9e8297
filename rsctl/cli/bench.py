"""`rsctl bench`: the commands for a matrix of jobs, repeated under one ID."""

from __future__ import annotations

import typer

from rsctl.cli.command import LazyGroup, NoColor, Quiet
from rsctl.cli.output import set_output


class _Benches(LazyGroup):
    """The commands of `rsctl bench`."""

    panels = {
        "Commands": {
            "run": "Run the cells of a job file's matrix that have not succeeded yet.",
            "list": "List benches, newest first.",
            "status": "Show the cells of a bench and the results of their runs.",
            "cancel": "Cancel all runs of a bench, and start no more of them.",
        }
    }
    prefix = "bench_"


command = typer.Typer(
    cls=_Benches, add_completion=False, rich_markup_mode=None, no_args_is_help=True
)


@command.callback()
def _bench(quiet: Quiet = False, no_color: NoColor = False) -> None:
    """Run benchmark jobs: the cells of a matrix, repeated, under one ID.

    BENCH is an ID, a unique prefix of one, @last, or a job file: its last bench.
    """
    set_output(quiet, no_color)
