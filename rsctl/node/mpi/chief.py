"""The chief's side of launcher mpi: it holds the other nodes while mpirun runs. See protocol.py."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress

from rsctl.node.cluster import Cluster
from rsctl.node.environment import peer_timeout
from rsctl.node.errors import TEMPORARY, LaunchError
from rsctl.node.mpi import protocol
from rsctl.node.mpi.mpirun import require_token


class HeldNodes:
    """The connections by which the other workers know that the job runs."""

    def __init__(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        """Connect to all of them. Raises LaunchError if one does not answer in time."""
        self._held: list[socket.socket] = []
        token, run = require_token(environ), environ.get("RSCTL_RUN", "")
        timeout = peer_timeout(cluster, environ)
        until = time.monotonic() + timeout
        for index, host in enumerate(cluster.workers[1:], 1):
            identity = protocol.Identity(token, run, index)
            self._held.append(_hold((host, cluster.port), identity, timeout, until))

    def end(self, code: int) -> None:
        """Tell them that the job has ended, with this exit code."""
        for sock in self._held:
            with sock, suppress(OSError):
                sock.sendall(f"end {code}\n".encode())


def _hold(
    address: tuple[str, int], identity: protocol.Identity, timeout: float, until: float
) -> socket.socket:
    try:
        return protocol.request_within(until - time.monotonic(), address, identity, {})
    except (OSError, UnicodeError) as error:
        raise LaunchError(
            TEMPORARY,
            "peers-silent",
            f"after {timeout:g} s {address[0]}, port {address[1]} does not answer: {error}",
            "Check whether that node started, and whether a firewall is between the nodes.",
        ) from error
