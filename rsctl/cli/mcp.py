"""`rsctl mcp`: tools for AI agents, over standard input and output."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from rsctl.api import Budget
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.mcp.server import serve
from rsctl.mcp.session import Session


@make_command("mcp")
def command(
    context: typer.Context,
    root: Annotated[
        Path,
        typer.Option(
            "--root",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="The folder of the job files, and of paths in calls.",
        ),
    ] = Path(),
    allow_submit: Annotated[
        bool,
        typer.Option(
            "--allow-submit", help="Offer submit and rehearse, and let gate run job files."
        ),
    ] = False,
    max_cost: options.MaxCost = None,
) -> None:
    """Serve tools for AI agents: the Model Context Protocol on standard input and output.

    The tools are validate, plan, advise, status, logs, metrics, compare, gate and list, and with
    --allow-submit also submit and rehearse. Job files must be in DIR. The server ends when its
    client closes standard input; runs continue.
    """
    if max_cost is not None and not allow_submit:
        context.fail("--max-cost limits submissions, which need --allow-submit")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # reading standard input cannot be interrupted
    os.chdir(root)
    if sys.stdin is not None:  # it was not closed at the start
        serve(Session(Path.cwd().resolve(), allow_submit, Budget(max_cost)))
