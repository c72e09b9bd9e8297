"""`rsctl exec RUN [REPLICA] -- COMMAND...`: run a command on a node of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from rsctl.api import NodeCommand
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.fence import run_fenced
from rsctl.cli.output import is_in_ci
from rsctl.cli.runs import find_run
from rsctl.findings import ExitCode, RsctlError, error


@make_command("exec")
def command(
    run: options.RunId,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[REPLICA] -- COMMAND...",
            help="A replica, such as worker-1 (default: the first), and the command.",
        ),
    ],
) -> None:
    """Run a command on a node of a run, with the variables of the job.

    Write -- before a command that has options. Targets process and compose. On compose, a command
    that is interrupted without a terminal continues until the run ends.

    Exit code: the exit code of the command; 2 if rsctl cannot reach the node.
    """
    handle = find_run(run)
    replica = words[0] if words[0] in handle.replicas else None
    if replica is None and _is_like_one(words[0], handle.replicas):
        message = f"{handle.id} has no replica {words[0]}"
        remedy = f"its replicas are {', '.join(handle.replicas)}"
        raise RsctlError(ExitCode.USAGE, error("replica", message, remedy))
    argv = words if replica is None else words[1:]
    if not argv:
        remedy = f"rsctl exec {handle.id} {replica} -- COMMAND, or rsctl shell {handle.id}"
        raise RsctlError(ExitCode.USAGE, error("command", "there is no command to run", remedy))
    run_here(handle.node_command(argv, replica, is_terminal=is_terminal()))


def _is_like_one(word: str, replicas: Sequence[str]) -> bool:
    """Whether a word is the name of a replica that a run of these replicas could have."""
    role, _, number = word.rpartition("-")
    return number.isdigit() and role in {name.rpartition("-")[0] for name in replicas}


def is_terminal() -> bool:
    """Whether the user types into the command."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def run_here(command: NodeCommand) -> NoReturn:
    """Become the command; in a CI system, pass on its fenced output and end as it does.

    Raises RsctlError if it does not exist.
    """
    sys.stdout.flush()
    env = dict(os.environ) if command.env is None else command.env
    if command.env is not None and "TERM" in os.environ:
        env = {**env, "TERM": os.environ["TERM"]}
    try:
        if is_in_ci():
            sys.exit(run_fenced(command.argv, command.cwd, env))
        if command.cwd is not None:
            os.chdir(command.cwd)
        os.execvpe(command.argv[0], command.argv, env)  # noqa: S606 - no shell
    except OSError as problem:
        message = f"cannot run {command.argv[0]}: {problem.strerror}"
        raise RsctlError(ExitCode.USAGE, error("command", message, "correct the command")) from None
