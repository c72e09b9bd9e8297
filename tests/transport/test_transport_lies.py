"""Members that have proved who they are and then lie: they are named, and nothing else breaks."""

from __future__ import annotations

import socket
import threading

import pytest

from rsctl.transport import Code, TransportError, connect, frames
from rsctl.transport.handshake import Hello, Opening, examine, introduce
from rsctl.transport.native import library
from tests.transport.conftest import TOKEN, Pool


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
        opening = Opening(sock)
        introduce(opening, hello, TOKEN)
        opening.send(block._replace(**changes).pack() + bytes(8))
        with pytest.raises(TransportError) as told:
            opening.read(frames.RESULT, 0, 0)
    assert told.value.message == f"rank 0 broke the protocol: {reason}"
    results = pool.run(1, lambda transport, rank: transport.completed, epoch=1)
    assert results == [0]


def test_more_blocks_than_the_window_are_refused(pool: Pool) -> None:
    pool.start(1)
    with socket.create_connection(pool.reducers[0].address) as sock:
        hello = Hello("run", 0, 0, 2, 0, 32768, 3, 8000, 0, bytes(32))
        opening = Opening(sock)
        introduce(opening, hello, TOKEN)
        for sequence in range(1, 5):
            fields = {"dtype": 1, "op": 1, "rank": 0, "sequence": sequence, "total": 4}
            job = frames.job_number("run")
            block = frames.header(frames.DATA, **fields, chunk_bytes=4, payload=4, job=job)
            opening.send(block.pack() + bytes(4))
        with pytest.raises(TransportError, match="rank 0 sends more than 3 blocks at once"):
            opening.read(frames.RESULT, 0, 0)


@pytest.mark.parametrize("engine", ["twin", "core"])
def test_a_reducer_that_lies_is_named(engine: str) -> None:
    if engine == "core" and not library():
        pytest.skip("no core")
    pool = Pool(engine)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool.others = [listener.getsockname()]

        def pretend() -> None:
            sock, _ = listener.accept()
            with sock:
                opening = Opening(sock)
                opening.send(examine(opening, TOKEN).ready)
                header, _ = opening.read(frames.DATA, 8, 8)
                lie = header._replace(kind=frames.RESULT, total=16, chunk_bytes=8)
                opening.send(lie.pack() + bytes(8))
                sock.recv(4096)

        thread = threading.Thread(target=pretend)
        thread.start()
        with connect(pool.settings(0, 1)) as transport:
            work = transport.all_reduce(bytearray(8))
            with pytest.raises(TransportError) as failed:
                work.wait(30)
        thread.join()
    error = failed.value
    assert error.code is Code.PROTOCOL
    assert error.message.endswith(
        "broke the protocol during operation 1: a result of 16 bytes of fp32 sum for "
        "8 bytes of fp32 sum"
    )
