"""A worker's node tells the reducers' nodes that it is there, and that it leaves.

Where a job has ended only when all of its containers have, reducers must end when the workers have
ended, however they did: also a worker whose script failed before it came to the transport, one
that was killed, and one whose machine was lost. So each worker's first process holds a connection
to each reducer's first process, one port below where that reducer listens:

    reducer   rsctl-presence NONCE
    worker    INDEX HMAC-SHA256(token, "rsctl-presence", run, nonce, index)
    reducer   ok
    worker    bye                       when it ends in order; its death closes the connection too

Nothing else is said. Only who has the run's token counts as a worker.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

GREETING = "rsctl-presence"
BYE = b"bye\n"
LINE_BYTES = 200
"""No line of this is longer."""

OPENING_SECONDS = 5.0
_PAUSE_SECONDS = 0.3
_LEAVE_SECONDS = 5.0

Address = tuple[str, int]


def port_of(reducer_port: int) -> int:
    """Where a reducer's node awaits the workers' nodes, if its reducer listens at this port."""
    return reducer_port - 1


def proof(token: bytes, run: str, nonce: str, index: int) -> str:
    """What only a worker of this run can answer to this nonce."""
    text = "\0".join((GREETING, run, nonce, str(index)))
    return hmac.new(token, text.encode(), hashlib.sha256).hexdigest()


def read_line(sock: socket.socket) -> str:
    """One line, of at most LINE_BYTES, within OPENING_SECONDS.

    Raises OSError if the peer ends before, says more, or takes longer.
    """
    line, until = b"", time.monotonic() + OPENING_SECONDS
    while not line.endswith(b"\n"):
        sock.settimeout(max(0.001, until - time.monotonic()))
        byte = sock.recv(1)
        if not byte or len(line) >= LINE_BYTES:
            raise OSError("no whole line came")
        line += byte
    return line.decode(errors="replace").strip()


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel notice within half a minute that the other machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Presence:
    """This worker's node, present at all reducers' nodes until it leaves or dies.

    `reducers` are where the reducers listen. Threads do the work; start it with the stop signals
    blocked in them (threads.py).
    """

    def __init__(self, reducers: Sequence[Address], index: int, run: str, token: bytes) -> None:
        self._links = [_Link((host, port_of(port)), index, run, token) for host, port in reducers]

    def leave(self) -> None:
        """Say goodbye. Reducers not met yet are waited for a few seconds, so that they know."""
        until = time.monotonic() + _LEAVE_SECONDS
        for link in self._links:
            link.leave(until)


class _Link:
    """The connection to one reducer's node, opened again if it is lost."""

    def __init__(self, address: Address, index: int, run: str, token: bytes) -> None:
        self._address = address
        self._index, self._run, self._token = index, run, token
        self._met = threading.Event()
        self._leaving = threading.Event()
        self._sock: socket.socket | None = None
        threading.Thread(target=self._stay, daemon=True).start()

    def leave(self, until: float) -> None:
        self._met.wait(max(0.0, until - time.monotonic()))
        self._leaving.set()
        sock = self._sock
        if sock is not None:
            with suppress(OSError):
                sock.sendall(BYE)
                sock.shutdown(socket.SHUT_RDWR)

    def _stay(self) -> None:
        while not self._leaving.is_set():
            with suppress(OSError, UnicodeError):
                self._be_there()
            self._leaving.wait(_PAUSE_SECONDS)

    def _be_there(self) -> None:
        """Connect, and stay until the connection ends."""
        with socket.create_connection(self._address, timeout=OPENING_SECONDS) as sock:
            self._introduce(sock)
            self._sock = sock
            self._met.set()
            sock.settimeout(None)
            sock.recv(1)  # Nothing comes: it ends when the reducer's node does, or when we leave.
            self._sock = None

    def _introduce(self, sock: socket.socket) -> None:
        greeting, _, nonce = read_line(sock).partition(" ")
        if greeting != GREETING:
            raise OSError("this is no reducer's node")
        answer = proof(self._token, self._run, nonce, self._index)
        sock.sendall(f"{self._index} {answer}\n".encode())
        if read_line(sock) != "ok":
            raise OSError("the reducer's node did not let us in")
        keep_alive(sock)
