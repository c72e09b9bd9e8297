"""The protocol by which the chief has MPI's daemon started on the other nodes, in place of ssh.

Each worker but the chief listens on the job's port, where the chief's first process and mpirun's
agents (agent.py) connect:

    node    rsctl-starter NONCE
    chief   PROOF LENGTH
            BODY                a JSON object with a nonce of the chief's: {"nonce": TEXT} holds the
                                node, {"nonce": TEXT, "daemon": [PROGRAM, ARGUMENTS...]} starts one
    node    ok PROOF            its own, so that the chief knows whom it has reached

A PROOF is HMAC-SHA256(token, side, run, the node's index, NONCE, BODY), so that it is good for one
request to one node. On the connection that holds a node the chief says at last `end CODE`; when it
is lost, the job is over too. On one with a daemon the node sends frames, of a kind, a length and
data: what the daemon writes, then its exit code. A daemon ends when its connection does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from rsctl.node.liveness import HANDSHAKE_SECONDS, keep_alive, read_line

GREETING = "rsctl-starter"
STDOUT, STDERR, EXIT = 1, 2, 3
"""The kinds of frames. The data of EXIT is the code as text."""

DAEMONS = ("orted", "prted")
"""The only programs that a node starts: the daemons of Open MPI 4 and 5."""

_FRAME = struct.Struct(">BI")
_MAX_BODY_BYTES = 1 << 20
_MAX_FRAME_BYTES = 1 << 16
_RETRY_SECONDS = 0.2


class Identity(NamedTuple):
    """The values on which both sides must agree: the run's token, its ID, and the node."""

    token: bytes
    run: str
    index: int  # type: ignore[assignment]  # and not that of a tuple


def request(address: tuple[str, int], identity: Identity, fields: dict[str, Any]) -> socket.socket:
    """Connect to a node with a request. Raises OSError if it refuses, or cannot prove itself."""
    sock = socket.create_connection(address, timeout=HANDSHAKE_SECONDS)
    try:
        greeting, _, nonce = read_line(sock).partition(" ")
        if greeting != GREETING:
            raise OSError("the program that listens there is not a node of this job")
        body = json.dumps({"nonce": secrets.token_hex(16), **fields}).encode()
        proof = _proof(identity, "chief", nonce, body)
        sock.sendall(f"{proof} {len(body)}\n".encode() + body)
        _check(read_line(sock), f"ok {_proof(identity, 'node', nonce, body)}")
        sock.settimeout(None)
        keep_alive(sock)
    except (OSError, UnicodeError):
        sock.close()
        raise
    return sock


def request_within(
    seconds: float, address: tuple[str, int], identity: Identity, fields: dict[str, Any]
) -> socket.socket:
    """As `request`, again and again until the node answers, for so many seconds at most."""
    until = time.monotonic() + seconds
    while True:
        try:
            return request(address, identity, fields)
        except (OSError, UnicodeError):
            if time.monotonic() >= until:
                raise
            time.sleep(_RETRY_SECONDS)


def receive(sock: socket.socket, identity: Identity) -> tuple[dict[str, Any], bytes]:
    """A node's side: a request, and the answer that accepts it. Raises OSError for other peers."""
    nonce = secrets.token_hex(16)
    sock.sendall(f"{GREETING} {nonce}\n".encode())
    proof, _, length = read_line(sock).partition(" ")
    is_number = length.isascii() and length.isdigit() and len(length) < 9
    if not is_number or int(length) > _MAX_BODY_BYTES:
        raise OSError("this is not a request")
    sock.settimeout(HANDSHAKE_SECONDS)
    body = _exactly(sock, int(length))
    _check(proof, _proof(identity, "chief", nonce, body))
    sock.settimeout(None)
    keep_alive(sock)
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise OSError("this is not a request")
    return fields, f"ok {_proof(identity, 'node', nonce, body)}\n".encode()


def send_frame(sock: socket.socket, kind: int, data: bytes) -> None:
    """Send a frame, of at most 64 KiB. Raises OSError."""
    sock.sendall(_FRAME.pack(kind, len(data)) + data)


def read_frame(sock: socket.socket) -> tuple[int, bytes]:
    """The next frame. Raises OSError if the connection ends before, or sends no frame."""
    kind, length = _FRAME.unpack(_exactly(sock, _FRAME.size))
    if length > _MAX_FRAME_BYTES:
        raise OSError("a frame that is too long")
    return kind, _exactly(sock, length)


def send_json(sock: socket.socket, fields: Mapping[str, Any]) -> None:
    """Send fields as a frame. Raises OSError."""
    send_frame(sock, STDOUT, json.dumps(fields).encode())


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise ConnectionResetError("the connection has ended")
        data += piece
    return data


def _proof(identity: Identity, side: str, nonce: str, body: bytes) -> str:
    head = "\0".join((GREETING, side, identity.run, str(identity.index), nonce, ""))
    return hmac.new(identity.token, head.encode() + body, hashlib.sha256).hexdigest()


def _check(given: str, expected: str) -> None:
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise OSError("the peer does not have the run's token")
