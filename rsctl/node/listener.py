"""Listens for the connections of a job's other nodes, each served by a thread of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rsctl.node.cluster import Cluster
from rsctl.node.errors import ENVIRONMENT, LaunchError
from rsctl.node.network import address_of, is_loopback
from rsctl.node.threads import stop_signals_blocked

Address = tuple[str, int]
Serve = Callable[[socket.socket, Callable[[], None]], None]
"""Serves one connection, and calls the second argument when the peer has proved who it is."""

_RETRY_SECONDS = 0.2
_MAX_UNAUTHENTICATED = 64


def own_address(cluster: Cluster) -> str:
    """The address on which this node listens. Raises OSError."""
    if cluster.interface is None or is_loopback(cluster.own_host):
        return cluster.own_host
    return address_of(cluster.interface)


@contextmanager
def listening(code: str, port: int, what_for: str) -> Iterator[None]:
    """A context for making a listener, whose threads get no stop signal.

    Raises LaunchError where the code within raises OSError, because something else uses the port.
    """
    try:
        with stop_signals_blocked():
            yield
    except OSError as problem:
        raise LaunchError(
            ENVIRONMENT,
            code,
            f"cannot listen on port {port}{what_for}: {problem}",
            "Find out what else listens there, and remove it from the image.",
        ) from problem


class Listener:
    """Accepts connections, and closes each when it has been served.

    Where too many are not authenticated, the oldest of those is closed, so that a node of the job
    never waits for them. Start it with the stop signals blocked in its threads (threads.py).
    """

    def __init__(self, address: Address, serve: Serve) -> None:
        """Raises OSError if the address cannot be bound."""
        self._listener = socket.create_server(address, backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self._serve_one = serve
        self._unauthenticated: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._accept_all, daemon=True).start()

    def close(self) -> None:
        """Listen no more: the port is free. Connections remain."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _accept_all(self) -> None:
        while not self._is_closed:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # Out of descriptors, which passes, or closed.
                time.sleep(_RETRY_SECONDS)
                continue
            with self._lock:
                if len(self._unauthenticated) >= _MAX_UNAUTHENTICATED:
                    _shut_down(self._unauthenticated.popleft())
                self._unauthenticated.append(sock)
            try:
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()
            except RuntimeError:  # No more threads for now, which passes; a node comes again.
                self._forget(sock)
                sock.close()
                time.sleep(_RETRY_SECONDS)

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                self._serve_one(sock, lambda: self._forget(sock))
            finally:
                self._forget(sock)

    def _forget(self, sock: socket.socket) -> None:
        """A connection is authenticated or closed."""
        with self._lock, suppress(ValueError):  # it may have been closed as the oldest
            self._unauthenticated.remove(sock)


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
