"""The floor that a job's own noise allows: from identical repetitions, by the gate's own rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import Optional

import msgspec

from rsctl.bench.results import Results
from rsctl.bench.stats import Stratum, noise
from rsctl.bench.verdict import ALPHA, Floor, Verdict, adjusted, decide, weigh, worst

TARGET = 0.9
"""An unchanged program passes in so many of all cases at the floor that is proposed."""

_TRIALS = 200
_STEP = 0.005
_LARGEST = 0.9
_SEED = 1


class Calibration(msgspec.Struct, kw_only=True):
    """The noise of one metric and the floor for it; None where `reason` says why not.

    `runs` is the least number of runs in a cell. At `floor`, `passes` is the part of unchanged
    programs that the gate passes with `repeat` runs a side.
    """

    metric: str
    runs: int
    noise: Optional[float] = None
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


def calibrate(results: Results, names: Sequence[str], repeat: int) -> list[Calibration]:
    """The floors of some metrics of identical runs, for gates with `repeat` runs a side."""
    return [_calibrate(results, name, repeat) for name in names]


def _calibrate(results: Results, name: str, repeat: int) -> Calibration:
    cells = [series for series in results.series if series.name == name]
    runs = min((len(series.known) for series in cells), default=0)
    found = Calibration(metric=name, runs=runs, repeat=repeat)
    lacking = [s for s in cells if len(s.known) < len(s.values)]
    if not cells or lacking:
        reasons = [reason for series in lacking for reason in series.reasons]
        found.reason = "; ".join(["some runs have no data", *reasons[:3]])
        return found
    found.noise = noise([series.known for series in cells])
    if found.noise is None or runs < 3:
        found.reason = "the noise cannot be known from fewer than 3 runs a cell, nor of zeros"
        return found
    floors = (round(_STEP * i, 6) for i in range(1, round(_LARGEST / _STEP)))
    deviations = _deviations([series.known for series in cells])
    for floor in floors:
        passes = _passes(deviations, len(cells), repeat, floor)
        if passes >= TARGET:
            found.floor, found.passes = floor, passes
            return found
    found.reason = f"no floor passes with {repeat} runs a side: repeat more often"
    return found


def _deviations(cells: Sequence[Sequence[float]]) -> list[float]:
    """Relative deviations of the runs from their cell's mean, widened for their small number."""
    return [
        (value / fmean(values) - 1) * math.sqrt(len(values) / (len(values) - 1))
        for values in cells
        if fmean(values)
        for value in values
    ]


def _passes(deviations: Sequence[float], cells: int, repeat: int, floor: float) -> float:
    """How often a gate of unchanged cells passes, with noise drawn from the deviations."""
    random = Random(_SEED)  # noqa: S311 - statistics
    passed = sum(_trial(deviations, cells, repeat, Floor(floor), random) for _ in range(_TRIALS))
    return passed / _TRIALS


def _trial(
    deviations: Sequence[float], cells: int, repeat: int, floor: Floor, random: Random
) -> bool:
    def side() -> list[float]:
        return [1 + deviation for deviation in random.choices(deviations, k=repeat)]

    strata = [Stratum(side(), side()) for _ in range(cells)]
    evidence = [weigh([stratum], floor) for stratum in strata]
    levels, _ = adjusted([found.p for found in evidence], [])
    verdicts = [
        decide(found, level, floor, ALPHA) for found, level in zip(evidence, levels, strict=True)
    ]
    return worst(verdicts) is Verdict.PASS
