"""A worker's side of the liveness protocol: connections to nodes that end with the workers.

See liveness.py.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain

from rsctl.node.cluster import Cluster
from rsctl.node.liveness import (
    BYE,
    GREETING,
    HANDSHAKE_SECONDS,
    Address,
    keep_alive,
    liveness_port,
    proof,
    read_line,
    stopped_nodes,
)
from rsctl.node.threads import stop_signals_blocked

_RETRY_SECONDS = 0.3
_CLOSE_SECONDS = 5.0


def start_client(cluster: Cluster, environ: Mapping[str, str]) -> LivenessClient:
    """Connect a worker's node to those that end with the workers."""
    nodes = list(chain(*stopped_nodes(cluster, environ).values()))
    token = environ["RSCTL_TOKEN"].encode()
    with stop_signals_blocked():
        return LivenessClient(nodes, cluster.index, environ.get("RSCTL_RUN", ""), token)


class LivenessClient:
    """Reports this worker's node to other nodes as alive, until it closes or dies.

    `nodes` are where their programs listen. It works in threads, in which the stop signals must be
    blocked (threads.py).
    """

    def __init__(self, nodes: Sequence[Address], index: int, run: str, token: bytes) -> None:
        self._connections = [
            _Connection((host, liveness_port(port)), index, run, token) for host, port in nodes
        ]

    @property
    def is_connected(self) -> bool:
        """Whether each node has accepted a connection, now or before."""
        return all(connection.was_open for connection in self._connections)

    def close(self) -> None:
        """Say goodbye. Nodes that are not connected yet get a few seconds to be."""
        until = time.monotonic() + _CLOSE_SECONDS
        for connection in self._connections:
            connection.close(until)


class _Connection:
    """The connection to one node, opened again if it is lost."""

    def __init__(self, address: Address, index: int, run: str, token: bytes) -> None:
        self._address = address
        self._index, self._run, self._token = index, run, token
        self._is_open = threading.Event()
        self._is_closing = threading.Event()
        self._sock: socket.socket | None = None
        threading.Thread(target=self._run_forever, daemon=True).start()

    @property
    def was_open(self) -> bool:
        return self._is_open.is_set()

    def close(self, until: float) -> None:
        # A script may end before its node is connected. Without a goodbye the other node would
        # wait for this one as long as for a node that starts late.
        self._is_open.wait(max(0.0, until - time.monotonic()))
        self._is_closing.set()
        sock = self._sock
        if sock is not None:
            with suppress(OSError):
                sock.sendall(BYE)
                sock.shutdown(socket.SHUT_RDWR)

    def _run_forever(self) -> None:
        while not self._is_closing.is_set():
            with suppress(OSError, UnicodeError):
                self._hold()
            self._is_closing.wait(_RETRY_SECONDS)

    def _hold(self) -> None:
        """Connect, and return when the connection has ended."""
        with socket.create_connection(self._address, timeout=HANDSHAKE_SECONDS) as sock:
            self._authenticate(sock)
            self._sock = sock
            self._is_open.set()
            sock.settimeout(None)
            sock.recv(1)  # Nothing comes: it ends when the other node does, or when we close.
            self._sock = None

    def _authenticate(self, sock: socket.socket) -> None:
        greeting, _, nonce = read_line(sock).partition(" ")
        if greeting != GREETING:
            raise OSError("this is not a node of the job")
        answer = proof(self._token, self._run, nonce, self._index)
        sock.sendall(f"{self._index} {answer}\n".encode())
        if read_line(sock) != "ok":
            raise OSError("the node has refused the connection")
        keep_alive(sock)
