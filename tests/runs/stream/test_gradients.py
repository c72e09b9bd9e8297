"""How gradients travel, from the lines of workers and reducers."""

from __future__ import annotations

import msgspec
import pytest

from rsctl.runs.folder import RunFolder
from rsctl.runs.gradients import gradients_of
from rsctl.runs.store import Store
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.gradients import (
    REDUCER,
    TRANSPORT,
    GradientPool,
    Gradients,
    LastValues,
    gradients,
)
from rsctl.runs.stream.metrics import MetricReader
from tests.runs.conftest import a_run, at

WORKER = (
    '{"rsctl": "telemetry", "transport": {"rank": 1, "operations": 180, "reduced_bytes": 27632160,'
    ' "busy_seconds": 1.25, "stalled_seconds": 0.25, "gbit_per_second": 0.195}}'
)
SLOWER = WORKER.replace("0.195", "0.15").replace('s": 0.25', 's": 0.625')
POOL = GradientPool(4, 4, 0.2, reducers=4, reducer_gbps=0.2)
LATE = (
    '{"rsctl": "telemetry", "reducer": {"blocks": 3, "late": [{"rank": 2, "mean_ms": 12.5},'
    ' {"rank": 0, "mean_ms": 1.5}, {"rank": -1, "mean_ms": 99}, {"rank": "x"}, 7]}}'
)


def last_values(prefix: str, **lines: str) -> LastValues:
    """What the store would have of a line of each replica."""
    reader = MetricReader({})
    return {
        replica: {
            event.name.removeprefix(prefix): event.value
            for event in reader.read(LogEvent("", replica, "", "stdout", line))
        }
        for replica, line in lines.items()
    }


def test_the_slowest_rank_and_the_latest_one_are_shown() -> None:
    workers = last_values(TRANSPORT, worker0=WORKER, worker1=SLOWER)
    reducers = last_values(REDUCER, reducer0=LATE)
    made = gradients(workers, reducers, POOL)
    assert made == Gradients(
        operations=180,
        bytes=27632160,
        seconds=1.25,
        wire_seconds=made.wire_seconds if made else None,
        ring_seconds=made.ring_seconds if made else None,
        gbps=0.15,
        link_gbps=0.2,
        stalled=0.5,
        latest_rank=2,
        late_ms=12.5,
    )
    assert made.format() == (
        "180 all-reduces of 27.6 MB in total, 0.15 of 0.2 Gbit/s, window full 50% of the time, "
        "took 1.25 s; the network alone needs 1.16 s, a ring with the same delays 1.83 s (1.46 "
        "x), reducers wait longest for rank 2, 12.5 ms on average"
    )


def test_a_link_of_unknown_speed_and_ranks_that_are_never_late() -> None:
    made = gradients(last_values(TRANSPORT, worker0=WORKER), {}, GradientPool(4, 4, None))
    assert made is not None
    assert made.format() == (
        "180 all-reduces of 27.6 MB in total, 0.195 Gbit/s, window full 20% of the time"
    )


@pytest.mark.parametrize(("stalled", "busy", "part"), [(3.5, 2.5, 1.0), (1.0, 0.0, 0.0)])
def test_a_window_is_full_for_a_part_of_the_time(stalled: float, busy: float, part: float) -> None:
    """Whatever a line counts."""
    line = WORKER.replace('stalled_seconds": 0.25', f'stalled_seconds": {stalled}')
    line = line.replace('busy_seconds": 1.25', f'busy_seconds": {busy}')
    made = gradients(last_values(TRANSPORT, worker0=line), {}, GradientPool(4, 4, None))
    assert made is not None
    assert made.stalled == part


def compared(busy: float, pool: GradientPool = POOL) -> float | None:
    """How many times the reducers' time a ring would have needed."""
    line = WORKER.replace("1.25", str(busy))
    made = gradients(last_values(TRANSPORT, worker0=line), {}, pool)
    return made.ring_seconds / made.seconds if made and made.ring_seconds else None


def test_what_is_no_fault_of_the_wire_befalls_a_ring_too() -> None:
    """A busy machine's measured time was once compared with a ring of no cost at all: 0.43 x."""
    assert compared(4.04) == pytest.approx((4.04 + 1.7335 - 1.1557) / 4.04, abs=1e-3)
    assert compared(1.1557) == pytest.approx(1.5, abs=1e-3)  # 2 (N - 1) / N


def test_a_time_below_the_wires_says_that_the_link_is_faster_than_it_is_said_to_be() -> None:
    assert compared(0.5) == pytest.approx(1.5)


def test_a_small_pool_takes_its_own_time_and_gains_less() -> None:
    pool = GradientPool(
        4, 4, 0.2, reducers=1, reducer_gbps=0.2
    )  # the workers reduce a part themselves
    made = gradients(last_values(TRANSPORT, worker0=WORKER), {}, pool)
    assert made is not None
    assert made.wire_seconds == pytest.approx(1.5409, abs=1e-3)
    assert compared(made.wire_seconds, pool) == pytest.approx(1.125)


@pytest.mark.parametrize(
    "pool", [GradientPool(2, 4, 0.2, 4, 0.2), GradientPool(4, 4, 0.2, 4, None)]
)
def test_ranks_that_share_a_link_and_unknown_ones_are_not_compared_with_a_ring(
    pool: GradientPool,
) -> None:
    assert compared(1.25, pool) is None


def test_a_run_without_reducers_has_none() -> None:
    assert gradients({}, {}, POOL) is None
    assert gradients(last_values(TRANSPORT, worker0=WORKER.replace("180", "0")), {}, POOL) is None


def test_lines_of_a_hostile_replica_do_no_harm() -> None:
    for line in (
        '{"rsctl": "telemetry", "transport": [], "reducer": 7}',
        '{"rsctl": "telemetry", "transport": {"operations": "x"}, "reducer": {"late": {}}}',
        '{"rsctl": "telemetry", "transport": {"operations": {"a": 1}}, "reducer": {"late": [[]]}}',
    ):
        found = last_values("", worker0=line)
        assert gradients(found, found, GradientPool(1, 1, None)) is None


@pytest.mark.parametrize("is_rehearsed", [False, True])
def test_the_links_of_a_stored_run_are_those_of_its_plan(store: Store, is_rehearsed: bool) -> None:
    """A rehearsal has the links of this machine, which are not known."""
    pools = [{"role": "worker", "count": 4, "gbps": 0.2}, {"role": "reducer", "count": 4}]
    plan = {"pools": [pools[0], {**pools[1], "gbps": 0.2}], "world_size": 4}
    run = msgspec.structs.replace(a_run("job-1"), plan=plan)
    assert gradients_of(store, run) is None
    values = {"worker-0": WORKER, "worker-1": SLOWER, "reducer-0": LATE}
    for replica, line in values.items():
        store.add_metrics("job-1", MetricReader({}).read(LogEvent(at(1), replica, "", "o", line)))
    if is_rehearsed:
        RunFolder("job-1").path.mkdir(parents=True)
        (RunFolder("job-1").path / "rehearsal.json").touch()
    workers = last_values(TRANSPORT, worker0=WORKER, worker1=SLOWER)
    links = GradientPool(4, 4, None, 4) if is_rehearsed else POOL
    assert gradients_of(store, run) == gradients(workers, last_values(REDUCER, r=LATE), links)
