"""A reducer's side of the liveness protocol: it ends its node when all workers have ended.

See liveness.py.
"""

from __future__ import annotations

import hmac
import os
import secrets
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from rsctl.runtime.cluster import Cluster
from rsctl.runtime.environment import peer_timeout
from rsctl.runtime.errors import ENVIRONMENT, LaunchError
from rsctl.runtime.liveness import (
    BYE,
    GREETING,
    MAX_LINE_BYTES,
    Address,
    is_needed,
    keep_alive,
    liveness_port,
    proof,
    read_line,
)
from rsctl.runtime.network import address_of, is_loopback
from rsctl.runtime.threads import stop_signals_blocked

RECONNECT_SECONDS = 5.0
"""How long a worker's node whose connection was lost without a goodbye may take to come back."""

_POLL_SECONDS = 0.2
_MAX_UNAUTHENTICATED = 64


def start_server(cluster: Cluster, environ: Mapping[str, str]) -> LivenessServer | None:
    """End this process by SIGTERM when all workers have ended, if this is a reducer's node and
    the platform would not end it.

    Raises LaunchError if the workers could not reach it.
    """
    if cluster.role != "reducer" or not is_needed(cluster, environ):
        return None
    port = liveness_port(cluster.reducer_ports[cluster.index])
    workers = WorkerLiveness(len(cluster.workers), peer_timeout(cluster, environ))
    run, token = environ.get("RSCTL_RUN", ""), environ["RSCTL_TOKEN"].encode()
    try:
        with stop_signals_blocked():
            return LivenessServer((_own_address(cluster), port), workers, run, token, _stop)
    except OSError as error:
        raise LaunchError(
            ENVIRONMENT,
            "watch-address",
            f"cannot listen on port {port}, where workers report that they are alive: {error}",
            "See what else listens there, and take it out of the image.",
        ) from error


def _own_address(cluster: Cluster) -> str:
    """Where this node listens, as its reducer does. Raises OSError."""
    if cluster.interface is None or is_loopback(cluster.own_host):
        return cluster.own_host
    return address_of(cluster.interface)


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
        self._listener = socket.create_server(address, backlog=1024)
        self._workers = workers
        self._run, self._token = run, token
        self._stop = stop
        self._unauthenticated: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        self.has_ended = False
        """Whether all workers have ended, and `stop` was called."""
        for loop in (self._accept_all, self._wait_for_end):
            threading.Thread(target=loop, daemon=True).start()

    def _wait_for_end(self) -> None:
        while not self._workers.all_ended():
            time.sleep(_POLL_SECONDS)
        self.has_ended = True
        self._stop()

    def _accept_all(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # Out of descriptors, which passes.
                time.sleep(_POLL_SECONDS)
                continue
            # A connection has HANDSHAKE_SECONDS to authenticate itself; where too many try, the
            # oldest is closed, so that a worker never waits for them.
            with self._lock:
                if len(self._unauthenticated) >= _MAX_UNAUTHENTICATED:
                    _shut_down(self._unauthenticated.popleft())
                self._unauthenticated.append(sock)
            try:
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()
            except RuntimeError:  # No more threads for now, which passes; a worker comes again.
                self._forget(sock)
                sock.close()
                time.sleep(_POLL_SECONDS)

    def _forget(self, sock: socket.socket) -> None:
        """A connection is authenticated or closed."""
        with self._lock, suppress(ValueError):  # it may have been closed as the oldest
            self._unauthenticated.remove(sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                index = self._authenticate(sock)
            except OSError:
                return
            finally:
                self._forget(sock)
            self._workers.connected(index)
            self._workers.disconnected(index, in_order=_ends_with_goodbye(sock))

    def _authenticate(self, sock: socket.socket) -> int:
        """The index of the worker that has connected. Raises OSError for all other peers."""
        nonce = secrets.token_hex(16)
        sock.sendall(f"{GREETING} {nonce}\n".encode())
        text, _, answer = read_line(sock).partition(" ")
        index = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
        expected = proof(self._token, self._run, nonce, index)
        if not hmac.compare_digest(answer.encode(), expected.encode()):
            raise OSError("the peer does not have the run's token")
        if not 0 <= index < self._workers.count:
            raise OSError("a worker that this job does not have")
        keep_alive(sock)
        sock.sendall(b"ok\n")
        return index


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _ends_with_goodbye(sock: socket.socket) -> bool:
    """Wait until a worker's connection has ended; whether it ended with a goodbye."""
    sock.settimeout(None)
    with suppress(OSError):
        return sock.recv(MAX_LINE_BYTES) == BYE
    return False
