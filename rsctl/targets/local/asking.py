"""Asks the launchers of a local run's nodes to report what their ranks do, in their logs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

from rsctl.node.stall.request import send_request
from rsctl.runs.folder import RunFolder
from rsctl.targets.local.composefile import container_name

_REQUEST = 'printf "%s\\n" "$1" > "${TMPDIR:-/tmp}/rsctl-ask-$RSCTL_REPLICA"'
"""A shell does it: where an image has rsctl and its Python differs from image to image."""
_DOCKER_SECONDS = 10


def ask_processes(run: str, replicas: Iterable[str], number: int) -> None:
    """Ask nodes that are processes of this machine; one that has ended is left out."""
    for replica in replicas:
        folder = RunFolder(run).path / replica / "tmp"
        send_request(number, {"RSCTL_REPLICA": replica, "TMPDIR": str(folder)})


def ask_containers(run: str, replicas: Iterable[str], number: int) -> list[subprocess.Popen[bytes]]:
    """Ask nodes that are containers, all at once; returns docker's commands, which end soon."""
    return [
        subprocess.Popen(
            [
                *("timeout", "-k", "1", str(_DOCKER_SECONDS)),
                *("docker", "exec", container_name(run, replica)),
                *("sh", "-c", _REQUEST, "sh", str(number)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for replica in replicas
    ]
