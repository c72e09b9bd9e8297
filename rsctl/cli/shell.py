"""`rsctl shell RUN [REPLICA]`: a shell on a node of a run."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.exec import is_terminal, run_here
from rsctl.cli.runs import find_run


@make_command("shell")
def command(
    run: options.RunId,
    replica: Annotated[
        Optional[str],
        typer.Argument(
            metavar="[REPLICA]",
            autocompletion=options.complete_replicas,
            help="A replica. Default: the first.",
        ),
    ] = None,
) -> int:
    """Open a shell on a node of a run, with the variables of the job.

    Targets process and compose. On target process it is your own shell, in the job's folder.

    Exit code: the exit code of the shell; 2 if rsctl cannot reach the node.
    """
    run_here(find_run(run).node_command([], replica, is_terminal=is_terminal()))
