"""One non-blocking connection of an engine: frames in, frames out."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence

from rsctl.transport.errors import format_os_error
from rsctl.transport.frames import FrameCheck, FrameReader, Header

_MOST_PARTS = 32
_LINGER_SECONDS = 3.0
_READ_WRITE = selectors.EVENT_READ | selectors.EVENT_WRITE


class ConnectionClosed(Exception):
    """The peer has closed the connection, or it broke."""


class Connection:
    """A socket after its handshake.

    `last_received` and `last_sent` are the monotonic times at which bytes last came and went.
    """

    def __init__(self, sock: socket.socket, frame: int, check: FrameCheck) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.last_received = self.last_sent = time.monotonic()
        self.bytes_in = 0
        self.bytes_out = 0
        self._expected = 1
        self._reader = FrameReader(frame, check)
        self._out: deque[bytes | memoryview] = deque()

    @property
    def busy(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._out)

    @property
    def queued(self) -> int:
        """How many parts are still to be sent; a frame has up to two."""
        return len(self._out)

    @property
    def has_partial_frame(self) -> bool:
        """Whether the rest of a frame is to come, until when the selector shows nothing."""
        return self._expected > 1

    def queue(self, *parts: bytes | memoryview) -> None:
        """Send these after all that was queued before; memory must stay as it is until then."""
        self._out.extend(part for part in parts if len(part))

    def flush(self) -> None:
        """Send as much as the system takes now. Raises ConnectionClosed."""
        while self._out:
            parts = [self._out[i] for i in range(min(len(self._out), _MOST_PARTS))]
            try:
                sent = self.sock.sendmsg(parts)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise ConnectionClosed(format_os_error(error)) from error
            self.bytes_out += sent
            self.last_sent = time.monotonic()
            self._drop(sent)

    def _drop(self, sent: int) -> None:
        while sent:
            part = self._out.popleft()
            if len(part) > sent:
                self._out.appendleft(memoryview(part)[sent:])
                return
            sent -= len(part)

    def receive(self) -> Iterator[tuple[Header, memoryview]]:
        """The frames that are whole after one more read. Raises ConnectionClosed, FrameError."""
        try:
            count = self.sock.recv_into(self._reader.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise ConnectionClosed(format_os_error(error)) from error
        if count == 0:
            raise ConnectionClosed("it closed the connection")
        self.bytes_in += count
        self.last_received = time.monotonic()
        yield from self._reader.frames(count)
        self._expect(self._reader.missing)

    def _expect(self, count: int) -> None:
        """Be woken when the rest of a block is there, and not by each of its packets."""
        if count != self._expected:
            self._expected = count
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def close(self) -> None:
        """Close at once; what is queued is lost."""
        self._out.clear()
        self.sock.close()


def close_gracefully(connections: list[Connection], last: bytes) -> None:
    """Send a last frame on each, wait a moment until the peers have read it, and close.

    A socket that is closed with unread bytes resets the connection, and the peer would lose the
    frame that says why.
    """
    until = time.monotonic() + _LINGER_SECONDS
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.queue(last)
            selector.register(connection.sock, selectors.EVENT_READ, connection)
            _drain(connection, selector)
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                _drain(key.data, selector)
    for connection in connections:
        connection.close()


def _drain(connection: Connection, selector: selectors.BaseSelector) -> None:
    """Send the rest, half-close, then read until the peer has closed."""
    try:
        if connection.busy:
            connection.flush()
            if connection.busy:
                selector.modify(connection.sock, _READ_WRITE, connection)
                return
            selector.modify(connection.sock, selectors.EVENT_READ, connection)
            connection.sock.shutdown(socket.SHUT_WR)
        while connection.sock.recv(1 << 16):
            pass
        selector.unregister(connection.sock)
    except BlockingIOError:
        return
    except (OSError, ConnectionClosed):
        selector.unregister(connection.sock)


def configure_socket(sock: socket.socket, silence: float, congestion: str | None = None) -> None:
    """Set a socket up for blocks: small frames at once, peers that answer nothing given up.

    Without a congestion control to use, cubic is taken, or reno, which Linux allows to everyone.
    The system's own may be BBR, which paces each connection by its measured delivery rate: with
    many connections that take turns, a fifth of the bandwidth is unused. `system` leaves it.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Longer than the silence that the peers allow: they name it, the kernel would say "lost".
        timeout = max(1, round(2 * silence * 1000))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
    if hasattr(socket, "TCP_CONGESTION") and congestion != "system":
        _control_congestion(sock, (congestion,) if congestion else ("cubic", "reno"))


def _control_congestion(sock: socket.socket, names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(OSError):  # this host does not have it, or not for us
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            return
