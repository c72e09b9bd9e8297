"""One sample a metric of a run."""

from __future__ import annotations

import json
import math
import random

import msgspec
import pytest
from msgspec.structs import replace

from rsctl.bench.curves import Curve
from rsctl.bench.samples import Sample, samples, samples_and_curves
from rsctl.bench.steady import transient
from rsctl.job.gate_checks import OF_THE_RUN
from rsctl.runs.store import Store
from rsctl.runs.stream.metrics import MetricSpec
from tests.bench.conftest import MakeRun, values


def test_a_sample_is_the_median_of_the_steady_part_with_its_spread(
    store: Store, make_run: MakeRun
) -> None:
    """With an odd value that would spoil a mean, and three steps of warm-up."""
    spec = MetricSpec(goal="max", unit="samples/s", warmup="3 steps")
    numbers = [1, 2, 3, 100, 101, 102, 103, 900]
    run = make_run(values("speed", numbers, steps=True), {"speed": spec})
    assert samples(store, run)["speed"] == Sample(
        value=102,
        n=5,
        total=8,
        spread=2,
        unit="samples/s",
        goal="max",
        aggregate="median",
        warmup="3 steps",
    )


@pytest.mark.parametrize(
    ("aggregate", "value"),
    [("median", 3), ("mean", 4), ("last", 7), ("min", 1), ("max", 8), ("p95", 7.6)],
)
def test_aggregates(store: Store, make_run: MakeRun, aggregate: str, value: float) -> None:
    """Each of them, over all values."""
    spec = MetricSpec(aggregate=aggregate, warmup="0 steps")
    run = make_run(values("m", [1, 3, 2, 6, 8, 4, 3, 2, 7]), {"m": spec})
    assert samples(store, run)["m"].value == pytest.approx(value)


@pytest.mark.parametrize(
    ("warmup", "steps", "kept"),
    [
        ("0 steps", True, 10),
        ("1 step", True, 9),
        ("4 steps", False, 6),
        ("4s", False, 6),
        ("500ms", True, 9),
        ("20 steps", True, 0),
        ("1m", True, 0),
    ],
)
def test_the_warmup_is_cut_off(
    store: Store, make_run: MakeRun, warmup: str, steps: bool, kept: int
) -> None:
    """By steps where the log tells them, by values where not, by the clock."""
    spec = MetricSpec(warmup=warmup)
    sample = samples(store, make_run(values("m", range(10), steps), {"m": spec}))["m"]
    assert (sample.n, sample.total) == (kept, 10)
    assert sample.reason == (None if kept else "all values are in the warm-up")


def test_steps_that_are_told_now_and_then_count_as_steps(store: Store, make_run: MakeRun) -> None:
    """A log of every tenth step loses two values to a warm-up of 20 steps."""
    told = [
        replace(m, step=(m.step or 0) * 10)
        for replica in ("worker-0", "worker-1")
        for m in values("m", range(6), steps=True, replica=replica)
    ]
    sample = samples(store, make_run(told, {"m": MetricSpec(warmup="20 steps")}))["m"]
    assert (sample.n, sample.value) == (4, 3.5)


@pytest.mark.parametrize(
    ("count", "steps", "reason"),
    [
        (2, True, None),
        (1, True, "the log has only one step, and the time of a step needs two"),
        (2, False, "the log has no steps: give a metric's regex a group `step`"),
    ],
)
def test_the_time_of_a_step_is_between_two(
    store: Store, make_run: MakeRun, count: int, steps: bool, reason: str | None
) -> None:
    sample = samples(store, make_run(values("m", range(count), steps)))["run.step"]
    assert (sample.value is None, sample.reason) == (reason is not None, reason)


