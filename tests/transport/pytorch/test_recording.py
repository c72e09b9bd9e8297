"""Recorded steps of training scripts, and scripts that are run to be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit.deferred import Deferred
from tests.transport.pytorch.conftest import Ended, Pool

torch = Deferred("torch")
step_times = Deferred("rsctl.transport.pytorch.step_times")

MEASURE = {"RSCTL_MEASURE_STEPS": "10"}


class FakeClock:
    """Tells the moments that it is given."""

    def __init__(self, moments: Iterator[float]) -> None:
        self._moments = moments

    def moment(self) -> object:
        """The next of them."""
        return next(self._moments)

    def seconds(self, earlier: object, later: object) -> float:
        """Between two of them."""
        return float(str(later)) - float(str(earlier))


def test_a_step_is_what_happens_between_two_reductions() -> None:
    """Two buckets, ready 2 and 3 s after a step's start, and reduced 4 and 5 s after it."""
    times = step_times.StepTimes(
        FakeClock(s * 5.0 + m for s in range(9) for m in (2.0, 3.0, 4.0, 5.0))
    )
    for step in range(9):
        times.data_seconds += 0.5
        first, last = times.bucket_ready(100, False), times.bucket_ready(10, True)
        times.bucket_reduced(first)
        if step < 8:  # the last reduction is still under way
            times.bucket_reduced(last)
    steps = times.steps()
    assert step_times.summary(steps) == {
        **{"steps": 8 - step_times.WARM_UP_STEPS, "seconds": 5.0, "low": 5.0, "high": 5.0},
        **{"compute": 3.0, "data": 0.5},
    }
    assert step_times.median_buckets(steps) == [(100, 2.0, 4.0), (10, 3.0, 5.0)]


@pytest.mark.parametrize(
    ("seconds", "low", "median", "high"),
    [([3.0], 3, 3, 3), ([1.0, 3.0], 1.5, 2, 2.5), ([1.0, 9.0, 2.0, 4.0, 3.0], 2, 3, 4)],
)
def test_half_of_the_steps_are_between_low_and_high(
    seconds: list[float], low: float, median: float, high: float
) -> None:
    """Also of two, whose quartiles are not outside of what was measured."""
    bucket = (step_times.BucketTimes(100, 0.5, 0.75),)
    steps = [step_times.TimedStep(each, 0.25, bucket) for each in seconds]
    found = step_times.summary(steps)
    assert (found["low"], found["seconds"], found["high"]) == (low, median, high)


def test_steps_with_other_buckets_than_the_last_are_left_out() -> None:
    times = step_times.StepTimes(FakeClock(iter(range(100))))
    sizes = [5] * (step_times.WARM_UP_STEPS + 3) + [7] * 4
    for size in sizes:
        times.bucket_reduced(times.bucket_ready(size, True))
    assert [step.buckets[0].bytes for step in times.steps()] == [7] * 4
    assert times.recorded == 7


def test_a_script_is_ended_after_so_many_steps_and_none_of_its_gradients_travel(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    ended = run("loading.py", **MEASURE, FINALLY=str(tmp_path / "finally"), ranks=1)
    assert ended.code == 0
    assert "trained to its end" not in ended.out
    assert (tmp_path / "finally").exists()
    (steps,) = ended.printed("steps")
    assert (steps["world"], steps["communicates"], steps["steps"]) == (1, False, 11)
    assert [bucket[0] for bucket in steps["buckets"]] == [72 * 4]
    assert all(ready == reduced for _, ready, reduced in steps["buckets"])
    assert steps["compute"] == steps["seconds"]
    assert 0 < steps["cores"] < 100
    assert 0 <= steps["queued"] <= 1
    assert 0 < steps["data"] < steps["seconds"]
    assert steps["prefetches"] is False
    assert ended.printed("finding") == []


def test_accumulated_gradients_are_one_step(run: Callable[..., Ended]) -> None:
    samples = ("--samples", str(4 * (step_times.WARM_UP_STEPS + 8)))
    ended = run("loading.py", "--accumulate", "4", *samples, ranks=1, **MEASURE)
    (steps,) = ended.printed("steps")
    assert steps["steps"] == 8
    (finding,) = ended.printed("finding")
    assert (finding["severity"], finding["code"]) == ("warning", "measure-short")
    assert finding["message"] == (
        "the script has ended after 8 steps beyond 5 of warm-up, but the measurement needs 10"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--no-ddp",), "measure-gradients"), (("--samples", "7"), "measure-short")],
)
def test_a_script_with_too_little_to_measure_says_so(
    run: Callable[..., Ended], arguments: tuple[str, ...], code: str
) -> None:
    ended = run("loading.py", *arguments, ranks=1, **MEASURE)
    assert ended.code == 0
    assert [(f["severity"], f["code"]) for f in ended.printed("finding")] == [("error", code)]
    assert ended.printed("steps") == []


def test_ranks_that_exchange_gradients_are_measured_with_that(
    run: Callable[..., Ended],
) -> None:
    ended = run(
        "train.py", "--backend", "gloo", "--steps", "999", **MEASURE, RSCTL_MEASURE_COMM="1"
    )
    assert ended.code == 0
    (steps,) = ended.printed("steps")
    assert (steps["world"], steps["communicates"]) == (2, True)
    assert all(ready < reduced for _, ready, reduced in steps["buckets"])
    assert steps["compute"] < steps["seconds"]
    assert ended.printed("finding") == []


def test_a_run_over_reducers_tells_its_steps_at_its_end(
    run: Callable[..., Ended], reducers: Callable[..., Pool]
) -> None:
    ended = run("train.py", "--steps", "12", **reducers(1).environ)
    assert len(ended.ranks) == 2
    (steps,) = ended.printed("steps")
    assert (steps["steps"], steps["communicates"]) == (12 - step_times.WARM_UP_STEPS, True)
    model = sum(p.numel() for i in range(4) for p in torch.nn.Linear(64 + i, 65 + i).parameters())
    assert sum(bucket[0] for bucket in steps["buckets"]) == 4 * model
    assert steps["bucket_mb"] is None


def test_the_size_of_buckets_that_a_script_asks_for_is_known_also_where_smaller_are_measured(
    run: Callable[..., Ended],
) -> None:
    asks = ("--backend", "gloo", "--steps", "99", "--width", "700", "--bucket", "3")
    ended = run("train.py", *asks, **MEASURE, RSCTL_COMM_BUCKET_MB="1", ranks=1)
    (steps,) = ended.printed("steps")
    assert (steps["bucket_mb"], len(steps["buckets"])) == (3.0, 4)


def test_a_variable_that_is_no_number_ends_the_script_with_a_finding(
    run: Callable[..., Ended],
) -> None:
    ended = run("loading.py", RSCTL_MEASURE_STEPS="many", ranks=1)
    assert ended.code == 1
    assert "RSCTL_MEASURE_STEPS is 'many'" in ended.err
