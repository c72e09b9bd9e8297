"""The frame reader: whole frames from any pieces, and nothing that breaks a rule gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.transport import frames
from rsctl.transport.errors import ErrorCode
from rsctl.transport.frames import FrameCheck, FrameError, FrameReader, Header

_JOB = frames.job_number("run")
_KINDS = (frames.DATA, frames.HEARTBEAT, frames.ERROR, frames.GOODBYE)
_CHECK = FrameCheck(_KINDS, 4096, 3, _JOB, 1)
_BLOCK = frames.header(
    frames.DATA,
    dtype=frames.FP32,
    op=frames.SUM,
    rank=1,
    epoch=3,
    job=_JOB,
    sequence=7,
    total=5000,
    chunk=1,
    chunk_bytes=4096,
    payload=904,
)


def _read(data: bytes, sizes: list[int]) -> list[tuple[Header, bytes]]:
    reader, found = FrameReader(4096, _CHECK), []
    while data:
        size = min(sizes.pop() if sizes else len(data), len(reader.space()), len(data))
        reader.space()[:size] = data[:size]
        data = data[size:]
        found += [(header, bytes(payload)) for header, payload in reader.frames(size)]
    return found


@given(st.lists(st.integers(1, 700), max_size=60))
def test_frames_come_whole_whatever_the_pieces(sizes: list[int]) -> None:
    goodbye = frames.header(frames.GOODBYE, rank=1, epoch=3, job=_JOB)
    error = frames.error_frame(ErrorCode.LOST, "gone", 1, 7, 3, _JOB)
    payload = bytes(range(226)) * 4
    data = (_BLOCK.pack() + payload) * 12 + error + goodbye.pack()
    found = _read(data, sizes)
    assert found[:12] == [(_BLOCK, payload)] * 12
    assert [(header.kind, text) for header, text in found[12:]] == [
        (frames.ERROR, b"gone"),
        (frames.GOODBYE, b""),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"magic": 1}, "this is not the reduction protocol"),
        ({"version": 2}, "protocol version 2 instead of 1"),
        ({"kind": frames.RESULT}, "a frame of kind 6 is out of place"),
        ({"kind": 200}, "a frame of kind 200 is out of place"),
        ({"epoch": 2}, "a frame of another run or epoch"),
        ({"job": 1}, "a frame of another run or epoch"),
        ({"rank": 0}, "a frame in the name of rank 0"),
        ({"dtype": 6}, "unknown dtype 6 or operation 1"),
        ({"dtype": frames.INT8}, "operation 7 of 5000 bytes"),
        ({"op": 0}, "unknown dtype 1 or operation 0"),
        ({"sequence": 0}, "operation 0 of 5000 bytes"),
        ({"total": (1 << 40) + 4}, f"operation 7 of {(1 << 40) + 4} bytes"),
        ({"total": 4999}, "operation 7 of 4999 bytes"),
        ({"chunk_bytes": 8192}, "blocks of 8192 bytes"),
        ({"chunk_bytes": 0}, "blocks of 0 bytes"),
        ({"chunk_bytes": 4095}, "blocks of 4095 bytes"),
        ({"chunk": 2}, "block 2 is beyond the operation's end"),
        ({"payload": 908}, "a block of 908 bytes instead of 904"),
        ({"payload": 0xFFFFFFFF}, "a block of 4294967295 bytes instead of 904"),
        ({"kind": frames.ERROR, "payload": 1025}, "a frame of kind 8 with 1025 bytes of payload"),
        ({"kind": frames.HEARTBEAT}, "a frame of kind 7 with 904 bytes of payload"),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(FrameError) as refused:
        _read(_BLOCK._replace(**changes).pack(), [])
    assert str(refused.value) == message


@given(st.binary(min_size=64, max_size=6000), st.lists(st.integers(1, 500), max_size=20))
def test_arbitrary_bytes_are_refused(data: bytes, sizes: list[int]) -> None:
    with pytest.raises(FrameError):
        _read(data, sizes)


@given(st.integers(0, 63), st.integers(0, 255), st.binary(max_size=3000))
def test_a_changed_byte_gives_a_frame_or_a_refusal(index: int, value: int, rest: bytes) -> None:
    changed = bytearray(_BLOCK.pack())
    changed[index] = value
    try:
        found = _read(bytes(changed) + rest, [])
    except FrameError:
        return
    assert all(len(payload) == header.payload for header, payload in found)


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("x" * 1025, b"x" * 1024),
        ("file \udcff", b"file ?"),  # of a name that is not UTF-8
    ],
)
@pytest.mark.parametrize("blamed", [None, 0, 2])
def test_an_error_says_why_and_which_reducer_failed(
    text: str, payload: bytes, blamed: int | None
) -> None:
    frame = frames.error_frame(ErrorCode.LOST, text, 1, 7, 3, _JOB, blamed)
    [(header, found)] = _read(frame, [])
    assert (header.code, header.rank, header.sequence, header.epoch) == (ErrorCode.LOST, 1, 7, 3)
    assert (found, frames.blamed(header)) == (payload, blamed)
