"""The bandwidth of one connection between two nodes, as the receiving node sees it."""

from __future__ import annotations

import select
import socket
import struct
import time

SECONDS = 0.5
_WARM_SECONDS = 0.1
_SILENT_SECONDS = 3.0
_PIECE = bytes(1 << 18)
_ANSWER = struct.Struct(">d")


def send(sock: socket.socket) -> float:
    """Send until the other node has measured; returns Gbit/s, 0 if it has not answered."""
    until = time.monotonic() + SECONDS + 2 * _SILENT_SECONDS
    sock.setblocking(False)
    try:
        while (left := until - time.monotonic()) > 0:
            readable, writable, _ = select.select([sock], [sock], [], left)
            if readable:
                answer = sock.recv(_ANSWER.size)
                return _ANSWER.unpack(answer)[0] if len(answer) == _ANSWER.size else 0.0
            if writable:
                sock.send(_PIECE)
    except OSError:
        pass
    return 0.0


def receive(sock: socket.socket) -> None:
    """Receive for half a second, and answer with the rate after the connection's slow start."""
    buffer = bytearray(1 << 20)
    sock.settimeout(_SILENT_SECONDS)
    counted, began, last = 0, 0.0, 0.0
    try:
        first = None
        while count := sock.recv_into(buffer):
            last = time.monotonic()
            first = last if first is None else first
            if not began:
                began = last if last - first >= _WARM_SECONDS else 0.0
            else:
                counted += count
            if last - first >= SECONDS:
                break
    except OSError:
        last = time.monotonic()  # a connection that has stopped is slow, not unknown
    seconds = last - began if began else 0.0
    sock.sendall(_ANSWER.pack(8e-9 * counted / seconds if seconds > 0 else 0.0))
    while sock.recv_into(buffer):  # what is on its way, until the other node has closed
        pass
