"""The other side of the liveness protocol: it ends a node when all workers have ended.

See liveness.py.
"""

from __future__ import annotations

import hmac
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from rsctl.node.cluster import Cluster
from rsctl.node.environment import peer_timeout
from rsctl.node.listener import Address, Listener, listening, own_address
from rsctl.node.liveness import (
    BYE,
    GREETING,
    MAX_LINE_BYTES,
    keep_alive,
    liveness_port,
    proof,
    read_line,
    stopped_nodes,
)

RECONNECT_SECONDS = 5.0
"""How long a worker's node whose connection was lost without a goodbye may take to come back."""

_POLL_SECONDS = 0.2


def start_server(cluster: Cluster, environ: Mapping[str, str]) -> LivenessServer:
    """End this process by SIGTERM when all workers have ended; its role is in `stopped_nodes`.

    Raises LaunchError if the workers could not reach it.
    """
    port = liveness_port(stopped_nodes(cluster, environ)[cluster.role][cluster.index][1])
    workers = WorkerLiveness(len(cluster.workers), peer_timeout(cluster, environ))
    run, token = environ.get("RSCTL_RUN", ""), environ["RSCTL_TOKEN"].encode()
    with listening("watch-address", port, ", where workers report that they are alive"):
        return LivenessServer((own_address(cluster), port), workers, run, token, _stop)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class WorkerLiveness:
    """Which of a job's workers are connected, by index, and whether any may still connect.

    `start_timeout` is for workers that have not connected yet, `reconnect_timeout` for those whose
    connection was lost, in seconds.
    """

    def __init__(
        self,
        count: int,
        start_timeout: float,
        reconnect_timeout: float = RECONNECT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = count
        self._clock = clock
        self._reconnect_timeout = reconnect_timeout
        # Counts: a worker may be connected again before its broken connection is found to be lost.
        self._connections = [0] * count
        self._expected_until = [clock() + start_timeout] * count
        self._lock = threading.Lock()

    def connected(self, index: int) -> None:
        """A worker's node has connected, for the first time or again."""
        with self._lock:
            self._connections[index] += 1

    def disconnected(self, index: int, in_order: bool) -> None:
        """A connection has ended, with a goodbye or without."""
        timeout = 0 if in_order else self._reconnect_timeout
        with self._lock:
            self._connections[index] -= 1
            self._expected_until[index] = self._clock() + timeout

    def all_ended(self) -> bool:
        """Whether no worker is connected, and none may still connect."""
        with self._lock:
            now = self._clock()
            return not any(self._connections) and all(
                now >= until for until in self._expected_until
            )


class LivenessServer:
    """Listens for the workers' nodes, and calls `stop` once when all workers have ended.

    Start it with the stop signals blocked in its threads (threads.py).
    """

    def __init__(
        self,
        address: Address,
        workers: WorkerLiveness,
        run: str,
        token: bytes,
        stop: Callable[[], None],
    ) -> None:
        """Raises OSError if the address cannot be bound."""
        self._workers = workers
        self._run, self._token = run, token
        self._stop = stop
        self.has_ended = False
        """Whether all workers have ended, and `stop` was called."""
        Listener(address, self._serve)
        threading.Thread(target=self._wait_for_end, daemon=True).start()

    def _wait_for_end(self) -> None:
        while not self._workers.all_ended():
            time.sleep(_POLL_SECONDS)
        self.has_ended = True
        self._stop()

    def _serve(self, sock: socket.socket, authenticated: Callable[[], None]) -> None:
        try:
            index = self._authenticate(sock)
        except OSError:
            return
        authenticated()
        self._workers.connected(index)
        self._workers.disconnected(index, in_order=_ends_with_goodbye(sock))

    def _authenticate(self, sock: socket.socket) -> int:
        """The index of the worker that has connected. Raises OSError for all other peers."""
        nonce = os.urandom(16).hex()  # a new one: a recorded answer must not count a second time
        sock.sendall(f"{GREETING} {nonce}\n".encode())
        text, _, answer = read_line(sock).partition(" ")
        index = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
        expected = proof(self._token, self._run, nonce, index)
        if not hmac.compare_digest(answer.encode(), expected.encode()):
            raise OSError("the peer does not have the run's token")
        if not 0 <= index < self._workers.count:
            raise OSError("a worker that does not belong to this job")
        keep_alive(sock)
        sock.sendall(b"ok\n")
        return index


def _ends_with_goodbye(sock: socket.socket) -> bool:
    """Wait until a worker's connection has ended; whether it ended with a goodbye."""
    sock.settimeout(None)
    with suppress(OSError):
        return sock.recv(MAX_LINE_BYTES) == BYE
    return False
