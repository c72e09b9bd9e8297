"""The floor that a job's own noise allows: from identical repetitions, by the gate's own rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import NormalDist, median
from typing import Optional

import msgspec

from rsctl.bench.results import Results
from rsctl.bench.scores import OUTLYING
from rsctl.bench.stats import CellSides, mean, noise, smallest_p
from rsctl.bench.verdict import ALPHA, Floor, p_excluded
from rsctl.job.gate_checks import metric_of

TARGET = 0.9
"""An unchanged program passes in so many of all cases at the floor that is proposed."""

CONFIDENCE = 0.9
"""The proposed floor keeps `TARGET` in so many of all calibrations: few runs may look calm."""

LARGEST = 0.2
"""A floor beyond this hides what a gate is for, and is not proposed."""

_TRIALS = 200
_STEP = 0.005
_HALVINGS = 10
_SEED = 1


class MetricNoise(msgspec.Struct, kw_only=True):
    """The noise of one metric and the floor for it; None if `reason` says why not.

    `runs` is the least number of runs in a cell. `measured` is the floor at which an unchanged
    program passes in 90 % of cases, if the noise is what these runs show. `floor` is larger: with
    so few runs the noise may be larger too, and 9 of 10 such floors keep that promise. `passes`
    is how often these runs, drawn with replacement, pass at `floor` with `repeat` runs a side.
    """

    metric: str
    runs: int
    noise: Optional[float] = None
    measured: Optional[float] = None
    floor: Optional[float] = None
    passes: Optional[float] = None
    repeat: int = 0
    reason: Optional[str] = None

    @property
    def allowed(self) -> str | None:
        """The floor as `gate.max_regression` of a job file has it, such as `2.5%`."""
        return None if self.floor is None else f"{100 * self.floor:g}%"


def judgeable(results: Results) -> list[str]:
    """The job's own metrics that have a goal."""
    names = dict.fromkeys(series.name for series in results.series if series.goal)
    return [name for name in names if not name.startswith("run.")]


def calibrate(results: Results, names: Sequence[str], repeat: int) -> list[MetricNoise]:
    """The floors of some metrics of identical runs, for gates with `repeat` runs a side."""
    return [_calibrate(results, name, repeat) for name in names]


def _calibrate(results: Results, name: str, repeat: int) -> MetricNoise:
    cells = [s for s in results.series if s.name == name]
    cells = cells or [s.as_curve() for s in results.series if s.name == metric_of(name)]
    runs = min((len(series.known) for series in cells), default=0)
    found = MetricNoise(metric=name, runs=runs, repeat=repeat)
    lacking = [s for s in cells if len(s.known) < len(s.values)]
    if not cells or lacking:
        reasons = [reason for series in lacking for reason in series.reasons]
        found.reason = "; ".join(["some runs have no data", *reasons[:3]])
        return found
    values = [group for series in cells for group in series.groups]
    found.noise = noise(values)
    if found.noise is None or runs < 3:
        found.reason = (
            "the noise cannot be determined from fewer than 3 runs per cell, or from zeros"
        )
        return found
    if smallest_p((repeat, repeat)) > ALPHA:
        found.reason = f"no limit passes with {repeat} runs per side: increase the number of runs"
        return found
    sign = -1 if cells[0].goal == "min" else 1
    _propose(found, values, sum(len(series.known) - 1 for series in cells), sign)
    return found


def _propose(found: MetricNoise, cells: Sequence[Sequence[float]], degrees: int, sign: int) -> None:
    """Set the floor, or say why there is none. The parts of a curve are as cells.

    `sign` makes higher values better, because the test sets only low ones apart.
    """
    runs = [sign * (1 + deviation) for deviation in _deviations(cells)]
    floors = _smallest_floors(runs, len(cells), found.repeat)
    measured = floors[math.ceil(TARGET * len(floors)) - 1]
    found.measured = _round_up(measured)
    floor = _round_up(measured * _margin(degrees))
    if floor > LARGEST:
        found.reason = (
            f"the limit would have to be {100 * floor:g} %, and a gate with more than "
            f"{100 * LARGEST:g} % finds little: {_noise_in_words(cells)}; remove the cause of "
            "the noise, or increase the number of runs"
        )
        return
    found.floor = floor
    found.passes = sum(one <= floor for one in floors) / len(floors)


def _noise_in_words(cells: Sequence[Sequence[float]]) -> str:
    """A description of the noise: outliers, or its size."""
    outliers = [value for values in cells for value in _outliers(values)]
    total = sum(map(len, cells))
    if outliers:
        values = ", ".join(f"{value:.4g}" for value in outliers[:3])
        return f"{len(outliers)} of {total} runs are outliers ({values})"
    return f"the noise is {100 * (noise(cells) or 0):.2g} % of a run in all {total} runs"


def _outliers(values: Sequence[float]) -> list[float]:
    middle = median(values)
    usual = median(abs(value - middle) for value in values)
    return [value for value in values if usual and abs(value - middle) > OUTLYING * usual]


def _margin(degrees: int) -> float:
    """By how much the noise may be larger than measured, at the level `CONFIDENCE`.

    sqrt(degrees / chi-squared quantile), by Wilson and Hilferty's approximation (1931).
    """
    part = 2 / (9 * degrees)
    quantile = (1 - part + NormalDist().inv_cdf(1 - CONFIDENCE) * math.sqrt(part)) ** 3
    return 1 / math.sqrt(quantile)


def _deviations(cells: Sequence[Sequence[float]]) -> list[float]:
    """Relative deviations of the runs from their cell's mean, widened for their small number."""
    return [
        (value / mean(values) - 1) * math.sqrt(len(values) / (len(values) - 1))
        for values in cells
        if mean(values)
        for value in values
    ]


def _smallest_floors(runs: Sequence[float], cells: int, repeat: int) -> list[float]:
    """Sorted: the smallest floor at which a gate of unchanged cells passes, draw by draw."""
    random = Random(_SEED)  # noqa: S311 - statistics

    def side() -> list[float]:
        return random.choices(runs, k=repeat)

    return sorted(
        max(_smallest_floor(CellSides(side(), side())) for _ in range(cells))
        for _ in range(_TRIALS)
    )


def _smallest_floor(cell: CellSides) -> float:
    """By halving the range: a larger floor passes where a smaller one does."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if p_excluded([cell], Floor(middle)) <= ALPHA:
            high = middle
        else:
            low = middle
    return high


def _round_up(floor: float) -> float:
    return round(math.ceil(round(floor / _STEP, 6)) * _STEP, 6) or _STEP
