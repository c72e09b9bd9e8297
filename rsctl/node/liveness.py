"""The protocol by which a worker's node reports to those that end with the workers: it is alive.

Where a job has ended only when all of its containers have, reducers, and roles of the job's own
that end with the workers, must end when the workers have ended, however they did: also a worker
whose script failed before it came to the transport, one that was killed, and one whose machine was
lost. So each worker's first process holds a connection to the first process of each such node, one
port below where that node's program listens:

    node      rsctl-presence NONCE
    worker    INDEX HMAC-SHA256(token, "rsctl-presence", run, nonce, index)
    node      ok
    worker    bye                       when it ends in order; its death closes the connection too

Nothing else is sent. Only who has the run's token counts as a worker. The two sides are
liveness_client.py and liveness_server.py.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import platform
from rsctl.node.roles import STOPPED_ROLES

GREETING = "rsctl-presence"
BYE = b"bye\n"
MAX_LINE_BYTES = 200
"""No line of this protocol is longer."""

HANDSHAKE_SECONDS = 5.0
"""How long a peer may take to connect, and for each line of the handshake."""

Address = tuple[str, int]


def stopped_nodes(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, list[Address]]:
    """The nodes that must notice by themselves that the workers have ended, by role: where their
    programs listen.

    Without a token no worker could prove that it is one; the reducer's program refuses that itself.
    """
    if not environ.get("RSCTL_TOKEN") or not platform(cluster.platform).stopped_by_workers:
        return {}
    named = environ.get(STOPPED_ROLES, "").split(",")
    found = {role: [_address(each) for each in cluster.role_hosts.get(role, ())] for role in named}
    found["reducer"] = list(zip(cluster.reducers, cluster.reducer_ports, strict=True))
    return {role: nodes for role, nodes in found.items() if nodes}


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def liveness_port(port: int) -> int:
    """The port of this protocol on a node whose program listens at `port`."""
    return port - 1


def proof(token: bytes, run: str, nonce: str, index: int) -> str:
    """The answer to a nonce that only a worker of this run can give."""
    import hashlib  # few launchers prove anything
    import hmac

    text = "\0".join((GREETING, run, nonce, str(index)))
    return hmac.new(token, text.encode(), hashlib.sha256).hexdigest()


def read_line(sock: socket.socket) -> str:
    """One line, of at most MAX_LINE_BYTES, within HANDSHAKE_SECONDS.

    Raises OSError if the peer ends before, sends more, or takes longer.
    """
    # Byte by byte, without a buffer: what follows the line, such as a goodbye that was sent at
    # once, must stay in the socket for its reader.
    line, until = b"", time.monotonic() + HANDSHAKE_SECONDS
    while not line.endswith(b"\n"):
        sock.settimeout(max(0.001, until - time.monotonic()))
        byte = sock.recv(1)
        if not byte or len(line) >= MAX_LINE_BYTES:
            raise ConnectionError("no whole line came")
        line += byte
    return line.decode(errors="replace").strip()


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel notice within half a minute that the other machine is gone.

    A machine that is lost closes no connection, and nothing is sent on this one that could fail.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
