"""`rsctl history WHERE`: the samples of a job over commits, and the steps in them."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import typer
from typer.main import get_command

from rsctl.api import read_series
from rsctl.cli import options
from rsctl.cli.command import Command, make_command
from rsctl.cli.show import print_json
from rsctl.findings import ExitCode

_EPILOG = (
    "rsctl history add WHERE BENCH: append a bench. rsctl history bisect JOB: search for the "
    "commit with which a job became worse."
)
_OTHERS = ("add", "bisect")


class _History(Command):
    """The group of `rsctl history`, of which `add` and `bisect` are separate commands."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        if not args or args[0] not in _OTHERS:
            return super().make_context(info_name, args, parent, **extra)
        if args[0] == "add":
            from rsctl.cli.history_add import command as other
        else:
            from rsctl.cli.history_bisect import command as other
        command = get_command(other)
        return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)


@make_command("history", cls=_History, epilog=_EPILOG)
@options.errors_as_json
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
) -> int:
    """Show the samples of a job over commits, and the steps in them.

    Exit code: 0 regardless of the steps; `rsctl gate --history` decides.
    """
    view = read_series(location, metrics=metrics, cells=cells, job=job)
    if output == "json":
        print_json(view)
    else:
        from rsctl.cli.views.history import print_history

        print_history(view)
    return int(ExitCode.SUCCEEDED)
