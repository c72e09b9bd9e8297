"""Fits the constants of the cost model to measured step times, by least squares.

The sum of the squares of predicted / measured - 1 is minimised, one constant after the other within
its bounds, until no one improves it. A change of a constant by its usual error counts as much as an
error of 2 % in one run: so a few runs do not change constants that they cannot determine, and a
constant that affects no measured step does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.exchange import Topology
from rsctl.estimate.advice.profile import Profile
from rsctl.estimate.advice.step import ExchangeSettings, predict

FEWEST_TO_CHECK = 3
"""With as many runs, each is predicted by constants that are fitted to the others."""

_ROUNDS = 12
_GRID = 8
_GOLDEN = 0.6180339887498949
_NARROWINGS = 16
_PULL = 0.02**2
_IMPROVEMENT = 1e-7


class _Constant(NamedTuple):
    """A constant of the model: its bounds, and by how much it is commonly off."""

    name: str
    least: float
    most: float
    common: float


_CONSTANTS = (
    _Constant("bandwidth_fraction", 0.1, 1.02, 0.05),
    _Constant("alpha_seconds", 0.0, 0.02, 0.0005),
    _Constant("ring_cpu_seconds_per_gb", 0.1, 20.0, 0.5),
    _Constant("worker_cpu_seconds_per_gb", 0.1, 20.0, 0.5),
    _Constant("reducer_cpu_seconds_per_gb", 0.1, 20.0, 0.5),
    _Constant("overlap", 0.0, 1.0, 0.1),
)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """A run's measured step, and all by which it is predicted."""

    run: str
    seconds: float
    profile: Profile
    cluster: ModelledCluster
    settings: ExchangeSettings = ExchangeSettings()

    @property
    def topology(self) -> Topology:
        """How its gradients travel."""
        return "pool" if self.cluster.reducers else "ring"

    def predicted(self, calibration: Calibration) -> float:
        """The step by the model, in seconds."""
        made = predict(self.profile, self.cluster, self.topology, calibration, self.settings)
        return made.step_seconds

    def error(self, calibration: Calibration) -> float:
        """predicted / measured - 1."""
        return self.predicted(calibration) / self.seconds - 1


def calibrate(observations: Sequence[Observation], start: Calibration) -> Calibration:
    """The constants that fit best, with their median error. Raises ValueError for no observation.

    The error is the error of predicting each run by the others. It is None with fewer than
    `FEWEST_TO_CHECK` runs: the error of a fit does not show the error of predictions.
    """
    if not observations:
        raise ValueError("there is no run to fit to")
    fitted = _fit(observations, start, start)
    errors: list[float] = []
    if len(observations) >= FEWEST_TO_CHECK:
        errors = [
            one.error(_fit([o for o in observations if o is not one], start, fitted))
            for one in observations
        ]
    return replace(
        fitted,
        fitted_from=tuple(one.run for one in observations),
        median_error=median(map(abs, errors)) if errors else None,
    )


def _fit(
    observations: Sequence[Observation], start: Calibration, begin: Calibration
) -> Calibration:
    """Coordinate descent from `begin`; `start` are the constants that the fit stays close to."""
    best, least = begin, _loss(observations, begin, start)
    for _ in range(_ROUNDS):
        before = least
        for constant in _CONSTANTS:
            value, found = _best_value(observations, best, start, constant)
            if found < least:
                best, least = replace(best, **{constant.name: value}), found
        if before - least < _IMPROVEMENT:
            break
    return best


def _loss(observations: Sequence[Observation], tried: Calibration, start: Calibration) -> float:
    errors = sum(one.error(tried) ** 2 for one in observations)
    moved: list[float] = [
        (getattr(tried, c.name) - getattr(start, c.name)) / c.common for c in _CONSTANTS
    ]
    return errors + _PULL * sum(part * part for part in moved)


def _best_value(
    observations: Sequence[Observation],
    now: Calibration,
    start: Calibration,
    constant: _Constant,
) -> tuple[float, float]:
    """A constant's best value for the present values of the others, and the loss with it."""
    known: dict[float, float] = {}

    def loss(value: float) -> float:
        if value not in known:
            known[value] = _loss(observations, replace(now, **{constant.name: value}), start)
        return known[value]

    _search(loss, constant, getattr(now, constant.name))
    best = min(known, key=known.__getitem__)
    return best, known[best]


def _search(loss: Callable[[float], float], constant: _Constant, now: float) -> None:
    """Try values: a grid and the present value, then golden sections around the best of them."""
    step = (constant.most - constant.least) / _GRID
    tried = [now, *(constant.least + step * i for i in range(_GRID + 1))]
    best = min(tried, key=loss)
    low, high = max(constant.least, best - step), min(constant.most, best + step)
    for _ in range(_NARROWINGS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if loss(left) <= loss(right):
            high = right
        else:
            low = left
