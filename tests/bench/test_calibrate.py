"""Calibration: the floor that a job's noise allows, and whether it keeps what it promises."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.gate import NOISES
from rsctl.bench.calibrate import MetricNoise, calibrate
from rsctl.bench.results import Results, Series
from rsctl.bench.stats import CellSides
from rsctl.bench.verdict import Floor, Verdict, decide, weigh


def calibrated(*cells: list[float], repeat: int = 5) -> MetricNoise:
    """The calibration of one metric by the runs of its cells."""
    series = [
        Series(name="throughput", goal="max", cell={"n": n}, values=list(values))
        for n, values in enumerate(cells)
    ]
    return calibrate(Results(label="bench", kind="bench", series=series), ["throughput"], repeat)[0]


def test_steady_runs() -> None:
    found = calibrated([100.0, 101.0, 99.0, 100.5, 99.5])
    assert found == MetricNoise(
        metric="throughput",
        runs=5,
        noise=pytest.approx(0.0079, abs=1e-4),
        measured=0.02,
        floor=0.035,
        passes=1.0,
        repeat=5,
    )


def test_equal_runs_get_the_smallest_floor() -> None:
    assert calibrated([100.0] * 5).allowed == "0.5%"


@pytest.mark.parametrize(
    ("draw", "size"), [("normal", 0.03), ("lognormal", 0.08), ("bimodal", 0.05)]
)
def test_the_floor_keeps_its_promise_in_nine_of_ten_calibrations(
    monkeypatch: pytest.MonkeyPatch, draw: str, size: float
) -> None:
    monkeypatch.setattr("rsctl.bench.calibrate._TRIALS", 50)
    random = Random(1)
    noise = NOISES[draw](size)
    pairs = [CellSides(noise(random, 5), noise(random, 5)) for _ in range(300)]
    floors = sorted(calibrated(noise(random, 10)).floor or 1.0 for _ in range(10))
    floor = Floor(floors[1])  # where it passes often enough, so does each larger one
    verdicts = [decide(e, e.p, floor) for e in (weigh([pair], floor) for pair in pairs)]
    assert verdicts.count(Verdict.PASS) >= 0.88 * len(verdicts)


def test_outliers_get_no_floor() -> None:
    found = calibrated([100.0, 101.0, 99.0, 33.0, 100.5, 34.5, 35.0, 34.0, 100.2, 99.9])
    assert (found.floor, found.allowed) == (None, None)
    assert found.reason is not None
    assert found.reason.endswith(
        ", and a gate with more than 20 % finds little: 4 of 10 runs are outliers (33, 34.5, "
        "35); remove the cause of the noise, or increase the number of runs"
    )


def test_slow_runs_of_a_time_are_set_apart_as_those_of_a_rate() -> None:
    """One of twenty runs took three times as long."""
    rates = [100.0, 101.0, 99.0, 100.5, 99.5, 33.0, *[100.2, 99.8, 100.7, 99.3, 100.1] * 2]
    rates += [99.9, 100.4, 99.6, 100.3]
    times = Series(name="seconds", goal="min", values=[100 / value for value in rates])
    results = Results(label="bench", kind="bench", series=[times])
    [found] = calibrate(results, ["seconds"], 5)
    assert calibrated(rates).floor == pytest.approx(0.02, abs=0.01)
    assert found.floor == pytest.approx(calibrated(rates).floor, abs=0.005)


def test_large_noise_gets_no_floor() -> None:
    found = calibrated([100.0, 60.0, 140.0, 80.0, 120.0])
    assert found.floor is None
    assert found.reason is not None
    assert "the noise is 32 % of a run in all 5 runs" in found.reason


def test_two_runs_a_side_can_pass_at_no_floor() -> None:
    assert calibrated([100.0, 101.0, 99.0], repeat=2).reason == (
        "no limit passes with 2 runs per side: increase the number of runs"
    )
