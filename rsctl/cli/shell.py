"""`rsctl shell RUN [REPLICA]`: a shell on a node of a run."""

from __future__ import annotations

import shlex
from typing import Annotated, Optional

import typer

from rsctl.api import NodeCommand
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.exec import is_terminal, run_here
from rsctl.cli.open import is_desktop, open_page
from rsctl.cli.runs import find_run
from rsctl.runs.stream.sanitize import sanitize_line


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
) -> None:
    """Open a shell on a node of a run, with the variables of the job.

    On target process it is your own shell, in the job's folder. On Vertex AI, with
    targets.vertex.web_access, it is a page: the command prints its address and, on a desktop, opens
    it. On SageMaker, with targets.sagemaker.remote_debug, it is a session of AWS Systems Manager,
    which needs the aws command with its Session Manager plugin. If standard output is not a
    terminal, and in a rehearsal, rsctl prints the command of the session.

    Exit code: the exit code of the shell; 2 if rsctl cannot reach the node.
    """
    handle = find_run(run)
    found = handle.shell(replica, is_terminal=is_terminal())
    if isinstance(found, NodeCommand):
        run_here(found)
    if found.page is not None:
        typer.echo(sanitize_line(found.page))
        if is_desktop() and not handle.is_rehearsed:
            open_page(found.page)
    elif found.command is not None and is_terminal() and not handle.is_rehearsed:
        run_here(NodeCommand(found.command))
    elif found.command is not None:
        typer.echo(sanitize_line(shlex.join(found.command)))
