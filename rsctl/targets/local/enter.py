"""Commands on the nodes of a local run, for `rsctl exec` and `rsctl shell`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rsctl.targets.base import NodeCommand
from rsctl.targets.local import docker, strike_program
from rsctl.targets.local.backend import processes_of
from rsctl.targets.local.composefile import container_name

_SHELL = ["sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"]


def process_command(run: str, replica: str, command: list[str]) -> NodeCommand | None:
    """A command with the variables and in the folder of a replica's oldest process.

    The variables include those by which the supervisor finds the processes of its run.
    """
    for pid in sorted(processes_of(run, replica), key=_started):
        with suppress(OSError):  # it has just ended
            env = strike_program.environ(pid)
            return NodeCommand(command, os.readlink(f"/proc/{pid}/cwd"), env)
    return None


def _started(pid: int) -> int:
    """When a process started, in ticks since the boot: field 22 of proc(5)."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(text.rpartition(") ")[2].split()[19])
    return 0


def container_command(
    run: str, replica: str, command: list[str], is_terminal: bool
) -> NodeCommand | None:
    """A command in a replica's container; None if the container does not run."""
    name = container_name(run, replica)
    state = docker.run(["docker", "inspect", "--format", "{{.State.Running}}", name])
    if state.returncode or state.stdout.strip() != "true":
        return None
    terminal = ["--tty"] if is_terminal else []
    return NodeCommand(["docker", "exec", "--interactive", *terminal, name, *(command or _SHELL)])
