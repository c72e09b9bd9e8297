"""Calibration: what measured steps tell of the model's constants, and what they do not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rsctl.estimate.advice.calibrate import Observation, calibrate
from rsctl.estimate.advice.calibration import UNCALIBRATED, Calibration
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.profile import even_profile

TRUE = replace(UNCALIBRATED, bandwidth_fraction=0.6, alpha_seconds=0.002, overlap=0.9)
MB = 10**6


def observe(truth: Calibration, *shapes: tuple[int, int, float, int]) -> list[Observation]:
    """Steps as the model has them; each shape is workers, reducers, bit/s and bytes."""
    made = [
        Observation(
            run=f"run-{number}",
            seconds=1.0,
            profile=even_profile(size, 0.2),
            cluster=ModelledCluster(
                workers=workers, worker_bits=rate, reducers=reducers, reducer_bits=rate
            ),
        )
        for number, (workers, reducers, rate, size) in enumerate(shapes)
    ]
    return [replace(one, seconds=one.predicted(truth)) for one in made]


SHAPES = (
    *((2, 0, 1e8, 30 * MB), (4, 0, 1e9, 60 * MB), (8, 0, 1e9, MB), (4, 4, 2e8, 25 * MB)),
    *((4, 1, 1e9, 40 * MB), (16, 0, 1e9, 2 * MB)),
)


def test_what_the_runs_depend_on_is_found() -> None:
    fitted = calibrate(observe(TRUE, *SHAPES), UNCALIBRATED)
    assert fitted.bandwidth_fraction == pytest.approx(0.6, rel=0.03)
    assert 0.85 < fitted.overlap < 0.98
    assert fitted.fitted_from == tuple(f"run-{number}" for number in range(6))
    assert fitted.median_error is not None
    assert fitted.median_error < 0.03


def test_what_no_run_depends_on_stays() -> None:
    """A network so slow that no CPU is busy says nothing of what CPUs need."""
    fitted = calibrate(observe(TRUE, *SHAPES), UNCALIBRATED)
    for name in ("ring", "worker", "reducer"):
        constant = f"{name}_cpu_seconds_per_gb"
        assert getattr(fitted, constant) == getattr(UNCALIBRATED, constant)


def test_cpu_is_found_where_cores_are_the_bottleneck() -> None:
    truth = replace(UNCALIBRATED, ring_cpu_seconds_per_gb=4.0)
    made = observe(truth, (4, 0, 1e11, 100 * MB), (4, 0, 1e11, 200 * MB), (2, 0, 1e11, 50 * MB))
    assert calibrate(made, UNCALIBRATED).ring_cpu_seconds_per_gb == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize(("role", "reducers"), [("ring", 0), ("worker", 8)])
def test_a_constant_stays_within_its_bounds(role: str, reducers: int) -> None:
    truth = replace(UNCALIBRATED, **{f"{role}_cpu_seconds_per_gb": 40.0})
    made = observe(truth, *[(4, reducers, 1e12, 40 * MB)] * 6)
    fitted = calibrate(made, UNCALIBRATED)
    assert getattr(fitted, f"{role}_cpu_seconds_per_gb") == pytest.approx(20.0, abs=0.01)


def test_the_error_is_that_of_runs_that_were_not_fitted() -> None:
    """One run of three is twice as slow: fitted to the others, it is missed by half."""
    one, two, odd = observe(UNCALIBRATED, *[(4, 0, 1e8, 30 * MB)] * 3)
    fitted = calibrate([one, two, replace(odd, seconds=2 * odd.seconds)], UNCALIBRATED)
    errors = [abs(each.error(fitted)) for each in (one, two)]
    assert fitted.median_error is not None
    assert fitted.median_error > max(errors)


def test_one_run_is_enough_and_none_is_not() -> None:
    (one,) = observe(TRUE, SHAPES[0])
    fitted = calibrate([one], UNCALIBRATED)
    assert abs(one.error(fitted)) < abs(one.error(UNCALIBRATED)) / 5
    assert fitted.median_error is None  # nothing was predicted that was not fitted to
    assert fitted.error == UNCALIBRATED.error
    with pytest.raises(ValueError, match="no run"):
        calibrate([], UNCALIBRATED)
