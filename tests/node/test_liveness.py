"""The liveness protocol: a reducer's node notices that all workers have ended."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from rsctl.node import liveness
from rsctl.node.liveness import proof, read_line
from rsctl.node.liveness_client import LivenessClient
from rsctl.node.liveness_server import LivenessServer, WorkerLiveness
from tests.kit.polling import wait_until

TOKEN = b"0123456789abcdef" * 4


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def two_workers(clock: Clock) -> WorkerLiveness:
    return WorkerLiveness(2, start_timeout=300, reconnect_timeout=5, clock=clock)


def test_over_when_all_have_said_goodbye(clock: Clock) -> None:
    workers = two_workers(clock)
    assert not workers.all_ended()
    for index in range(2):
        workers.connected(index)
    workers.disconnected(0, in_order=True)
    assert not workers.all_ended()
    workers.disconnected(1, in_order=True)
    assert workers.all_ended()


def test_a_lost_worker_may_come_back_for_a_while(clock: Clock) -> None:
    workers = two_workers(clock)
    for index in range(2):
        workers.connected(index)
    workers.disconnected(0, in_order=True)
    workers.disconnected(1, in_order=False)
    clock.now = 4.9
    assert not workers.all_ended()
    workers.connected(1)
    clock.now = 100
    assert not workers.all_ended()
    workers.disconnected(1, in_order=False)
    clock.now = 105
    assert workers.all_ended()


def test_a_worker_that_has_not_come_yet_is_awaited(clock: Clock) -> None:
    workers = two_workers(clock)
    workers.connected(0)
    workers.disconnected(0, in_order=True)
    clock.now = 299
    assert not workers.all_ended()
    clock.now = 300
    assert workers.all_ended()


def test_a_connection_anew_before_the_old_one_is_missed(clock: Clock) -> None:
    workers = two_workers(clock)
    for index in (0, 1, 1):
        workers.connected(index)
    workers.disconnected(0, in_order=True)
    workers.disconnected(1, in_order=False)
    clock.now = 1000
    assert not workers.all_ended()


class Reducer:
    """A reducer's node on the loopback; `ended` is set when it would end."""

    def __init__(self, host: str, workers: int = 2) -> None:
        self.ended = threading.Event()
        self.workers = WorkerLiveness(workers, start_timeout=300, reconnect_timeout=0)
        self.host = host
        with socket.create_server((host, 0)) as probe:
            self.port = int(probe.getsockname()[1])
        LivenessServer((host, self.port), self.workers, "run", TOKEN, self.ended.set)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=60)

    def worker(self, index: int, run: str = "run", token: bytes = TOKEN) -> LivenessClient:
        return LivenessClient([(self.host, self.port + 1)], index, run, token)

    def has(self, index: int) -> bool:
        return self.workers._connections[index] > 0


@pytest.fixture
def reducer(addresses: Callable[[int], list[str]]) -> Iterator[Reducer]:
    made = Reducer(addresses(1)[0])
    yield made
    for index in range(2):  # its threads end with the job
        made.workers.connected(index)
        made.workers.disconnected(index, in_order=True)


def test_workers_come_and_leave(reducer: Reducer) -> None:
    workers = [reducer.worker(index) for index in range(2)]
    wait_until(lambda: reducer.has(0) and reducer.has(1))
    workers[0].close()
    wait_until(lambda: not reducer.has(0))
    assert not reducer.ended.is_set()
    workers[1].close()
    assert reducer.ended.wait(60)


def test_a_worker_that_is_soon_done_is_still_seen(reducer: Reducer) -> None:
    for index in range(2):
        reducer.worker(index).close()
    assert reducer.ended.wait(60)


def test_peers_without_a_proof_are_not_workers(reducer: Reducer) -> None:
    answers = ["", "0\n", "0 x\n", f"0 {'0' * 64}\n", "x" * 300, "\xff\n", "0 \xff\n"]
    for answer in answers:
        with reducer.connect() as sock:
            assert read_line(sock).startswith("rsctl-presence ")
            # It may hang up before all is sent.
            with contextlib.suppress(OSError):
                sock.sendall(answer.encode("latin-1"))
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(100) == b""
    assert not reducer.has(0)
    assert not reducer.ended.is_set()


def test_a_worker_does_not_wait_for_idle_connections(
    reducer: Reducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "HANDSHAKE_SECONDS", 3600)
    idle = [reducer.connect() for _ in range(200)]
    worker = reducer.worker(0)
    wait_until(lambda: reducer.has(0))
    worker.close()
    for connection in idle:
        connection.close()


def test_a_server_without_threads_accepts_again_later(
    reducer: Reducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, failures = threading.Thread.start, [1, 2]

    def limited(thread: threading.Thread) -> None:
        if failures and "_serve" in repr(getattr(thread, "_target", "")):
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    reducer.worker(0)
    wait_until(lambda: reducer.has(0))
    assert not failures


@pytest.mark.parametrize(("index", "run"), [("2", "run"), ("0", "another"), ("-1", "run")])
def test_workers_of_another_job_are_refused(reducer: Reducer, index: str, run: str) -> None:
    with reducer.connect() as sock:
        nonce = read_line(sock).partition(" ")[2]
        sock.sendall(f"{index} {proof(TOKEN, run, nonce, int(index))}\n".encode())
        assert sock.recv(100) == b""


def test_a_proof_is_good_once(reducer: Reducer) -> None:
    with reducer.connect() as first, reducer.connect() as second:
        nonce = read_line(first).partition(" ")[2]
        answer = f"0 {proof(TOKEN, 'run', nonce, 0)}\n".encode()
        read_line(second)
        second.sendall(answer)
        assert second.recv(100) == b""
        first.sendall(answer)
        assert first.recv(100) == b"ok\n"
