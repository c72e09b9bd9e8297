"""Commands on the nodes of a run that has not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.target_info import target_info
from rsctl.targets import get
from rsctl.targets.base import Enterable, NodeCommand, Shell, ShellTarget

if TYPE_CHECKING:
    from rsctl.api.run_handle import Run


def node_command(
    run: Run, replica: str | None, command: Sequence[str], is_terminal: bool
) -> NodeCommand:
    """The process on this machine that runs a command on a node; an empty command is a shell.

    The default node is the first. Raises RsctlError if rsctl cannot reach the node.
    """
    name = run.record.target
    target = get(name)
    if run.is_rehearsed or not isinstance(target, Enterable):
        what = "a rehearsed cloud" if run.is_rehearsed else f"target {name}"
        message = f"rsctl cannot run commands on the nodes of {what}"
        access = target_info(name).node_access
        remedy = f"run {access}" if access else "use target process or compose"
        if isinstance(target, ShellTarget):
            remedy += f", or the shell that the service offers: rsctl shell {run.id}"
        raise RsctlError(ExitCode.USAGE, error("unsupported", message, remedy))
    chosen = _chosen(run, replica)
    found = target.enter(run.id, chosen, list(command), is_terminal)
    if found is None:
        message = f"{chosen} of {run.id} does not run"
        remedy = f"see its state: rsctl status {run.id}"
        raise RsctlError(ExitCode.USAGE, error("replica", message, remedy))
    return found


def shell_of(run: Run, replica: str | None, is_terminal: bool) -> Shell | NodeCommand:
    """The shell on a node: a process of this machine, or the shell that the service offers.

    The default node is the first. Raises RsctlError if there is none.
    """
    target = get(run.record.target)
    if isinstance(target, ShellTarget):
        return target.shell(run.record, _chosen(run, replica))
    return node_command(run, replica, [], is_terminal)


def _chosen(run: Run, replica: str | None) -> str:
    """The name of a replica of a run that has not ended. Raises RsctlError."""
    if run.state.is_final:
        message = f"{run.id} has ended ({run.state.value}), and its nodes with it"
        raise RsctlError(ExitCode.USAGE, error("ended", message, f"rsctl logs {run.id}"))
    chosen = run.replicas[0] if replica is None else replica
    if chosen not in run.replicas:
        message = f"{run.id} has no replica {chosen}"
        remedy = f"its replicas are {', '.join(run.replicas)}"
        raise RsctlError(ExitCode.USAGE, error("replica", message, remedy))
    return chosen
