"""Relays bytes between TLS connections and the sockets that the engines use instead of them.

An engine has one end of a pair of sockets, as if it were the connection itself: ends, half-closes
and back-pressure pass through.
"""

from __future__ import annotations

import base64
import contextlib
import os
import selectors
import socket
import ssl
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator

from rsctl.transport.tls_stream import CHUNK_BYTES, Stream

_PEM = "-----BEGIN {0}-----\n{1}-----END {0}-----\n"
_POLL_SECONDS = 0.5
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class TlsRelay:
    """Relays all connections of a process in one thread, which runs while there are any."""

    def __init__(self) -> None:
        self._arrivals: deque[Stream] = deque()
        self._lock = threading.Lock()
        self._wake: socket.socket | None = None

    def forward(
        self,
        wire: socket.socket,
        tls: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
    ) -> socket.socket:
        """Take over a connection after its TLS handshake; returns the socket to use instead.

        Of what has come after the handshake nothing is read yet, and it begins with a record.
        `wire` is closed when both sides have ended. Raises OSError.
        """
        ours, theirs = socket.socketpair()
        for sock in (ours, wire):
            sock.setblocking(False)
        with self._lock:
            self._arrivals.append(Stream(wire, ours, tls, incoming, outgoing))
            if self._wake is None:
                self._wake, woken = socket.socketpair()
                woken.setblocking(False)
                threading.Thread(
                    target=_RelayThread(self, woken).run, name="rsctl-tls", daemon=True
                ).start()
            else:
                self._wake.send(b"!")
        return theirs

    def arrived(self, idle: bool) -> list[Stream] | None:
        """The new connections; None, once, if the thread is idle and must end."""
        with self._lock:
            new = list(self._arrivals)
            self._arrivals.clear()
            if not new and idle and self._wake is not None:
                self._wake.close()
                self._wake = None
                return None
            return new


class RelayContexts:
    """The settings that all relayed connections of a process share."""

    def __init__(self, key: bytes, certificate: bytes) -> None:
        """Both in DER. Raises ssl.SSLError if they do not belong together."""
        self._certificate = certificate
        self._relay = TlsRelay()
        self._as_reducer = _context(ssl.PROTOCOL_TLS_SERVER)
        self._as_reducer.num_tickets = 0  # no client resumes
        with _file(_pem("EC PRIVATE KEY", key) + _pem("CERTIFICATE", certificate)) as path:
            self._as_reducer.load_cert_chain(path)
        self._as_worker = _context(ssl.PROTOCOL_TLS_CLIENT)
        self._as_worker.check_hostname = False
        self._as_worker.load_verify_locations(cadata=certificate)

    def start(self, is_reducer: bool) -> RelayedSession:
        """One side of a connection."""
        context = self._as_reducer if is_reducer else self._as_worker
        return RelayedSession(self._relay, context, None if is_reducer else self._certificate)


class RelayedSession:
    """A Session by Python's `ssl`. `trusted` is the only certificate that it accepts."""

    def __init__(self, relay: TlsRelay, context: ssl.SSLContext, trusted: bytes | None) -> None:
        self._relay = relay
        self._trusted = trusted
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=trusted is None)

    def handshake(self) -> None:
        """See Session."""
        self._tls.do_handshake()
        if self._trusted not in (None, self._tls.getpeercert(binary_form=True)):
            raise ssl.SSLCertVerificationError("another certificate")

    def put(self, ciphertext: bytes) -> None:
        """See Session."""
        self._incoming.write(ciphertext)

    def take(self) -> bytes:
        """See Session."""
        return self._outgoing.read()

    def binding(self) -> bytes:
        """See Session."""
        return self._tls.get_channel_binding("tls-unique") or b""

    def carry(self, wire: socket.socket) -> socket.socket:
        """See Session."""
        return self._relay.forward(wire, self._tls, self._incoming, self._outgoing)


def _context(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _pem(label: str, data: bytes) -> str:
    return _PEM.format(label, base64.encodebytes(data).decode())


@contextlib.contextmanager
def _file(text: str) -> Iterator[str]:
    """A file in memory, since `ssl` reads keys from files only; elsewhere one that is gone soon."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name
        return
    memory = os.memfd_create("rsctl-identity")
    try:
        os.write(memory, text.encode())
        yield f"/proc/self/fd/{memory}"
    finally:
        os.close(memory)


class _RelayThread:
    """The thread of a relay."""

    def __init__(self, relay: TlsRelay, woken: socket.socket) -> None:
        self._relay = relay
        self._woken = woken
        self._streams: set[Stream] = set()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[socket.socket, int] = {}
        self._buffers = memoryview(bytearray(CHUNK_BYTES)), memoryview(bytearray(2 * CHUNK_BYTES))

    def run(self) -> None:
        """Until there is no connection left."""
        self._selector.register(self._woken, _READ)
        try:
            while (new := self._relay.arrived(idle=not self._streams)) is not None:
                self._streams.update(new)
                for stream in new:
                    self._serve(stream, True, True)
                if self._streams:
                    self._turn()
        finally:
            # After any error, no engine may wait for a connection that is not served.
            for stream in self._streams:
                stream.close()
            self._selector.close()
            self._woken.close()

    def _turn(self) -> None:
        lingers = any(stream.lingers_until for stream in self._streams)
        ready: dict[Stream, tuple[bool, bool]] = {}
        for key, events in self._selector.select(_POLL_SECONDS if lingers else None):
            stream = key.data
            if stream is None:
                self._woken.recv(4096)
                continue
            # Reading here feeds one direction, and writing here empties the other.
            is_wire = key.fileobj is stream.wire
            outward, inward = ready.get(stream, (False, False))
            outward |= bool(events & (_WRITE if is_wire else _READ))
            inward |= bool(events & (_READ if is_wire else _WRITE))
            ready[stream] = outward, inward
        for stream, directions in ready.items():
            self._serve(stream, *directions)
        if lingers:
            self._end_late_ones()

    def _serve(self, stream: Stream, outward: bool, inward: bool) -> None:
        if outward:
            stream.outward(self._buffers[0])
        if inward:
            stream.inward(*self._buffers)
        for sock, events in ((stream.wire, stream.wants_wire), (stream.ours, stream.wants_ours)):
            self._watch(stream, sock, 0 if stream.is_over else events)
        if stream.is_over:
            self._streams.discard(stream)
            stream.close()

    def _watch(self, stream: Stream, sock: socket.socket, events: int) -> None:
        before = self._watched.get(sock, 0)
        if before == events:
            return
        if not events:
            self._selector.unregister(sock)
            del self._watched[sock]
            return
        change = self._selector.modify if before else self._selector.register
        change(sock, events, stream)
        self._watched[sock] = events

    def _end_late_ones(self) -> None:
        now = time.monotonic()
        for stream in [s for s in self._streams if s.lingers_until and now > s.lingers_until]:
            stream.is_over = True
            self._serve(stream, False, False)
