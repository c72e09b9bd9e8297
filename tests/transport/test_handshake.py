"""Admission: proofs on both sides, unauthenticated peers, and members that do not agree."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rsctl.transport import ErrorCode, Transport, TransportError, connect, frames
from rsctl.transport.engine_interface import EpochGroup, ReducerEngine
from rsctl.transport.engines import reducer_engine
from rsctl.transport.frames import FrameError
from rsctl.transport.handshake import Handshake, Hello, prove_worker, verify_worker
from rsctl.transport.server import Reducer
from tests.transport.conftest import TOKEN, Pool, in_threads

_HELLO = Hello("run", 0, 0, 1, 0, 32768, 8, 8000, 0, bytes(32))


def _dial(pool: Pool) -> socket.socket:
    return socket.create_connection(pool.reducers[0].address, timeout=5)


def _refusal(pool: Pool, **changes: Any) -> tuple[ErrorCode, str]:
    settings = pool.settings(changes.pop("rank", 0), changes.pop("world", 1), **changes)
    with pytest.raises(TransportError) as refused:
        connect(settings).close()
    number = pool.reducers[0].address[1]
    return refused.value.code, refused.value.message.replace(str(number), "PORT")


@pytest.fixture
def member(pool: Pool) -> Iterator[Transport]:
    """A worker of epoch 1 that is alone in a world of two."""
    pool.start(1)
    made = connect(pool.settings(0, 2, epoch=1))
    yield made
    made.close()


def test_a_wrong_token_is_refused_and_told_nothing_else(pool: Pool) -> None:
    pool.start(1)
    refused = _refusal(pool, token=b"not the token of this run")
    assert refused == (
        ErrorCode.AUTHENTICATION,
        "reducer 0 (127.0.0.1:PORT) refused: wrong token",
    )


def test_a_reducer_that_does_not_know_the_token_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pretend(_: int) -> None:
            sock, _ = listener.accept()
            with sock:
                handshake = Handshake(sock)
                handshake.read(frames.HELLO, 92, 219)
                handshake.send(frames.header(frames.CHALLENGE, payload=32).pack() + bytes(32))
                handshake.read(frames.PROOF, 32, 32)
                handshake.send(frames.header(frames.READY, payload=32).pack() + bytes(32))
                sock.recv(1)

        thread = threading.Thread(target=pretend, args=(0,))
        thread.start()
        sock = socket.create_connection(listener.getsockname())
        with sock, pytest.raises(TransportError, match="it does not know this run's token"):
            prove_worker(Handshake(sock), _HELLO, TOKEN)
        thread.join()


def test_frames_of_a_handshake_come_whole_whatever_the_pieces() -> None:
    """What stands behind a frame is left for the engine that takes the connection."""
    here, there = socket.socketpair()

    class InPieces(socket.socket):
        def recv(self, most: int, flags: int = 0) -> bytes:
            return super().recv(min(most, 45), flags)

    with here, InPieces(fileno=there.detach()) as sock:
        for kind, size in ((frames.HELLO, 100), (frames.CHALLENGE, 32)):
            here.sendall(frames.header(kind, payload=size).pack() + bytes([kind]) * size)
        here.sendall(b"rest")
        handshake = Handshake(sock)
        assert handshake.read(frames.HELLO, 92, 219)[1] == bytes([frames.HELLO]) * 100
        assert handshake.read(frames.CHALLENGE, 32, 32)[1] == bytes([frames.CHALLENGE]) * 32
        assert sock.recv(100) == b"rest"


def test_a_recorded_handshake_is_worth_nothing(pool: Pool) -> None:
    pool.start(1)
    here, there = socket.socketpair()
    recorded: list[bytes] = []

    class Recording(Handshake):
        def send(self, data: bytes) -> None:
            recorded.append(data)
            super().send(data)

    proved = in_threads(
        2,
        lambda side: (
            prove_worker(Recording(here), _HELLO, TOKEN)
            if side
            else Handshake(there).send(verify_worker(Handshake(there), TOKEN).ready)
        ),
    )
    assert proved == [None, None]
    with _dial(pool) as sock:
        handshake = Handshake(sock)
        handshake.send(recorded[0])
        handshake.read(frames.CHALLENGE, 32, 32)
        handshake.send(recorded[1])
        with pytest.raises(TransportError, match="wrong token"):
            handshake.read(frames.READY, 32, 32)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: reducer\r\n\r\n" + b"x" * 200,
        frames.header(frames.HELLO, payload=0xFFFFFFFF).pack(),
        frames.header(frames.HELLO, payload=91).pack() + bytes(91),
        frames.header(frames.DATA, payload=100).pack() + bytes(100),
        frames.header(frames.HELLO, payload=100).pack()[:50],
        frames.header(frames.HELLO, payload=92)._replace(version=9).pack() + bytes(92),
    ],
)
def test_strangers_are_shown_out_and_the_run_goes_on(pool: Pool, sent: bytes) -> None:
    pool.start(1)
    with _dial(pool) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while more := sock.recv(4096):
            answer += more
    assert len(answer) < 400
    assert pool.run(1, lambda transport, rank: transport.completed) == [0]


def test_a_port_scan_leaves_nothing_behind(pool: Pool) -> None:
    pool.start(1)
    before = len(os.listdir("/proc/self/fd"))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    scanners = [_dial(pool) for _ in range(min(300, soft // 4))]
    assert pool.run(1, lambda transport, rank: transport.completed) == [0]
    for scanner in scanners:
        scanner.close()
    until = threading.Event()
    for _ in range(500):
        if len(os.listdir("/proc/self/fd")) <= before + 5:
            break
        until.wait(0.02)
    assert len(os.listdir("/proc/self/fd")) <= before + 5


def test_another_run_is_refused(member: Transport, pool: Pool) -> None:
    assert _refusal(pool, run="other") == (
        ErrorCode.MISMATCH,
        "reducer 0 (127.0.0.1:PORT) refused: this reducer serves run run, not other",
    )


def test_an_older_epoch_is_refused(member: Transport, pool: Pool) -> None:
    assert _refusal(pool, rank=1, world=2) == (
        ErrorCode.SUPERSEDED,
        "reducer 0 (127.0.0.1:PORT) refused: rank 1 is of epoch 0; epoch 1 runs",
    )


def test_a_rank_is_there_only_once(member: Transport, pool: Pool) -> None:
    assert _refusal(pool, rank=0, world=2, epoch=1) == (
        ErrorCode.MISMATCH,
        "reducer 0 (127.0.0.1:PORT) refused: rank 0 is already connected",
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"world": 3}, "world: rank 0 says 2, rank 1 says 3"),
        ({"window": 9}, "window: rank 0 says 8, rank 1 says 9"),
        ({"silence": 3.0}, "timeout: rank 0 says 8000, rank 1 says 3000"),
    ],
)
def test_workers_that_disagree_are_named(
    member: Transport, pool: Pool, changes: dict[str, Any], what: str
) -> None:
    changes = {"world": 2, **changes}
    assert _refusal(pool, rank=1, epoch=1, **changes) == (
        ErrorCode.MISMATCH,
        "reducer 0 (127.0.0.1:PORT) refused: the workers disagree about this run's " + what,
    )


def test_reducers_in_another_order_are_noticed(pool: Pool) -> None:
    pool.start(2)
    first = connect(pool.settings(0, 2))
    turned = tuple(reducer.address for reducer in reversed(pool.reducers))
    with pytest.raises(TransportError, match="server: rank 0 says 1, rank 1 says 0"):
        connect(pool.settings(1, 2, reducers=turned))
    first.close()


def test_more_memory_than_the_limit_is_refused(pool: Pool) -> None:
    pool.start(1, memory=1_000_000)
    assert _refusal(pool, world=4) == (
        ErrorCode.LIMIT,
        "reducer 0 (127.0.0.1:PORT) refused: 4 workers could need 6291456 bytes here; "
        "the limit is 1000000",
    )


def test_the_memory_limit_is_for_all_flows_together(pool: Pool) -> None:
    pool.start(1, memory=4_000_000)
    with contextlib.ExitStack() as stack:
        for flow in range(2):
            sock = stack.enter_context(_dial(pool))
            prove_worker(Handshake(sock), replace(_HELLO, flow=flow), TOKEN)
        sock = stack.enter_context(_dial(pool))
        with pytest.raises(TransportError) as refused:
            prove_worker(Handshake(sock), replace(_HELLO, flow=2), TOKEN)
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.LIMIT,
        "1 workers with 3 flows each could need 4718592 bytes here; the limit is 4000000",
    )


def test_without_threads_a_reducer_is_not_deaf_for_good(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.start(1)
    start, failures = threading.Thread.start, threading.Semaphore(3)

    def limited(thread: threading.Thread) -> None:
        if threading.current_thread().name == "rsctl-listener" and failures.acquire(blocking=False):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    assert pool.run(1, lambda transport, rank: transport.completed) == [0]
    assert pool.reducers[0].refused == 3


def test_without_a_thread_for_an_engine_a_worker_comes_again(pool: Pool) -> None:
    failures = [MemoryError("no"), RuntimeError("no")]

    def limited(group: EpochGroup) -> ReducerEngine:
        if failures:
            raise failures.pop()
        return reducer_engine(group, pool.engine == "core")

    pool.reducers.append(Reducer("127.0.0.1", 0, TOKEN, "run", limited))
    assert pool.run(1, lambda transport, rank: transport.completed) == [0]
    assert not failures


def test_a_new_epoch_ends_the_old_one(member: Transport, pool: Pool) -> None:
    work = member.all_reduce(bytearray(400))

    def again(transport: Transport, rank: int) -> list[float]:
        data = np.ones(3, np.float32)
        transport.all_reduce(memoryview(data)).wait(30)
        return data.tolist()

    assert pool.run(2, again, epoch=2) == [[2.0] * 3] * 2
    with pytest.raises(TransportError) as ended:
        work.wait(30)
    assert ended.value.code is ErrorCode.SUPERSEDED
    assert ended.value.message.endswith(
        "ended the run during operation 1: epoch 1 was followed by epoch 2"
    )


def test_settings_do_not_show_the_token(pool: Pool) -> None:
    assert "token" not in repr(replace(pool.settings(0, 1)))


def test_a_hello_that_does_not_fit_its_number_is_refused() -> None:
    packed = _HELLO.pack(bytes(32))
    header = frames.Header.unpack(packed)._replace(job=1)
    with pytest.raises(FrameError, match="a run id that does not fit its number"):
        Hello.unpack(header, packed[64:])
