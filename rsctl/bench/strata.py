"""Exact tests of runs on machines of different generations: only equal machines are compared.

A cloud's machine type has several generations of processors. If both sides have runs on the same
generations, in other proportions, a comparison of all runs finds the machines instead of the
change. Here a stratum has the runs of both sides on one kind of machine. An exchange exchanges runs
within strata only, so that the test is exact for all machines, and an effect is the median of
all differences within strata.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Optional

from rsctl.bench.exchanges import p_within
from rsctl.bench.sides import Sides
from rsctl.bench.stats import CellSides, by_baseline, interval_of

Machines = Sequence[Optional[str]]
"""The machine of each repetition of one side; None if it is unknown."""


def strata_of(cell: CellSides, baseline: Machines, candidate: Machines) -> list[Sides]:
    """The known values by machine, for the machines that both sides have."""
    before = _by_machine(cell.baseline, baseline)
    after = _by_machine(cell.candidate, candidate)
    return [Sides(before[name], after[name]) for name in before if name in after]


def stratified_effect(strata: Sequence[Sides], is_relative: bool) -> float | None:
    """The median of all differences within strata; a part of the stratum's baseline if relative.

    None without values, or if a baseline is zero.
    """
    differences = _differences(strata, is_relative)
    if not differences or not all(map(math.isfinite, differences)):
        return None
    return median(differences)


def stratified_interval(strata: Sequence[Sides], is_relative: bool) -> tuple[float, float] | None:
    """The 90 % interval of the effect, as `rsctl.bench.stats.interval` has it for one machine.

    Without a change the number of positive differences is the sum of one U of each stratum.
    """
    return interval_of(_differences(strata, is_relative), strata)


def stratified_p(strata: Sequence[Sides], level: float = 1.0) -> float:
    """One-sided p of the candidate being lower: exact, by exchanges within strata.

    Each value is divided by its stratum's mean.
    """
    return p_within(blocks_of_strata(strata), level)


def blocks_of_strata(strata: Sequence[Sides]) -> list[Sides]:
    """The values that a test exchanges within their stratum."""
    return [_scaled(sides) for sides in strata if all(sides)]


def smallest_stratified_p(strata: Sequence[Sides]) -> float:
    """The least p that so many runs can reach: one exchange out of all."""
    return 1 / math.prod(
        math.comb(len(s.baseline) + len(s.candidate), len(s.candidate)) for s in strata
    )


def stratified_groups(strata: Sequence[Sides], is_relative: bool) -> list[Sequence[float]]:
    """Each side of each stratum, in the unit of the effect: what varies within is noise."""
    sizes = [by_baseline(sides) if is_relative else 1.0 for sides in strata]
    return [
        [value / size for value in side]
        for sides, size in zip(strata, sizes, strict=True)
        for side in sides
        if size
    ]


def _by_machine(values: Sequence[Optional[float]], machines: Machines) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for value, machine in zip(values, machines, strict=False):
        if value is not None and machine is not None:
            found.setdefault(machine, []).append(value)
    return found


def _differences(strata: Sequence[Sides], is_relative: bool) -> list[float]:
    found = []
    for sides in strata:
        size = by_baseline(sides) if is_relative else 1.0
        for after in sides.candidate:
            found += [(after - before) / size if size else math.inf for before in sides.baseline]
    return found


def _scaled(sides: Sides) -> Sides:
    """Both sides by the size of their common mean, which no exchange changes."""
    pool = [*sides.baseline, *sides.candidate]
    largest = max(map(abs, pool)) or 1.0
    size = abs(math.fsum(value / largest for value in pool) / len(pool)) * largest or largest
    return Sides(*([value / size for value in side] for side in sides))
