"""One TLS connection below an engine's socket: bytes, ends and half-closes, in both directions."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from typing import cast

CHUNK_BYTES = 1 << 18
"""The most that one direction of a connection takes in before it has been passed on."""

_HEADER_BYTES = 5
_LINGER_SECONDS = 3.0
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_ReadInto = Callable[[int, memoryview], int]
_BLOCKED = (BlockingIOError, InterruptedError)


class Stream:
    """One connection: `wire` is the network's side, `ours` leads to the engine."""

    def __init__(
        self,
        wire: socket.socket,
        ours: socket.socket,
        tls: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
    ) -> None:
        self.wire = wire
        self.ours = ours
        self.is_over = False
        self.lingers_until = 0.0
        """When this side, which has ended, waits no longer for the other to end; 0 before."""
        self._tls = tls
        self._incoming = incoming
        self._outgoing = outgoing
        self._records = _Records()
        self._expected = 1
        self._to_wire = memoryview(b"")
        self._to_engine = memoryview(b"")
        self._engine_ended = self._peer_ended = False
        self._take(memoryview(incoming.read()))  # what has come with the handshake

    @property
    def wants_wire(self) -> int:
        """The events to wait for at the network's side."""
        reads = not self._peer_ended and not self._to_engine
        return (_READ if reads else 0) | (_WRITE if self._to_wire else 0)

    @property
    def wants_ours(self) -> int:
        """The events to wait for at the engine's side."""
        reads = not self._engine_ended and not self._to_wire
        return (_READ if reads else 0) | (_WRITE if self._to_engine else 0)

    def outward(self, buffer: memoryview) -> None:
        """From the engine to the wire, as far as it goes without waiting."""
        if not self._to_wire and not self._engine_ended:
            self._encrypt(buffer)
        try:
            while self._to_wire:
                self._to_wire = self._to_wire[self.wire.send(self._to_wire) :]
        except _BLOCKED:
            return
        except OSError:
            # What the peer has sent before is still to be read: its end is found there.
            self._to_wire, self._engine_ended = memoryview(b""), True
        if self._engine_ended and not self.lingers_until:
            self.lingers_until = time.monotonic() + _LINGER_SECONDS
            _shut(self.wire)
            self._check_over()

    def _encrypt(self, buffer: memoryview) -> None:
        try:
            count = self.ours.recv_into(buffer)
        except _BLOCKED:
            return
        except OSError:  # closed, without having read all that we gave it
            count = 0
        sent = 0
        try:
            while sent < count:
                sent += self._tls.write(buffer[sent:count])
            if not count:
                self._engine_ended = True
                self._tls.unwrap()
        except ssl.SSLWantReadError:
            pass  # for the peer's own end, which may come
        except ssl.SSLError:
            self._engine_ended = True  # the connection broke, which is found at its other side
        self._to_wire = memoryview(self._outgoing.read())

    def inward(self, cipher: memoryview, plain: memoryview) -> None:
        """From the wire to the engine, as far as it goes without waiting."""
        if not self._to_engine and not self._peer_ended:
            self._to_engine = self._decrypt(cipher, plain)
        try:
            while self._to_engine:
                self._to_engine = self._to_engine[self.ours.send(self._to_engine) :]
        except _BLOCKED:
            self._to_engine = memoryview(bytes(self._to_engine))  # the buffer is everyone's
            return
        except OSError:
            # The engine is gone; what it wrote last is still to be sent.
            self._to_engine, self._peer_ended = memoryview(b""), True
        if self._peer_ended:
            _shut(self.ours)
            self._check_over()

    def _decrypt(self, cipher: memoryview, plain: memoryview) -> memoryview:
        """The bytes that can be read now; `plain` has room for a chunk and TLS's rest of the last
        one.
        """
        try:
            count = self.wire.recv_into(cipher)
            self._peer_ended = not count
            self._take(cipher[:count])
        except _BLOCKED:
            pass
        except OSError:
            self._peer_ended = True
        size, most, read = 0, len(plain), cast(_ReadInto, self._tls.read)
        try:
            while got := read(most, plain[size:]):
                size += got
            self._peer_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._peer_ended = True
        return plain[:size]

    def _take(self, cipher: memoryview) -> None:
        """Be woken next when the rest of a record is there, and not by each of its packets."""
        self._incoming.write(cipher)
        count = self._records.missing(cipher)
        if count != self._expected:
            self._expected = count
            self.wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def _check_over(self) -> None:
        self.is_over = (
            self._engine_ended and self._peer_ended and not self._to_wire and not self._to_engine
        )

    def close(self) -> None:
        """Free both sockets."""
        self.wire.close()
        self.ours.close()


class _Records:
    """Where TLS records begin and end in what comes from the wire."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0

    def missing(self, data: memoryview) -> int:
        """How many more bytes, after these, complete the record that has begun; at least 1."""
        if self._header:
            data, self._header = memoryview(self._header + bytes(data)), b""
        at, size = self._left, len(data)
        while at + _HEADER_BYTES <= size:
            at += _HEADER_BYTES + (data[at + 3] << 8 | data[at + 4])
        self._left = max(0, at - size)
        self._header = bytes(data[at:])
        return self._left or _HEADER_BYTES - len(self._header)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
