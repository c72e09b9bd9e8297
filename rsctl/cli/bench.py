"""`rsctl bench`: the commands on a matrix of jobs, each repeated, as one thing with an id."""

from __future__ import annotations

import typer

from rsctl.cli.command import LazyGroup, NoColor, Quiet
from rsctl.cli.output import set_output


class _Benches(LazyGroup):
    """The commands of `rsctl bench`."""

    panels = {
        "Commands": {
            "run": "Run what is missing of a job file's matrix, or failed before.",
            "list": "List benches, the newest first.",
            "status": "Show the cells of a bench and what came of their runs.",
            "cancel": "End all runs of a bench, and start none any more.",
        }
    }
    prefix = "bench_"


command = typer.Typer(
    cls=_Benches, add_completion=False, rich_markup_mode=None, no_args_is_help=True
)


@command.callback()
def _bench(quiet: Quiet = False, no_color: NoColor = False) -> None:
    """Benchmark jobs: the cells of a matrix, repeated, under one id.

    BENCH is an id, a unique prefix of one, or @last.
    """
    set_output(quiet, no_color)
