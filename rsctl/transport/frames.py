"""Frames of the wire protocol: their header, their checks and their reader. See PROTOCOL.md."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

from rsctl.transport.errors import NO_RANK, ErrorCode

MAGIC = 0x54435352
VERSION = 1

HELLO, CHALLENGE, PROOF, READY, DATA, RESULT, HEARTBEAT, ERROR, GOODBYE = range(1, 10)
FP32, BF16, FP16, INT8, FP8 = 1, 2, 3, 4, 5
SUM, AVG = 1, 2

GROUP_NUMBERS = 256
"""How many numbers of 8 bits share a scale."""

GROUP_BYTES = 4 + GROUP_NUMBERS
ITEM_BYTES = {FP32: 4, BF16: 2, FP16: 2, INT8: GROUP_BYTES, FP8: GROUP_BYTES}
"""The bytes of one number or, of those with 8 bits, of a whole group."""

DTYPE_NAMES = {FP32: "fp32", BF16: "bf16", FP16: "fp16", INT8: "int8", FP8: "fp8"}
OP_NAMES = {SUM: "sum", AVG: "avg"}

MAX_TOTAL = 1 << 40
MAX_FRAME = 1 << 20
MAX_ERROR_BYTES = 1024

_HEADER = struct.Struct("<IBBBBIIQQIIIIQQ")
HEADER_BYTES = _HEADER.size


class Header(NamedTuple):
    """The fields of a frame's header, in their order on the wire."""

    magic: int
    version: int
    kind: int
    dtype: int = 0
    op: int = 0
    rank: int = NO_RANK
    epoch: int = 0
    sequence: int = 0
    total: int = 0
    chunk: int = 0
    chunk_bytes: int = 0
    payload: int = 0
    code: int = 0
    completed: int = 0
    job: int = 0

    def pack(self) -> bytes:
        """The header as it travels."""
        return _HEADER.pack(*self)

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview, offset: int = 0) -> Header:
        """Read a header; its fields may be anything, `FrameCheck` says whether they make sense."""
        return cls._make(_HEADER.unpack_from(data, offset))

    def describe(self) -> str:
        """The data type and operation, for a message."""
        return f"{self.total} bytes of {DTYPE_NAMES[self.dtype]} {OP_NAMES[self.op]}"


class FrameError(Exception):
    """A peer sent what the protocol does not allow."""


def job_number(run: str) -> int:
    """The number of a run in every frame."""
    return int.from_bytes(hashlib.sha256(run.encode()).digest()[:8], "little")


def header(kind: int, **fields: int) -> Header:
    """A header of this kind; fields that are not given have no meaning in it."""
    return Header(MAGIC, VERSION, kind, **fields)


def error_frame(
    code: ErrorCode,
    text: str,
    rank: int,
    sequence: int,
    epoch: int,
    job: int,
    blamed: int | None = None,
) -> bytes:
    """A whole ERROR frame; the text is cut to what the protocol allows, `blamed` is a reducer."""
    payload = text.encode("utf-8", "replace")[:MAX_ERROR_BYTES]
    fields = {"rank": rank, "sequence": sequence, "epoch": epoch, "job": job}
    fields["chunk"] = 0 if blamed is None else blamed + 1
    return header(ERROR, payload=len(payload), code=int(code), **fields).pack() + payload


def blamed(error: Header) -> int | None:
    """The reducer that failed, by an ERROR frame; None if it names none."""
    return error.chunk - 1 if error.chunk else None


def chunks_of(total: int, chunk_bytes: int) -> int:
    """How many blocks an operation has; at least one."""
    return max(1, -(-total // chunk_bytes))


class FrameCheck:
    """Check the rules for every frame on a connection, before its payload is read.

    `rank` is the worker at the other end, None for a reducer.
    """

    def __init__(self, kinds: tuple[int, ...], frame: int, epoch: int, job: int, rank: int | None):
        self._kinds = kinds
        self._frame = frame
        self._same = (epoch, job)
        self._rank = rank

    def __call__(self, frame: Header) -> None:
        """Raise FrameError if the header breaks a rule."""
        if frame.magic != MAGIC:
            raise FrameError("this is not the reduction protocol")
        if frame.version != VERSION:
            raise FrameError(f"protocol version {frame.version} instead of {VERSION}")
        if frame.kind not in self._kinds:
            raise FrameError(f"a frame of kind {frame.kind} is out of place")
        if (frame.epoch, frame.job) != self._same:
            raise FrameError("a frame of another run or epoch")
        if self._rank not in (None, frame.rank) and frame.kind != ERROR:
            raise FrameError(f"a frame in the name of rank {frame.rank}")
        if frame.kind in (DATA, RESULT):
            self._check_block(frame)
        elif frame.payload > (MAX_ERROR_BYTES if frame.kind == ERROR else 0):
            raise FrameError(f"a frame of kind {frame.kind} with {frame.payload} bytes of payload")

    def _check_block(self, frame: Header) -> None:
        item = ITEM_BYTES.get(frame.dtype)
        if item is None or frame.op not in OP_NAMES:
            raise FrameError(f"unknown dtype {frame.dtype} or operation {frame.op}")
        if frame.sequence < 1 or frame.total > MAX_TOTAL or frame.total % item:
            raise FrameError(f"operation {frame.sequence} of {frame.total} bytes")
        if not 1 <= frame.chunk_bytes <= self._frame or frame.chunk_bytes % item:
            raise FrameError(f"blocks of {frame.chunk_bytes} bytes")
        if frame.chunk >= chunks_of(frame.total, frame.chunk_bytes):
            raise FrameError(f"block {frame.chunk} is beyond the operation's end")
        expected = min(frame.chunk_bytes, frame.total - frame.chunk * frame.chunk_bytes)
        if frame.payload != expected:
            raise FrameError(f"a block of {frame.payload} bytes instead of {expected}")


class FrameReader:
    """Finds whole frames in a stream of bytes, in a buffer that never grows."""

    def __init__(self, frame: int, check: FrameCheck) -> None:
        largest = HEADER_BYTES + max(frame, MAX_ERROR_BYTES)
        self._buffer = bytearray(2 * largest)
        self._view = memoryview(self._buffer)
        self._check = check
        self._start = 0
        self._end = 0
        self._header: Header | None = None

    def space(self) -> memoryview:
        """The position for the next bytes; never empty."""
        return self._view[self._end :]

    def frames(self, count: int) -> Iterator[tuple[Header, memoryview]]:
        """The frames that are whole now that `count` more bytes have been written.

        A payload is valid until the next one is asked for. Raises FrameError.
        """
        self._end += count
        while (header := self._next_header()) is not None:
            begin = self._start + HEADER_BYTES
            if self._end - begin < header.payload:
                break
            self._start = begin + header.payload
            self._header = None
            yield header, self._view[begin : self._start]
        self._make_room()

    @property
    def missing(self) -> int:
        """How many bytes must certainly come before there is anything to do; at least one."""
        if self._header is None:
            return 1
        return self._start + HEADER_BYTES + self._header.payload - self._end

    def _next_header(self) -> Header | None:
        if self._header is None and self._end - self._start >= HEADER_BYTES:
            self._header = Header.unpack(self._buffer, self._start)
            self._check(self._header)
        return self._header

    def _make_room(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start > len(self._buffer) // 2:
            rest = self._end - self._start
            self._buffer[:rest] = self._buffer[self._start : self._end]
            self._start, self._end = 0, rest
