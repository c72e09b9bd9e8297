"""The slowest rank of a job, by the waits of all ranks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from rsctl.runs.stragglers import (
    Straggler,
    StragglerMonitor,
    rank_times,
    slowest_of,
    steady_straggler,
)
from rsctl.runs.stream.events import MetricEvent

Latest = dict[str, dict[str, float]]


def steps(step: float, *waits: float) -> Latest:
    return {
        f"worker-{rank}": {f"node.rank{rank}.step_ms": step, f"node.rank{rank}.wait_ms": wait}
        for rank, wait in enumerate(waits)
    }


def slowest_rank(latest: Latest) -> Straggler | None:
    return slowest_of(rank_times(latest))


def test_the_rank_that_waits_least_is_the_slowest() -> None:
    found = slowest_rank(steps(300, 120, 115, 10, 120))
    assert found is not None
    assert (found.rank, found.replica, found.cost_ms, found.network_ms) == (2, "worker-2", 110, 10)
    assert found.describe() == (
        "rank 2 (worker-2) is 59% slower than the median: the others wait 110 ms of each step of "
        "300 ms for it"
    )
    assert found.is_one


def test_a_rank_that_waits_for_its_data_is_told_from_one_that_computes() -> None:
    """It costs the others as much, so that it is the slowest rank in both cases."""
    latest = steps(300, 120, 115, 10, 120)
    for rank, data in enumerate([4.0, 5.0, 90.0, 4.0]):
        latest[f"worker-{rank}"][f"node.rank{rank}.data_ms"] = data
    found = slowest_rank(latest)
    assert found is not None
    assert found.is_one
    assert found.describe().endswith(" of 300 ms for it, and it waits 90 ms for input data")
    latest["worker-2"]["node.rank2.data_ms"] = 20.0
    found = slowest_rank(latest)
    assert found is not None
    assert found.describe().endswith(" of 300 ms for it")


@pytest.mark.parametrize(
    "latest", [{}, steps(100, 5), {"worker-0": {"node.rank0.step_ms": 5.0}, "worker-1": {}}]
)
def test_fewer_than_two_ranks_have_no_slowest(latest: Latest) -> None:
    assert slowest_rank(latest) is None


def test_ranks_that_all_wait_for_the_network_have_no_straggler() -> None:
    found = slowest_rank(steps(100, 60, 59, 61))
    assert found is not None
    assert not found.is_one


def test_ranks_that_do_nothing_but_wait_are_equally_fast() -> None:
    found = slowest_rank(steps(100, 100, 100))
    assert found is not None
    assert (found.slower, found.is_one) == (0, False)


def rounds(
    compute: Callable[[int, int], float], ranks: int, count: int, seconds: int = 10
) -> Iterator[list[MetricEvent]]:
    """The metrics of a job whose ranks compute for so long; a round every so many seconds."""
    for turn in range(count):
        times = [compute(rank, turn) for rank in range(ranks)]
        slowest, clock = max(times), turn * seconds
        stamp = f"2026-01-01T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}.000000Z"
        yield [
            MetricEvent(
                time=stamp, replica=f"worker-{rank}", name=f"node.rank{rank}.{key}", value=value
            )
            for rank, own in enumerate(times)
            for key, value in {"step_ms": slowest + 5, "wait_ms": slowest + 5 - own}.items()
        ]


def reports(compute: Callable[[int], float], ranks: int, count: int, seconds: int) -> list[str]:
    """The findings of such a job."""
    monitor = StragglerMonitor()
    return [
        f"{where}: {finding.message}"
        for events in rounds(lambda rank, _: compute(rank), ranks, count, seconds)
        for finding, where in monitor.read(events)
    ]


NOISES: dict[str, Callable[[random.Random, int, int], float]] = {
    "jitter": lambda noise, *_: noise.uniform(80, 120),
    "normal": lambda noise, *_: max(1.0, noise.gauss(100, 20)),
    "heavy tail": lambda noise, *_: 80 + 20 * noise.paretovariate(1.5),
    "warm-up": lambda noise, _, turn: noise.gauss(100, 5) * (10 if turn < 3 else 1),
    "one pause": lambda noise, rank, turn: noise.gauss(100, 5) + 2000 * ((rank, turn) == (1, 20)),
}


@pytest.mark.parametrize("name", NOISES)
def test_ranks_that_only_scatter_have_no_slowest(name: str) -> None:
    """Whenever one looks: in each step one of them is the slowest."""
    for ranks, seed in itertools.product((2, 4), range(5)):
        noise = random.Random(seed)
        seen: list[MetricEvent] = []
        for events in rounds(lambda *of: NOISES[name](noise, *of), ranks, 60):  # noqa: B023
            seen += events
            assert steady_straggler(reversed(seen)) is None


@pytest.mark.parametrize("scatter", [2.0, 20.0])
def test_a_slow_rank_is_found_among_ranks_that_scatter(scatter: float) -> None:
    noise = random.Random(3)
    slow = lambda rank, _: noise.uniform(-scatter, scatter) + (118 if rank == 3 else 100)  # noqa: E731
    seen = [event for events in rounds(slow, 4, 60) for event in events]
    found = steady_straggler(reversed(seen))
    assert found is not None
    assert (found.rank, found.replica) == (3, "worker-3")
    assert found.slower == pytest.approx(0.18, abs=0.06)


def test_a_long_run_is_judged_by_its_last_reports_alone() -> None:
    """They are the same, wherever in a round the reading of them ends."""
    slow = lambda rank, turn: 130 if rank == (3 if turn >= 500 else 1) else 100  # noqa: E731
    seen = [event for events in rounds(slow, 4, 600) for event in events]
    unread = iter(reversed(seen))
    found = steady_straggler(unread)
    assert found is not None
    assert (found.rank, found.cost_ms, found.step_ms) == (3, 30, 135)
    assert len(list(unread)) > len(seen) * 0.89
    for cut in range(1, 8):
        again = steady_straggler(reversed(seen[:-cut]))
        assert again == found


def test_a_straggler_is_reported_once_and_after_five_minutes() -> None:
    noise = random.Random(1)

    def compute(rank: int) -> float:
        return noise.gauss(118 if rank == 3 else 100, 2)

    [message] = reports(compute, 4, 120, 10)
    assert message.startswith("worker-3: rank 3 (worker-3) is ")
    assert message.endswith("for it, for more than 5 minutes")
    assert reports(compute, 4, 29, 10) == []


def test_a_node_whose_clock_is_ahead_does_not_shorten_the_five_minutes() -> None:
    """The reports of the nodes come in any order."""
    monitor, found = StragglerMonitor(), []
    for number, events in enumerate(rounds(lambda rank, _: 118 if rank == 3 else 100, 4, 29)):
        ahead = [
            replace(each, time=each.time.replace("T00", "T01"))
            if each.replica == "worker-3"
            else each
            for each in events
        ]
        found += monitor.read(ahead[:: 1 if number % 6 == 5 else -1])
    assert found == []


def test_other_metrics_do_not_disturb() -> None:
    """Nor do other readings of a rank."""
    monitor = StragglerMonitor()
    found = []
    for events in rounds(lambda rank, _: 118 if rank == 3 else 100, 4, 120):
        time = events[0].time
        for name in ("loss", "node.cpu_percent", "node.rank0.gpu", "node.rankx.step_ms"):
            events.insert(1, MetricEvent(time=time, replica="worker-0", name=name, value=1.0))
        found += monitor.read(events)
    [(finding, replica)] = found
    assert (finding.severity, replica) == ("warning", "worker-3")


@pytest.mark.parametrize("deviation", [0.02, 0.1, 0.3])
def test_noise_alone_is_never_reported(deviation: float) -> None:
    noise = random.Random(2)
    for ranks in (2, 4, 16):
        compute = lambda _: 100 * noise.lognormvariate(0, deviation)  # noqa: E731
        assert reports(compute, ranks, 720, 10) == []
