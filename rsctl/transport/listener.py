"""Listens for workers, authenticates them, and hands over those that belong to the run."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from rsctl.transport import frames
from rsctl.transport.errors import NO_RANK, ErrorCode, TransportError
from rsctl.transport.frames import FrameError
from rsctl.transport.handshake import Channel, Handshake, Hello, verify_worker

if TYPE_CHECKING:
    from rsctl.transport.tls import Tls

MAX_HANDSHAKES = 128
_BACKLOG = 1024
_PAUSE_SECONDS = 0.05

Admit = Callable[[Channel, Hello, bytes], None]
"""Admits a worker, and sends it the frame given last. Raises TransportError to refuse it."""


class HandshakeListener:
    """A listening socket with a bounded number of handshakes, each with a thread and a time-out."""

    def __init__(
        self,
        host: str,
        port: int,
        token: bytes,
        admit: Admit,
        tls: Tls | None = None,
        max_handshakes: int = MAX_HANDSHAKES,
    ) -> None:
        """Raises OSError if the address cannot be bound."""
        self._max_handshakes = max_handshakes
        self._token = token
        self._tls = tls
        self._admit = admit
        self._handshakes: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        self.refused = 0
        self._thread = threading.Thread(target=self._run, name="rsctl-listener", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def close(self) -> None:
        """Listen no more, and end every handshake."""
        self._closed.set()
        # Closing alone would leave the accepting thread waiting.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        with self._lock:
            for sock in self._handshakes:
                _shut(sock)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                sock, _ = self._socket.accept()
            except OSError:
                # Out of descriptors, which passes, or a peer that was gone before its turn.
                self._closed.wait(_PAUSE_SECONDS)
                continue
            with self._lock:
                if len(self._handshakes) >= self._max_handshakes:
                    _shut(self._handshakes.popleft())
                self._handshakes.append(sock)
            try:
                threading.Thread(target=self._open, args=(sock,), daemon=True).start()
            except RuntimeError:  # no more threads for now; workers try again
                self._forget(Channel(sock, sock))
                self._closed.wait(_PAUSE_SECONDS)

    def _open(self, wire: socket.socket) -> None:
        channel, handshake, hello = Channel(wire, wire), Handshake(wire), None
        try:
            if self._tls is not None:
                channel = self._tls.accept(wire, handshake)
                handshake = handshake.over(channel)
            worker = verify_worker(handshake, self._token)
            hello = worker.hello
            with self._lock:
                if wire in self._handshakes:
                    self._handshakes.remove(wire)
            self._admit(channel, hello, worker.ready)
        except TransportError as refused:
            self._refuse(channel, handshake, hello, refused.code, refused.message)
        except FrameError as error:
            self._refuse(channel, handshake, hello, ErrorCode.PROTOCOL, str(error))
        except (OSError, RuntimeError, MemoryError):  # the last two: no thread for an engine
            self._forget(channel)

    def _refuse(
        self,
        channel: Channel,
        handshake: Handshake,
        hello: Hello | None,
        code: ErrorCode,
        text: str,
    ) -> None:
        # A peer that is not authenticated learns nothing, not even the run's number.
        job = frames.job_number(hello.run) if hello else 0
        epoch, rank = (hello.epoch, hello.rank) if hello else (0, NO_RANK)
        with contextlib.suppress(OSError):
            handshake.send(frames.error_frame(code, text, rank, 0, epoch, job))
            channel.sock.shutdown(socket.SHUT_WR)
            # Unread bytes would reset the connection before the peer has read why.
            channel.sock.recv(1 << 16)
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        with self._lock:
            self.refused += 1
            if channel.wire in self._handshakes:
                self._handshakes.remove(channel.wire)
        channel.sock.close()


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
