"""`rsctl history add WHERE BENCH`: append what a bench measured to a history."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from rsctl.api import add_bench
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json, print_message
from rsctl.cli.views.history import recorded_line


@make_command("add")
def command(
    location: Annotated[
        str,
        typer.Argument(
            metavar="WHERE",
            help="The history: FILE, gs://…, s3://…, or git:REF:PATH for PATH in the working tree.",
        ),
    ],
    bench: options.BenchArgument,
    commit: Annotated[
        Optional[str],
        typer.Option(
            "--commit",
            metavar="REF",
            help="The commit that was measured. Default: what is checked out, if the job has not "
            "changed since the bench started.",
        ),
    ] = None,
    output: options.Output = "text",
) -> None:
    """Append the samples of a bench to a history, which is created if it does not exist.

    Exit code: 0, or 8 if the bench has no data.
    """
    added = add_bench(location, bench, commit)
    if output == "json":
        print_json(added)
    else:
        print_message(recorded_line(added))