def test_several_values_of_a_step_are_one_step(store: Store, make_run: MakeRun) -> None:
    """A script that logs each micro-batch, ranks without names, or epochs in parts (0.1, 0.2)."""
    told = [replace(m, step=i // 4) for i, m in enumerate(values("m", range(20)))]
    sample = samples(store, make_run(told))["run.step"]
    assert (sample.value, sample.n) == (4, 4)


def test_the_chief_counts_where_it_logs_the_metric(store: Store, make_run: MakeRun) -> None:
    told = values("m", [1, 2, 3], steps=True)
    told += values("m", [10, 20, 30, 40], steps=True, replica="worker-1")
    spec = MetricSpec(warmup="0 steps", aggregate="last")
    sample = samples(store, make_run(told, {"m": spec}))["m"]
    assert (sample.value, sample.n, sample.total) == (3, 3, 3)


def test_without_the_chief_the_replicas_of_a_step_are_one_value(
    store: Store, make_run: MakeRun
) -> None:
    told = values("m", [1, 2, 3], steps=True, replica="worker-1")
    told += values("m", [3, 6, 9], steps=True, replica="worker-2")
    spec = MetricSpec(warmup="0 steps", aggregate="mean")
    sample = samples(store, make_run(told, {"m": spec}))["m"]
    assert (sample.value, sample.n, sample.total) == (4, 3, 3)


def test_auto_finds_the_end_of_a_transient() -> None:
    """And cuts little off where there is none, and never more than half."""
    noise = random.Random(1)
    flat = [100 + noise.gauss(0, 1) for _ in range(200)]
    rising = [100 - 60 * math.exp(-i / 5) + noise.gauss(0, 1) for i in range(200)]
    assert transient(flat) <= 20
    assert 12 <= transient(rising) <= 40
    assert transient([float(i) for i in range(100)]) <= 50
    assert transient([5.0] * 50) == 0
    assert transient([1.0, 9.0, 9.0]) == 0


@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_what_is_not_finite_is_no_data(store: Store, make_run: MakeRun, strange: float) -> None:
    """A diverged loss has no sample, and the reason is told."""
    run = make_run(values("loss", [3, 2, strange, strange]), {"loss": MetricSpec()})
    sample = samples(store, run)["loss"]
    assert (sample.value, sample.reason) == (None, "2 of 4 values are not finite")
    assert sample.diverged is True


def test_a_value_that_is_not_finite_once_has_not_diverged(store: Store, make_run: MakeRun) -> None:
    run = make_run(values("norm", [3, math.inf, 2]), {"norm": MetricSpec()})
    sample = samples(store, run)["norm"]
    assert sample.reason == "1 of 3 values are not finite"
    assert json.loads(msgspec.json.encode(sample)) == {
        **{"value": None, "n": 3, "total": 3, "spread": None, "unit": None, "goal": None},
        **{"aggregate": "median", "warmup": "auto", "reason": "1 of 3 values are not finite"},
    }


def test_a_metric_that_the_log_lacks_is_no_data(store: Store, make_run: MakeRun) -> None:
    """Never zero."""
    sample = samples(store, make_run([], {"loss": MetricSpec(goal="min")}))["loss"]
    assert (sample.value, sample.n, sample.total) == (None, 0, 0)
    assert sample.reason == "the log has no value"


def test_a_curve_has_the_mean_of_each_part_of_the_steps(store: Store, make_run: MakeRun) -> None:
    """And a metric whose values have no step has none."""
    logged = [*values("loss", range(32), steps=True), *values("f1", [1.0])]
    specs = {"loss": MetricSpec(warmup="4 steps"), "f1": MetricSpec()}
    _, curves = samples_and_curves(store, make_run(logged, specs))
    means = [None, None, *(2.0 * n + 0.5 for n in range(2, 16))]
    assert curves == {"loss": Curve(0, 2, means), "f1": None}


def test_what_a_script_logs_undeclared_has_a_sample_too(store: Store, make_run: MakeRun) -> None:
    """What machines tell of themselves has none."""
    told = [*values("accuracy", [1, 1]), *values("node.cpu", [50]), *values("cloud.cpu", [50])]
    found = samples(store, make_run(told))
    assert [name for name in found if not name.startswith("run.")] == ["accuracy"]


def test_phases_of_a_run(store: Store, make_run: MakeRun) -> None:
    """Queued until 2, starting until 5, a first value at 10, a step a second, the end at 40."""
    found = samples(store, make_run(values("loss", range(20), steps=True)))
    assert {n: f.value for n, f in found.items() if n.startswith("run.")} == {
        "run.queue": 2,
        "run.start": 3,
        "run.first_step": 5,
        "run.time": 35,
        "run.total": 40,
        "run.step": 1,
        "run.cost": None,
        "run.goodput": 0.5,
        "run.gradient_bytes": None,
    }
    assert {n for n in found if n.startswith("run.")} == {f"run.{name}" for name in OF_THE_RUN}
    assert [n for n, f in found.items() if f.goal != "min" and n.startswith("run.")] == [
        "run.goodput"
    ]
    assert found["run.goodput"].goal == "max"
    assert found["run.cost"].reason == "your own machines have no price"
    assert found["run.gradient_bytes"].reason == "no gradients were exchanged through reducers"


def test_the_cost_of_a_run_in_a_cloud(store: Store, make_run: MakeRun) -> None:
    """By the catalogue's price of its machines and the 35 seconds that it ran."""
    from rsctl.estimate.catalog.prices import Price, price_of

    pools = [
        {"role": "worker", "count": 4, "machine": "n1-standard-8"},
        {"role": "reducer", "count": 2, "machine": "n1-highcpu-16"},
    ]
    worker, reducer = price_of("vertex", "n1-standard-8"), price_of("vertex", "n1-highcpu-16")
    assert isinstance(worker, Price)
    assert isinstance(reducer, Price)
    hourly = 4 * worker.dollars + 2 * reducer.dollars
    run = make_run([], target="vertex", plan={"pools": pools})
    assert samples(store, run)["run.cost"].value == pytest.approx(hourly * 35 / 3600)
    unknown = [{"role": "worker", "count": 1, "machine": "x9-huge"}]
    run = make_run([], run="job-b", target="vertex", plan={"pools": unknown})
    reason = "the on-demand price of x9-huge is unknown"
    assert samples(store, run)["run.cost"].reason == reason


HUGE = 1.7e308


@pytest.mark.parametrize(
    ("logged", "aggregate", "value"),
    [
        ([HUGE, -HUGE], "median", 0.0),
        ([HUGE, -HUGE], "mean", 0.0),
        ([HUGE, -HUGE], "p95", 0.9 * HUGE),
        ([HUGE, HUGE, -HUGE, HUGE], "mean", HUGE / 2),
        ([HUGE, HUGE, HUGE], "mean", HUGE),
    ],
)
def test_values_near_the_largest_number(
    store: Store, make_run: MakeRun, logged: list[float], aggregate: str, value: float
) -> None:
    spec = MetricSpec(aggregate=aggregate, warmup="0 steps")
    sample = samples(store, make_run(values("loss", logged), {"loss": spec}))["loss"]
    assert sample.value == pytest.approx(value)
    assert sample.spread is None or math.isfinite(sample.spread)
