"""How gradients travel, from the lines of workers and reducers."""

from __future__ import annotations

from rsctl.stream.events import LogEvent
from rsctl.stream.gradients import REDUCER, TRANSPORT, Figures, Gradients, Pool, gradients
from rsctl.stream.metrics import MetricReader

WORKER = (
    '{"rsctl": "telemetry", "transport": {"rank": 1, "operations": 180, "reduced_bytes": 27632160,'
    ' "busy_seconds": 1.0, "stalled_seconds": 0.25, "gbit_per_second": 0.195}}'
)
SLOWER = WORKER.replace("0.195", "0.15").replace("0.25", "0.5")
LATE = (
    '{"rsctl": "telemetry", "reducer": {"blocks": 3, "late": [{"rank": 2, "mean_ms": 12.5},'
    ' {"rank": 0, "mean_ms": 1.5}, {"rank": -1, "mean_ms": 99}, {"rank": "x"}, 7]}}'
)


def figures(prefix: str, **lines: str) -> Figures:
    """What the store would have of a line of each replica."""
    reader = MetricReader({})
    return {
        replica: {
            event.name.removeprefix(prefix): event.value
            for event in reader.read(LogEvent("", replica, "", "stdout", line))
        }
        for replica, line in lines.items()
    }


def test_the_slowest_rank_and_the_latest_one_are_told() -> None:
    workers = figures(TRANSPORT, worker0=WORKER, worker1=SLOWER)
    reducers = figures(REDUCER, reducer0=LATE)
    made = gradients(workers, reducers, Pool(4, 4, 0.2))
    assert made == Gradients(
        operations=180,
        bytes=27632160,
        seconds=1.0,
        ring_seconds=made.ring_seconds if made else None,
        gbps=0.15,
        link_gbps=0.2,
        stalled=0.5,
        latest_rank=2,
        late_ms=12.5,
    )
    assert made.in_words() == (
        "180 all-reduces of 27.6 MB in all, 0.15 of 0.2 Gbit/s, window full 50% of the time, "
        "1 s where a ring needs 1.73 s (1.73 x), "
        "rank 2 comes last, by 12.5 ms a block"
    )


def test_a_link_of_unknown_speed_and_ranks_that_are_never_late() -> None:
    made = gradients(figures(TRANSPORT, worker0=WORKER), {}, Pool(4, 4, None))
    assert made is not None
    assert made.in_words() == (
        "180 all-reduces of 27.6 MB in all, 0.195 Gbit/s, window full 25% of the time"
    )


def test_ranks_that_share_a_link_are_not_compared_with_a_ring() -> None:
    made = gradients(figures(TRANSPORT, worker0=WORKER), {}, Pool(2, 4, 0.2))
    assert made is not None
    assert made.ring_seconds is None


def test_nothing_is_told_of_a_run_without_reducers() -> None:
    assert gradients({}, {}, Pool(4, 4, 0.2)) is None
    assert (
        gradients(figures(TRANSPORT, worker0=WORKER.replace("180", "0")), {}, Pool(4, 4, 0.2))
        is None
    )


def test_lines_of_a_hostile_replica_do_no_harm() -> None:
    for line in (
        '{"rsctl": "telemetry", "transport": [], "reducer": 7}',
        '{"rsctl": "telemetry", "transport": {"operations": "x"}, "reducer": {"late": {}}}',
        '{"rsctl": "telemetry", "transport": {"operations": {"a": 1}}, "reducer": {"late": [[]]}}',
    ):
        found = figures("", worker0=line)
        assert gradients(found, found, Pool(1, 1, None)) is None
