"""All-reduces through real reducers on loopback: every dtype, size, engine, and pure and hybrid."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rsctl.transport import Transport, TransportError, connect
from rsctl.transport.engines import reducer_engine
from rsctl.transport.native import library
from rsctl.transport.server import Reducer
from rsctl.transport.tls_identity import make_identity
from tests.transport.conftest import TOKEN, Pool, TextExchange, in_threads

_NUMPY = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def identity(request: pytest.FixtureRequest) -> str | None:
    """Everything here is so with TLS as it is without."""
    return make_identity() if request.param else None


def _data(rank: int, count: int, dtype: str) -> Any:
    numbers = np.random.default_rng(rank).standard_normal(count).astype(np.float32)
    if dtype == "bf16":
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(_NUMPY[dtype])


def _expected(world: int, count: int, dtype: str, op: str) -> Any:
    wide = [_data(rank, count, dtype) for rank in range(world)]
    if dtype == "bf16":
        wide = [(block.astype(np.uint32) << 16).view(np.float32) for block in wide]
    total = wide[0].astype(np.float32)
    for block in wide[1:]:
        total = total + block.astype(np.float32)
    if op == "avg":
        total = total / np.float32(world)
    if dtype != "bf16":
        return total.astype(_NUMPY[dtype])
    bits = total.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _reduce(transport: Transport, rank: int, count: int, dtype: str, op: str) -> bytes:
    data = _data(rank, count, dtype)
    transport.all_reduce(memoryview(data), dtype, op).wait(60)
    return bytes(data.tobytes())


@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_every_dtype_and_odd_size_is_summed_in_rank_order(pool: Pool, dtype: str, op: str) -> None:
    pool.start(2)
    counts = (0, 1, 7, 2047, 2053, 65_537, 300_007)

    def work(transport: Transport, rank: int) -> list[bytes]:
        return [_reduce(transport, rank, count, dtype, op) for count in counts]

    expected = [_expected(3, count, dtype, op).tobytes() for count in counts]
    assert pool.run(3, work) == [expected] * 3


@pytest.mark.parametrize("reducers", [0, 1, 2])
def test_workers_take_a_share_where_reducers_are_few(pool: Pool, reducers: int) -> None:
    pool.start(reducers)
    exchange = TextExchange(4)
    if not reducers:
        pool.others = []

    def work(transport: Transport, rank: int) -> tuple[bool, int, bytes]:
        reduced = _reduce(transport, rank, 400_009, "fp32", "sum")
        return transport.schedule.hybrid, transport.schedule.servers, reduced

    expected = _expected(4, 400_009, "fp32", "sum").tobytes()
    results = pool.run(4, work, exchange=exchange.of, bind="127.0.0.1")
    assert results == [(True, reducers + 4, expected)] * 4


def test_the_reducer_of_a_worker_is_named_by_its_rank(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the worker's that has stopped, or another one that passes this on."""
    own: list[Reducer] = []

    def make(*given: Any, **options: Any) -> Reducer:
        own.append(Reducer(*given, **options))
        return own[-1]

    monkeypatch.setattr("rsctl.transport.client.Reducer", make)
    connected = threading.Barrier(2)

    def work(transport: Transport, rank: int) -> str:
        connected.wait(30)
        if rank == 0:
            own[0].close()
        with pytest.raises(TransportError) as failed:
            transport.all_reduce(bytearray(400)).wait(30)
        return failed.value.message.partition(" (127.0.0.1:")[0]

    exchange = TextExchange(2)
    found = pool.run(2, work, exchange=exchange.of, bind="127.0.0.1")
    assert set(found) <= {f"the reducer of rank {rank}" for rank in range(2)}


def test_several_flows_to_one_reducer(pool: Pool) -> None:
    pool.start(1)

    def work(transport: Transport, rank: int) -> tuple[int, bytes]:
        return transport.schedule.servers, _reduce(transport, rank, 400_009, "fp32", "avg")

    expected = _expected(2, 400_009, "fp32", "avg").tobytes()
    assert pool.run(2, work, flows=3) == [(3, expected)] * 2
    assert [flow.blocks > 0 for flow in pool.reducers[0].stats()] == [True] * 3


