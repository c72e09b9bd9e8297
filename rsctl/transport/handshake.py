"""The handshake of a connection: mutual authentication by the run's token. See PROTOCOL.md.

Both sides are here, next to each other. Sockets block, with one time-out for the whole handshake.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
import time
from dataclasses import dataclass

from rsctl.transport import frames
from rsctl.transport.errors import NO_RANK, ErrorCode, TransportError, known_code, printable
from rsctl.transport.frames import HEADER_BYTES, FrameError, Header

HANDSHAKE_SECONDS = 5.0
"""The authentication time-out."""

MAX_RUN_BYTES = 127
SMALLEST_TOKEN = 16

_NONCE_BYTES = 32
_HELLO = struct.Struct("<IIIIII4s32s32s")
_WORKER = b"rsctl-transport/1 worker"
_REDUCER = b"rsctl-transport/1 reducer"


@dataclass(frozen=True)
class Hello:
    """The parameters in a HELLO. `timeout` is in milliseconds; the rest as in PROTOCOL.md."""

    run: str
    epoch: int
    rank: int
    world: int
    server: int
    frame: int
    window: int
    timeout: int
    flow: int
    plan: bytes

    def pack(self, nonce: bytes) -> bytes:
        """The whole frame."""
        fields = (self.world, self.server, self.frame, self.window, self.timeout, self.flow)
        payload = _HELLO.pack(*fields, bytes(4), self.plan, nonce) + self.run.encode()
        return (
            frames.header(
                frames.HELLO,
                rank=self.rank,
                epoch=self.epoch,
                payload=len(payload),
                job=frames.job_number(self.run),
            ).pack()
            + payload
        )

    @classmethod
    def unpack(cls, header: Header, payload: bytes) -> Hello:
        """Parse a HELLO that is not authenticated yet. Raises FrameError."""
        world, server, frame, window, timeout, flow, _, plan, _ = _HELLO.unpack_from(payload)
        try:
            run = payload[_HELLO.size :].decode()
        except UnicodeDecodeError:
            raise FrameError("a run id that is not UTF-8") from None
        if header.job != frames.job_number(run):
            raise FrameError("a run id that does not fit its number")
        return cls(
            run, header.epoch, header.rank, world, server, frame, window, timeout, flow, plan
        )


@dataclass(frozen=True)
class Channel:
    """A connection: `sock` is what the protocol is spoken on, `wire` the TCP connection below it.

    Without TLS they are the same, and `binding` is empty. With it, only the two ends of this one
    TLS connection know `binding`.
    """

    sock: socket.socket
    wire: socket.socket
    binding: bytes = b""


class Handshake:
    """One side of a handshake: exact reads under one deadline, never more than asked for."""

    def __init__(self, sock: socket.socket, seconds: float = HANDSHAKE_SECONDS) -> None:
        self.binding = b""
        self._sock = sock
        self._until = time.monotonic() + seconds

    def over(self, channel: Channel) -> Handshake:
        """The rest of the handshake, on this channel and under the same deadline."""
        rest = Handshake(channel.sock)
        rest._until, rest.binding = self._until, channel.binding
        return rest

    def send(self, data: bytes) -> None:
        """Send all of it. Raises OSError."""
        self._sock.settimeout(self._left())
        self._sock.sendall(data)

    def read(self, kind: int, shortest: int, longest: int) -> tuple[Header, bytes]:
        """Read one frame of this kind. Raises OSError, FrameError, and TransportError if the
        peer refuses."""
        header = Header.unpack(self._exactly(HEADER_BYTES))
        if header.magic != frames.MAGIC:
            raise FrameError("this is not the reduction protocol")
        if header.version != frames.VERSION:
            raise FrameError(
                f"it speaks version {header.version} of the protocol, not {frames.VERSION}"
            )
        if header.kind == frames.ERROR and header.payload <= frames.MAX_ERROR_BYTES:
            raise self._refusal(header)
        if header.kind != kind or not shortest <= header.payload <= longest:
            raise FrameError(f"a frame of kind {header.kind} and {header.payload} bytes")
        return header, self._exactly(header.payload)

    def _refusal(self, header: Header) -> TransportError:
        text = printable(self._exactly(header.payload))
        code = known_code(header.code)
        return TransportError(code, text, rank=None if header.rank == NO_RANK else header.rank)

    def receive(self, most: int) -> bytes:
        """The next bytes, at least one. Raises OSError."""
        self._sock.settimeout(self._left())
        data = self._sock.recv(most)
        if not data:
            raise ConnectionResetError("it closed the connection")
        return data

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self.receive(count - len(data))
        return data

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return left


def prove_worker(handshake: Handshake, hello: Hello, token: bytes) -> None:
    """The worker's side. Raises OSError, FrameError, TransportError."""
    sent_hello = hello.pack(secrets.token_bytes(_NONCE_BYTES))
    handshake.send(sent_hello)
    _, nonce = handshake.read(frames.CHALLENGE, _NONCE_BYTES, _NONCE_BYTES)
    proven = sent_hello + nonce + handshake.binding
    proof = _proof(token, _WORKER, proven)
    fields = {"rank": hello.rank, "epoch": hello.epoch, "job": frames.job_number(hello.run)}
    handshake.send(frames.header(frames.PROOF, payload=len(proof), **fields).pack() + proof)
    _, answer = handshake.read(frames.READY, len(proof), len(proof))
    if not hmac.compare_digest(answer, _proof(token, _REDUCER, proven)):
        raise TransportError(ErrorCode.AUTHENTICATION, "it does not know this run's token")


@dataclass(frozen=True)
class VerifiedWorker:
    """A worker that has proved itself, and the reducer's own proof for it."""

    hello: Hello
    ready: bytes


def verify_worker(handshake: Handshake, token: bytes) -> VerifiedWorker:
    """The reducer's side, up to the answer that makes the worker a member.

    Raises OSError, FrameError, TransportError; the peer has then been sent nothing but a nonce.
    """
    header, payload = handshake.read(frames.HELLO, _HELLO.size, _HELLO.size + MAX_RUN_BYTES)
    sent_hello = header.pack() + payload
    nonce = secrets.token_bytes(_NONCE_BYTES)
    handshake.send(frames.header(frames.CHALLENGE, payload=len(nonce)).pack() + nonce)
    size = hashlib.sha256().digest_size
    _, proof = handshake.read(frames.PROOF, size, size)
    proven = sent_hello + nonce + handshake.binding
    if not hmac.compare_digest(proof, _proof(token, _WORKER, proven)):
        raise TransportError(ErrorCode.AUTHENTICATION, "wrong token")
    answer = _proof(token, _REDUCER, proven)
    ready = frames.header(frames.READY, payload=len(answer)).pack() + answer
    return VerifiedWorker(Hello.unpack(header, payload), ready)


def _proof(token: bytes, side: bytes, proven: bytes) -> bytes:
    return hmac.new(token, side + proven, hashlib.sha256).digest()
