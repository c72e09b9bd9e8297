"""The order of a bench's runs."""

from __future__ import annotations

from rsctl.bench.records import Against
from rsctl.bench.schedule import all_slots, next_trial, pending, unsuccessful
from rsctl.findings import JobState
from tests.bench.test_records import bench_of, trial


def test_cells_alternate_and_every_second_row_goes_back() -> None:
    """A B B A A B for two cells and three repetitions."""
    assert list(all_slots(2, 3)) == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]


def test_drift_meets_all_cells_alike() -> None:
    """The mean place in the order is the same for each cell when repetitions are even."""
    order = list(all_slots(5, 4))
    means = {sum(i for i, (c, _) in enumerate(order) if c == cell) for cell in range(5)}
    assert len(means) == 1


def test_the_sides_of_a_paired_bench_take_turns() -> None:
    """A B, B A, B A, A B; each four repetitions mirror the ones before."""
    bench = bench_of(repeat=4)
    assert [cell for cell, _ in pending(bench, frozenset())] == [0, 1, 1, 0, 0, 1, 1, 0]
    bench.against = Against(given="main", file="job.yaml")
    assert [cell for cell, _ in pending(bench, frozenset())] == [0, 1, 1, 0, 1, 0, 0, 1]


def test_what_is_missing_or_failed_is_pending() -> None:
    """What goes on is not, nor what unsuccessful only since somebody looked."""
    bench = bench_of(repeat=2)
    bench.trials = [
        trial(0, 0, JobState.SUCCEEDED),
        trial(1, 0, JobState.FAILED),
        trial(1, 1, JobState.RUNNING),
    ]
    again = unsuccessful(bench)
    assert pending(bench, again) == [(1, 0), (0, 1)]
    assert pending(bench, frozenset()) == [(0, 1)]
    bench.trials.append(trial(1, 0, JobState.FAILED, attempt=1))
    assert pending(bench, again) == [(0, 1)]
    assert next_trial(bench, (1, 0), "r").attempt == 2
    assert next_trial(bench, (0, 1), "r").attempt == 0