@pytest.mark.skipif(not library(), reason="no core")
@pytest.mark.parametrize("clients", [(True, False, True), (False, True, False)])
def test_core_and_python_serve_each_other(clients: tuple[bool, ...], identity: str | None) -> None:
    base = Pool("python", identity)
    reducers = [
        Reducer(
            "127.0.0.1",
            0,
            TOKEN,
            "run",
            lambda group, core=core: reducer_engine(group, core),
            tls=base.tls(),
        )
        for core in (True, False)
    ]
    base.reducers = reducers

    def work(rank: int) -> tuple[str, bytes]:
        with connect(base.settings(rank, 3, core=clients[rank])) as transport:
            return transport.engine, _reduce(transport, rank, 100_003, "bf16", "avg")

    expected = _expected(3, 100_003, "bf16", "avg").tobytes()
    results = in_threads(3, work)
    for reducer in reducers:
        reducer.close()
    assert results == [("core" if core else "python", expected) for core in clients]


def test_operations_overlap_and_end_in_order(pool: Pool) -> None:
    pool.start(2)

    def work(transport: Transport, rank: int) -> Any:
        buffers = [np.full(size, rank + 1, np.float32) for size in (200_000, 1, 50_000, 0, 3)]
        works = [transport.all_reduce(memoryview(buffer)) for buffer in buffers]
        works[-1].wait(30)
        return [work.sequence for work in works], [set(buffer.tolist()) for buffer in buffers]

    assert pool.run(2, work) == [([1, 2, 3, 4, 5], [{3.0}, {3.0}, {3.0}, set(), {3.0}])] * 2


def test_what_everyone_has_finished_is_known_long_before_a_heartbeat_is_due(pool: Pool) -> None:
    pool.start(2)

    def work(transport: Transport, rank: int) -> int:
        for _ in range(3):
            _reduce(transport, rank, 1000, "fp32", "sum")
        until = time.monotonic() + 20
        while transport.committed < 3 and time.monotonic() < until:
            time.sleep(0.01)
        return transport.committed

    assert pool.run(2, work, silence=120.0) == [3, 3]


def test_stats_tell_what_moved(pool: Pool) -> None:
    pool.start(1)

    def work(transport: Transport, rank: int) -> Any:
        _reduce(transport, rank, 100_000, "fp32", "sum")
        stats = transport.stats()
        is_part = 0 < stats.stalled <= stats.busy < 60  # seconds
        return stats.operations, stats.reduced, stats.bytes_out >= 400_000, is_part

    assert pool.run(2, work, window=1) == [(1, 400_000, True, True)] * 2
    flow = pool.reducers[0].stats()[0]
    assert flow.bytes_in >= 800_000
    assert len(flow.late_mean) == 2
    assert max(flow.late_most) >= max(flow.late_mean) > 0


@pytest.mark.parametrize(
    ("buffer", "dtype", "op", "message"),
    [
        (b"1234", "fp32", "sum", "the buffer must be writable and contiguous"),
        (bytearray(6), "fp32", "sum", "6 bytes are not a whole number of fp32"),
        (bytearray(8), "fp64", "sum", "cannot reduce fp64 by sum"),
        (bytearray(8), "fp32", "max", "cannot reduce fp32 by max"),
    ],
)
def test_what_cannot_be_reduced_is_refused(
    pool: Pool, buffer: Any, dtype: str, op: str, message: str
) -> None:
    pool.start(1)

    def work(transport: Transport, _: int) -> None:
        transport.all_reduce(buffer, dtype, op)

    assert str(pool.run(1, work)[0]).startswith(message)


def test_a_wait_that_times_out_lets_the_operation_go_on(pool: Pool) -> None:
    pool.start(1)
    waited = threading.Event()

    def work(transport: Transport, rank: int) -> Any:
        if rank == 1:
            assert waited.wait(30)
        data = np.ones(4, np.float32)
        going = transport.all_reduce(memoryview(data))
        if rank == 0:
            with pytest.raises(TimeoutError):
                going.wait(0.05)
            waited.set()
        going.wait(30)
        return data.tolist()

    assert pool.run(2, work) == [[2.0] * 4] * 2


def test_nobody_to_connect_to_is_said(pool: Pool) -> None:
    pool.others = [("127.0.0.1", 9)]
    with pytest.raises(TransportError) as refused:
        connect(replace(pool.settings(0, 1), patience=0.2))
    expected = "reducer 0 (127.0.0.1:9) could not be reached in 0.2 s: "
    assert refused.value.message.startswith(expected)
