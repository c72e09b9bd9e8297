"""What breaks, and which error everyone gets: dead, frozen, lying and leaving peers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rsctl_start
from rsctl.transport import ErrorCode, Transport, TransportError, connect, frames, schedule
from rsctl.transport.engine_interface import EpochGroup
from rsctl.transport.engines import reducer_engine
from rsctl.transport.handshake import Channel, Handshake, Hello, prove_worker
from rsctl.transport.tls_identity import IDENTITY_VARIABLE, TLS_VARIABLE, make_identity
from tests.kit.polling import wait_until
from tests.transport.conftest import NEEDS_CORE, TOKEN, Pool, in_threads

_MB = 250_000  # numbers of 4 bytes


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def identity(request: pytest.FixtureRequest) -> str | None:
    """Everything here is so with TLS as it is without."""
    return make_identity() if request.param else None


class Process:
    """A reducer as a process of its own."""

    def __init__(self, engine: str, identity: str | None) -> None:
        environ = os.environ | {
            "RSCTL_TOKEN": TOKEN.decode(),
            "RSCTL_RUN": "run",
            "RSCTL_TRANSPORT_CORE": "on" if engine == "core" else "off",
            **_asks(identity),
        }
        program = [*rsctl_start.command("rsctl.transport.reduce"), "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(
            [*program, "--port", "0"], env=environ, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        host, _, port = json.loads(self.process.stdout.readline())["address"].rpartition(":")
        self.address = (host, int(port))


@pytest.fixture
def processes(pool: Pool) -> Iterator[list[Process]]:
    """Two reducers that can be killed."""
    started = [Process(pool.engine, pool.identity) for _ in range(2)]
    pool.others = [process.address for process in started]
    yield started
    for process in started:
        process.process.send_signal(signal.SIGCONT)
        process.process.kill()
        process.process.communicate()


def _asks(identity: str | None) -> dict[str, str]:
    return {TLS_VARIABLE: "1", IDENTITY_VARIABLE: identity} if identity else {}


def _until_it_fails(transport: Transport) -> TransportError:
    data = np.ones(_MB, np.float32)
    for _ in range(10_000):
        try:
            transport.all_reduce(memoryview(data)).wait(30)
        except TransportError as error:
            return error
    raise AssertionError("nothing failed")


def _error(transport: Transport, data: bytearray) -> TransportError:
    with pytest.raises(TransportError) as failed:
        transport.all_reduce(data).wait(30)
    return failed.value


@pytest.mark.parametrize(
    ("number", "code", "silence"),
    [
        (signal.SIGKILL, ErrorCode.LOST, 60.0),
        (
            signal.SIGSTOP,
            ErrorCode.SILENT,
            5.0,
        ),  # a busy machine may keep a healthy peer silent for 1 s
    ],
)
def test_a_reducer_that_dies_or_freezes_is_named_by_every_worker(
    pool: Pool, processes: list[Process], number: signal.Signals, code: ErrorCode, silence: float
) -> None:
    going = threading.Barrier(4)

    def work(transport: Transport, rank: int) -> Any:
        transport.all_reduce(bytearray(4)).wait(30)
        going.wait(30)
        error = _until_it_fails(transport)
        return error.code is code, "reducer 1" in error.message, error.reducer

    def breaks(_: int) -> None:
        going.wait(30)
        processes[1].process.send_signal(number)

    results = in_threads(2, lambda side: pool.run(3, work, silence=silence) if side else breaks(0))[
        1
    ]
    assert results == [(True, True, 1)] * 3


@pytest.mark.parametrize("core", [False, pytest.param(True, marks=NEEDS_CORE)])
def test_who_comes_when_a_reducer_has_just_ended_does_not_wait_for_it(core: bool) -> None:
    engine = reducer_engine(EpochGroup(2, 32768, 8, 0, 1, 60.0), core)
    here, there = socket.socketpair()
    engine.stop(ErrorCode.STOPPED, "the reducer was stopped")
    engine.adopt(there, 0)
    here.settimeout(20)
    with here:
        assert here.recv(1) == b""


def test_a_reducer_that_passes_a_failure_on_is_not_the_one_that_failed(pool: Pool) -> None:
    pool.start(2)
    sock = socket.create_connection(pool.reducers[0].address)
    tls, handshake, channel = pool.tls(), Handshake(sock), Channel(sock, sock)
    lost = "reducer 1 was lost: Connection reset by peer"

    def other(_: int) -> None:
        nonlocal channel
        if tls is not None:
            channel = tls.connect(sock, handshake)
        shape = schedule.pure(pool.settings(0, 2).links)
        hello = Hello("run", 0, 1, 2, 0, shape.frame, shape.windows[0], 8000, 0, shape.digest())
        prove_worker(handshake.over(channel), hello, TOKEN)
        wait_until(lambda: [flow.members for flow in pool.reducers[0].stats()] == [2])
        job = frames.job_number("run")
        channel.sock.sendall(
            frames.error_frame(ErrorCode.LOST, lost, frames.NO_RANK, 0, 0, job, blamed=1)
        )

    def work(transport: Transport, rank: int) -> Any:
        error = _error(transport, bytearray(400))
        return error.code, error.reducer, error.rank, error.message.partition(": ")[2]

    results = in_threads(2, lambda side: other(0) if side else pool._one(0, 2, work, {}))
    channel.sock.close()
    assert results == [(ErrorCode.LOST, 1, None, f"rank 1 gave up: {lost}"), None]


def test_a_lost_worker_is_named_to_the_others_and_frees_what_it_held(pool: Pool) -> None:
    pool.start(2)
    leaver = subprocess.Popen(
        [sys.executable, "-c", _LEAVER, json.dumps([r.address for r in pool.reducers])],
        env=os.environ | {"RSCTL_TOKEN": TOKEN.decode(), **_asks(pool.identity)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert leaver.stdout is not None

    def add(transport: Transport, rank: int) -> None:
        going = transport.all_reduce(bytearray(4 * _MB))
        if rank == 0:
            assert leaver.stdout is not None
            leaver.stdout.readline()
            leaver.kill()
        going.wait(30)

    def work(transport: Transport, rank: int) -> Any:
        with pytest.raises(TransportError) as failed:
            add(transport, rank)
        return failed.value.rank, "rank 2 was lost: " in failed.value.message

    workers = in_threads(2, lambda rank: pool._one(rank, 3, work, {}))
    leaver.communicate()
    assert workers == [(2, True)] * 2
    wait_until(lambda: _members(pool) == [0, 0])


def _members(pool: Pool) -> list[int]:
    return [flow.members for reducer in pool.reducers for flow in reducer.stats()]


_LEAVER = """
import json, os, sys, time
from rsctl.transport import WorkerSettings, connect
from rsctl.transport.settings import read_tls
addresses = tuple(map(tuple, json.loads(sys.argv[1])))
token = os.environ["RSCTL_TOKEN"].encode()
transport = connect(WorkerSettings("run", token, 2, 3, addresses, tls=read_tls(os.environ)))
print("connected", flush=True)
time.sleep(60)
"""


def test_a_silent_worker_is_named_by_the_deadline(pool: Pool) -> None:
    pool.start(1)
    silent = socket.create_connection(pool.reducers[0].address)
    lines = [Channel(silent, silent)]

    def freeze(_: int) -> None:
        hello = Hello("run", 0, 1, 2, 0, 32768, 8, 1000, 0, _plan(pool))
        tls, handshake = pool.tls(), Handshake(silent)
        if tls is not None:
            lines.append(tls.connect(silent, handshake))
        prove_worker(handshake.over(lines[-1]), hello, TOKEN)

    def work(transport: Transport, rank: int) -> Any:
        return _error(transport, bytearray(400)).message.split("ended the run")[1]

    results = in_threads(
        2, lambda side: pool._one(0, 2, work, {"silence": 1.0}) if side else freeze(0)
    )
    lines[-1].sock.close()
    expected = " during operation 1: rank 1 has been silent for 1 s during operation 1"
    assert results == [None, expected]


def _plan(pool: Pool) -> bytes:
    from rsctl.transport.schedule import pure

    return pure(pool.settings(0, 2).links).digest()


@pytest.mark.parametrize(
    "calls",
    [
        [(8, "fp32", "sum"), (16, "fp32", "sum")],
        [(8, "fp32", "sum"), (8, "bf16", "sum")],
        [(8, "fp32", "sum"), (8, "fp32", "avg")],
        [(8, "fp32", "sum"), (4_000_000, "fp32", "sum")],
    ],
)
def test_workers_that_disagree_about_an_operation_are_told(
    pool: Pool, calls: list[tuple[int, str, str]]
) -> None:
    pool.start(2)

    def work(transport: Transport, rank: int) -> Any:
        size, dtype, op = calls[rank]
        with pytest.raises(TransportError) as failed:
            transport.all_reduce(bytearray(size), dtype, op).wait(30)
        text = failed.value.message
        ours = f"rank {rank} has {size} bytes of {dtype} {op}"
        return failed.value.code, "the workers disagree about operation 1: " in text, ours in text

    assert pool.run(2, work) == [(ErrorCode.MISMATCH, True, True)] * 2


def test_a_worker_that_leaves_early_is_named(pool: Pool) -> None:
    pool.start(1)
    left = threading.Event()

    def work(transport: Transport, rank: int) -> Any:
        transport.all_reduce(bytearray(400)).wait(30)
        if rank == 1:
            transport.close()
            left.set()
            return None
        assert left.wait(30)
        error = _error(transport, bytearray(400))
        return error.code, error.message.split(": ", 1)[1]

    assert pool.run(2, work)[0] == (ErrorCode.LEFT, "rank 1 left before operation 2")


def test_an_operation_without_progress_names_whom_it_waits_for(pool: Pool) -> None:
    pool.start(1)
    failed = threading.Event()

    def work(transport: Transport, rank: int) -> Any:
        if rank == 1:
            assert failed.wait(30)
            return None
        error = _error(transport, bytearray(400))
        failed.set()
        return error.code, error.rank, error.message.split("; ")[0], error.sequence

    result = pool.run(2, work, timeout=1.0, silence=2.0)[0]
    assert result == (
        ErrorCode.DEADLINE,
        1,
        "operation 1 has made no progress for 1 s",
        1,
    )


def test_after_a_failure_everything_says_so_at_once(pool: Pool) -> None:
    pool.start(1)
    transport = connect(pool.settings(0, 2))
    work = transport.all_reduce(bytearray(4))
    pool.reducers[0].close()
    with pytest.raises(TransportError, match="the reducer was stopped") as failed:
        work.wait(30)
    with pytest.raises(TransportError, match="the reducer was stopped"):
        transport.all_reduce(bytearray(4))
    assert (failed.value.code, transport.completed) == (ErrorCode.STOPPED, 0)
    transport.close()


def test_an_operation_that_ended_before_a_failure_has_its_result(pool: Pool) -> None:
    pool.start(1)
    transports = [connect(pool.settings(rank, 2)) for rank in range(2)]
    buffers = [np.full(3, 1.5, np.float32) for _ in transports]
    ended = [each.all_reduce(buffer) for each, buffer in zip(transports, buffers, strict=True)]
    for work in ended:
        work.wait(30)
    later = transports[0].all_reduce(bytearray(4))
    pool.reducers[0].close()
    with pytest.raises(TransportError, match="the reducer was stopped"):
        later.wait(30)
    assert [each.completed for each in transports] == [1, 1]
    for transport in transports:
        transport.close()
    assert np.array_equal(buffers, np.full((2, 3), 3.0))
