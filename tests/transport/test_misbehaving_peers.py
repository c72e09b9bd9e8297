"""Authenticated members that break the protocol: they are named, and nothing else breaks."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rsctl.transport import ErrorCode, TransportError, connect, frames
from rsctl.transport.handshake import Handshake, Hello, prove_worker, verify_worker
from rsctl.transport.native import library
from tests.transport.conftest import ENGINES, TOKEN, Pool


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": 0xFFFFFFF0}, "a block of 4294967280 bytes instead of 8"),
        ({"chunk_bytes": 1 << 30}, "blocks of 1073741824 bytes"),
        ({"kind": frames.RESULT}, "a frame of kind 6 is out of place"),
        ({"rank": 1}, "a frame in the name of rank 1"),
        ({"total": 1 << 60}, "operation 1 of 1152921504606846976 bytes"),
    ],
)
def test_a_member_that_lies_ends_the_epoch_and_no_more(
    pool: Pool, changes: dict[str, int], reason: str
) -> None:
    pool.start(1)
    fields = {"dtype": 1, "op": 1, "rank": 0, "sequence": 1, "total": 8, "chunk_bytes": 32}
    block = frames.header(frames.DATA, **fields, payload=8, job=frames.job_number("run"))
    with socket.create_connection(pool.reducers[0].address) as sock:
        hello = Hello("run", 0, 0, 2, 0, 32768, 8, 8000, 0, bytes(32))
        handshake = Handshake(sock)
        prove_worker(handshake, hello, TOKEN)
        handshake.send(block._replace(**changes).pack() + bytes(8))
        with pytest.raises(TransportError) as errors:
            handshake.read(frames.RESULT, 0, 0)
    assert errors.value.message == f"rank 0 broke the protocol: {reason}"
    results = pool.run(1, lambda transport, rank: transport.completed, epoch=1)
    assert results == [0]


def test_more_blocks_than_the_window_are_refused(pool: Pool) -> None:
    pool.start(1)
    with socket.create_connection(pool.reducers[0].address) as sock:
        hello = Hello("run", 0, 0, 2, 0, 32768, 3, 8000, 0, bytes(32))
        handshake = Handshake(sock)
        prove_worker(handshake, hello, TOKEN)
        for sequence in range(1, 5):
            fields = {"dtype": 1, "op": 1, "rank": 0, "sequence": sequence, "total": 4}
            job = frames.job_number("run")
            block = frames.header(frames.DATA, **fields, chunk_bytes=4, payload=4, job=job)
            handshake.send(block.pack() + bytes(4))
        with pytest.raises(TransportError, match="rank 0 sends more than 3 blocks at once"):
            handshake.read(frames.RESULT, 0, 0)


@pytest.mark.parametrize("engine", ["python", "core"])
def test_a_reducer_that_lies_is_named(engine: str) -> None:
    if engine == "core" and not library():
        pytest.skip("no core")
    pool = Pool(engine)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool.others = [listener.getsockname()]

        def pretend() -> None:
            sock, _ = listener.accept()
            with sock:
                handshake = Handshake(sock)
                handshake.send(verify_worker(handshake, TOKEN).ready)
                header, _ = handshake.read(frames.DATA, 8, 8)
                lie = header._replace(kind=frames.RESULT, total=16, chunk_bytes=8)
                handshake.send(lie.pack() + bytes(8))
                sock.recv(4096)

        thread = threading.Thread(target=pretend)
        thread.start()
        with connect(pool.settings(0, 1)) as transport:
            work = transport.all_reduce(bytearray(8))
            with pytest.raises(TransportError) as failed:
                work.wait(30)
        thread.join()
    error = failed.value
    assert error.code is ErrorCode.PROTOCOL
    assert error.message.endswith(
        "broke the protocol during operation 1: a result of 16 bytes of fp32 sum for "
        "8 bytes of fp32 sum"
    )


JOB = frames.job_number("run")
BLOCK = {"dtype": 1, "op": 1, "total": 8, "chunk_bytes": 8, "payload": 8, "job": JOB}
SILENCE = 1000
"""Milliseconds; what is slow here takes longer."""


@contextlib.contextmanager
def member(pool: Pool, rank: int, world: int) -> Iterator[Handshake]:
    """A member of the pool's first reducer, whose frames the test makes."""
    with socket.create_connection(pool.reducers[0].address) as sock:
        handshake = Handshake(sock, 60)
        before = sum(stats.members for stats in pool.reducers[0].stats())
        prove_worker(
            handshake, Hello("run", 0, rank, world, 0, 32768, 8, SILENCE, 0, bytes(32)), TOKEN
        )
        until = time.monotonic() + 30
        while sum(stats.members for stats in pool.reducers[0].stats()) == before:
            assert time.monotonic() < until
        yield handshake


def answer(handshake: Handshake, kind: int, size: int = 0) -> frames.Header:
    """The next frame that is no heartbeat; of this kind. Raises TransportError for ERROR."""
    while True:
        try:
            return handshake.read(kind, size, size)[0]
        except frames.FrameError as error:
            if f"kind {frames.HEARTBEAT} " not in str(error):
                raise


def error_of(handshake: Handshake) -> TransportError:
    with pytest.raises(TransportError) as errors:
        answer(handshake, frames.RESULT)
    return errors.value


@pytest.mark.parametrize("number", [0, 11, 100, 102, 0xFFFFFFFF])
def test_a_reason_that_the_protocol_does_not_have_is_no_clean_end(pool: Pool, number: int) -> None:
    pool.start(1)
    with member(pool, 0, 2) as liar, member(pool, 1, 2) as other:
        fault = frames.error_frame(ErrorCode.GAVE_UP, "why", 0, 0, 0, JOB)
        liar.send(frames.Header.unpack(fault)._replace(code=number).pack() + b"why")
        error = error_of(other)
        assert (error.code, error.message) == (ErrorCode.PROTOCOL, "rank 0 gave up: why")
    outcome = pool.reducers[0].outcome()
    assert outcome is not None
    assert (outcome.code, outcome.message) == (ErrorCode.PROTOCOL, "rank 0 gave up: why")


