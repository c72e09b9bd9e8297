"""Asks the launchers of nodes that are processes to report what their ranks do, in their logs."""

from __future__ import annotations

from collections.abc import Iterable

from rsctl.node.stall.request import send_request
from rsctl.runs.folder import RunFolder


def ask_processes(run: str, replicas: Iterable[str], number: int) -> None:
    """Ask nodes that are processes of this machine; one that has ended is left out."""
    for replica in replicas:
        folder = RunFolder(run).path / replica / "tmp"
        send_request(number, {"RSCTL_REPLICA": replica, "TMPDIR": str(folder)})