def test_a_block_of_an_operation_that_its_sender_has_finished(pool: Pool) -> None:
    pool.start(1)
    with member(pool, 0, 2) as liar:
        block = frames.header(frames.DATA, rank=0, sequence=3, completed=5, **BLOCK)
        liar.send(block.pack() + bytes(8))
        assert error_of(liar).message == (
            "rank 0 broke the protocol: a block of operation 3, which rank 0 has finished"
        )


def test_an_operation_that_is_under_way_is_not_finished(pool: Pool) -> None:
    pool.start(1)
    with member(pool, 0, 2) as liar:
        liar.send(frames.header(frames.DATA, rank=0, sequence=1, **BLOCK).pack() + bytes(8))
        liar.send(frames.header(frames.HEARTBEAT, rank=0, completed=4, job=JOB).pack())
        assert error_of(liar).message == (
            "rank 0 broke the protocol: it has finished operation 4, but 1 is under way"
        )


def test_an_operation_that_another_rank_has_finished_does_not_begin(pool: Pool) -> None:
    pool.start(1)
    with member(pool, 0, 2) as liar, member(pool, 1, 2) as other:
        liar.send(frames.header(frames.HEARTBEAT, rank=0, completed=1 << 60, job=JOB).pack())
        # The two may be read in either order; each of them is noticed.
        other.send(frames.header(frames.DATA, rank=1, sequence=1, **BLOCK).pack() + bytes(8))
        message = error_of(other).message
        assert message in (
            "rank 1 broke the protocol: a block of operation 1, which rank 0 has finished",
            "rank 0 broke the protocol: it has finished operation 1152921504606846976, "
            "but 1 is under way",
        )


def slowly(handshake: Handshake, data: bytes) -> None:
    """Send in pieces, each within the silence that is allowed, and all of them beyond it."""
    for start in range(0, len(data), len(data) // 16):
        handshake.send(data[start : start + len(data) // 16])
        time.sleep(SILENCE / 1000 / 8)


def test_a_slow_sender_is_heard_in_the_middle_of_a_frame(pool: Pool) -> None:
    pool.start(1)
    with member(pool, 0, 1) as slow:
        size = {"total": 32000, "chunk_bytes": 32000, "payload": 32000}
        block = frames.header(frames.DATA, rank=0, sequence=1, **{**BLOCK, **size})
        slowly(slow, block.pack() + bytes(32000))
        assert answer(slow, frames.RESULT, 32000).sequence == 1


def test_a_sender_that_stops_in_the_middle_of_a_frame_is_silent(pool: Pool) -> None:
    pool.start(1)
    with member(pool, 0, 2) as stuck, member(pool, 1, 2) as other:
        block = frames.header(frames.DATA, rank=0, sequence=1, **BLOCK)
        stuck.send(block.pack() + bytes(4))
        ended = threading.Event()

        def stay() -> None:
            while not ended.wait(SILENCE / 1000 / 8):
                with contextlib.suppress(OSError):
                    other.send(frames.header(frames.HEARTBEAT, rank=1, job=JOB).pack())

        thread = threading.Thread(target=stay)
        thread.start()
        error = error_of(other)
        ended.set()
        thread.join()
        assert (error.code, error.message) == (ErrorCode.SILENT, "rank 0 has been silent for 1 s")


def against(engine: str, reducer: Callable[[Handshake], None]) -> Any:
    """What one worker's operation ends with, where this is its only reducer."""
    pool = Pool(engine)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool.others = [listener.getsockname()]

        def pretend() -> None:
            sock, _ = listener.accept()
            with sock, contextlib.suppress(OSError):
                handshake = Handshake(sock, 60)
                handshake.send(verify_worker(handshake, TOKEN).ready)
                reducer(handshake)
                while sock.recv(1 << 16):
                    pass

        thread = threading.Thread(target=pretend)
        thread.start()
        try:
            with connect(pool.settings(0, 1, silence=SILENCE / 1000)) as transport:
                transport.all_reduce(bytearray(8192)).wait(60)
                return transport.completed
        except TransportError as error:
            return error.code, error.message.partition(": ")[2]
        finally:
            thread.join()


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_finished_here_is_not_finished_everywhere(engine: str) -> None:
    def lie(handshake: Handshake) -> None:
        handshake.send(frames.header(frames.HEARTBEAT, completed=7, job=JOB).pack())

    assert against(engine, lie) == (
        ErrorCode.PROTOCOL,
        "operation 7 is not finished here, and so not everywhere",
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", [0, 100, 102])
def test_a_reducers_reason_that_the_protocol_does_not_have(engine: str, number: int) -> None:
    def give_up(handshake: Handshake) -> None:
        fault = frames.error_frame(ErrorCode.GAVE_UP, "why", 0, 0, 0, JOB)
        handshake.send(frames.Header.unpack(fault)._replace(code=number).pack() + b"why")

    assert against(engine, give_up) == (ErrorCode.PROTOCOL, "why")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_slow_reducer_is_heard_in_the_middle_of_a_frame(engine: str) -> None:
    def reduce(handshake: Handshake) -> None:
        block, data = handshake.read(frames.DATA, 8192, 8192)
        slowly(handshake, block._replace(kind=frames.RESULT, rank=frames.NO_RANK).pack() + data)

    assert against(engine, reduce) == 1
