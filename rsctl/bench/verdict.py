"""The rule of the gate: which verdict the runs of a baseline and of a candidate allow.

- **regressed**: the effect, by the median of all pairs of runs, is worse than the allowed floor;
  and an exact one-sided permutation test finds the difference (p <= alpha, adjusted for the number
  of checks).
- **pass**: the effect is not beyond the floor; the same test, against a baseline moved to the
  floor, excludes a regression beyond it; and of the slow runs that it sets aside, the candidate has
  at most one more than the baseline.
- **inconclusive**: neither. Too few runs for this noise.
- **no-data**: there is nothing to decide by.

With a confirmation, a check whose effect is beyond the floor is repeated. It has regressed if the
fresh runs alone are beyond the floor too, and all runs together are significant at a fifth of
alpha. Without a change a gate fails in at most alpha of all cases, with a confirmation in at most a
fifth of it, for any number of checks and any distribution of the noise. The condition is that
repetitions of both sides are exchangeable where nothing has changed: a machine that slows down
between the two sides breaks it, a disturbance that all cells of a repetition share does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from statistics import median
from typing import NamedTuple, Optional

import msgspec

from rsctl.bench.exchanges import p_within
from rsctl.bench.scores import ROUNDING, several_apart
from rsctl.bench.sides import Sides
from rsctl.bench.stats import CellSides, by_both, combine, effect, holm, p_lower
from rsctl.bench.strata import (
    blocks_of_strata,
    smallest_stratified_p,
    stratified_effect,
    stratified_p,
)

ALPHA = 0.05
CONFIRMED = 0.2
"""The part of alpha that a confirmed regression has to reach."""

_TOLERANCE = 1e-9
_ACROSS_PART = 0.1
"""The least part of alpha for the checks across all cells."""


class Verdict(str, Enum):
    """The possible results of a gate."""

    PASS = "pass"  # noqa: S105
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NO_DATA = "no-data"


WORST_FIRST = (Verdict.REGRESSED, Verdict.NO_DATA, Verdict.INCONCLUSIVE, Verdict.PASS)


class Floor(msgspec.Struct, frozen=True):
    """The largest regression that is allowed: a part of the baseline, or an amount of the unit."""

    amount: float
    is_relative: bool = True

    def __str__(self) -> str:
        return f"{100 * self.amount:g} %" if self.is_relative else f"{self.amount:g}"


class Evidence(NamedTuple):
    """The result of one check's runs. A lower effect is worse, for each goal of a metric.

    `p` is small if the candidate is worse, `p_excluded` if it is not worse by the floor. `apart` is
    how many runs of the candidate are far worse than the others, if they prevent a pass.
    """

    effect: Optional[float]
    p: float
    p_excluded: float
    apart: int = 0

    def is_beyond(self, floor: Floor) -> bool:
        """Whether the effect is worse than the floor; a rounding error is not."""
        return self.effect is not None and self.effect < -floor.amount * (1 + _TOLERANCE)


NO_EVIDENCE = Evidence(None, 1.0, 1.0)
"""The result without runs, or for a percentage of zero."""


def oriented(values: Sequence[Optional[float]], goal: str) -> list[Optional[float]]:
    """The values with a sign by which higher is better. `goal` is `min` or `max`."""
    return [value if goal == "max" or value is None else -value for value in values]


def weigh(cells: Sequence[CellSides], floor: Floor, level: float = 1.0) -> Evidence:
    """The evidence in one oriented cell, or in several by the means of their repetitions.

    p is fine enough to be compared with `level`.
    """
    measured = effect(cells, floor.is_relative)
    if measured is None:
        return NO_EVIDENCE
    p = p_lower(combine(cells, test_scale(floor)), level)
    return evidence_of(measured, p, [_moved(cells, floor)])


def p_excluded(cells: Sequence[CellSides], floor: Floor) -> float:
    """One-sided p of the candidate being better than the baseline at the floor."""
    return evidence_of(None, 1.0, [_moved(cells, floor)]).p_excluded


def evidence_of(effect: Optional[float], p: float, moved: Sequence[Sides]) -> Evidence:
    """The evidence with `p_excluded`: of blocks with the candidate, then the baseline at the floor.

    It is 1 if several runs of the candidate are far worse than the others: the test sets such runs
    apart, whose number the baseline does not explain. Where all runs of a block are equal, each is
    exactly at the floor, which is allowed: it is the least p that so many runs can reach.
    """
    blocks = [block for block in moved if all(block)]
    ends = [(min(map(min, block)), max(map(max, block))) for block in blocks]
    is_equal = all(math.isclose(*each, rel_tol=ROUNDING) for each in ends)
    excluded = smallest_stratified_p(blocks) if is_equal else p_within(blocks)
    apart = several_apart(moved) if excluded < 1 else 0
    return Evidence(effect, p, 1.0 if apart else excluded, apart)


def _moved(cells: Sequence[CellSides], floor: Floor) -> Sides:
    moved = [
        CellSides(cell.candidate, at_floor(cell.baseline, cell.known, floor)) for cell in cells
    ]
    return combine(moved, test_scale(floor))


def test_scale(floor: Floor) -> Callable[[Sides], float] | None:
    """By what a test divides the values of a cell; None for an amount."""
    return by_both if floor.is_relative else None


def weigh_strata(strata: Sequence[Sides], floor: Floor, level: float = 1.0) -> Evidence:
    """The evidence in one oriented cell whose runs are on machines of several kinds."""
    measured = stratified_effect(strata, floor.is_relative)
    if measured is None:
        return NO_EVIDENCE
    moved = [
        Sides(
            sides.candidate,
            CellSides(at_floor(sides.baseline, sides, floor), ()).known.baseline,
        )
        for sides in strata
    ]
    return evidence_of(measured, stratified_p(strata, level), blocks_of_strata(moved))


def adjusted(
    cells: Sequence[float], across: Sequence[float], smallest: float, alpha: float = ALPHA
) -> tuple[list[float], list[float]]:
    """p of checks of single cells, and of checks across all cells, to compare with one alpha.

    Both kinds have a part of alpha of their own, and are adjusted for their number by Holm.
    """
    part = across_part(len(cells), len(across), smallest, alpha)
    return _share_out(holm(cells), 1 - part), _share_out(holm(across), part)


def shares(cells: int, across: int, smallest: float, alpha: float = ALPHA) -> tuple[float, float]:
    """The alpha that the most significant of so many checks of either kind must reach."""
    part = across_part(cells, across, smallest, alpha)
    return alpha * (1 - part) / max(1, cells), alpha * part / max(1, across)


def across_part(cells: int, across: int, smallest: float, alpha: float = ALPHA) -> float:
    """The part of alpha that the checks across all cells have.

    `smallest` is the least p that the number of repetitions can reach. It decides, and no measured
    value does, so that the bounds of the rule hold. With few repetitions one kind of check can
    reach alpha and not both: then the single cells have all of it, if they can.
    """
    if not across:
        return 0.0
    part = max(_ACROSS_PART, across * smallest / alpha * (1 + 1e-9))
    if cells * smallest <= alpha * (1 - part):
        return part
    return 0.0 if cells * smallest <= alpha else 1.0


def decide(evidence: Evidence, p_adjusted: float, floor: Floor, alpha: float = ALPHA) -> Verdict:
    """The verdict of one check without a confirmation."""
    if evidence.is_beyond(floor) and p_adjusted <= alpha:
        return Verdict.REGRESSED
    return _pass_if_excluded(evidence, floor, alpha)


def decide_confirmed(
    fresh: Evidence, pooled: Evidence, p_adjusted: float, floor: Floor, alpha: float = ALPHA
) -> Verdict:
    """The verdict of a suspected check after its confirmation.

    `fresh` is of the fresh runs alone, `pooled` of all, and `p_adjusted` is of `pooled`.
    """
    is_significant = p_adjusted <= alpha * CONFIRMED
    if fresh.is_beyond(floor) and pooled.is_beyond(floor) and is_significant:
        return Verdict.REGRESSED
    return _pass_if_excluded(pooled, floor, alpha)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a gate from those of its checks; without any there is no data."""
    return min(verdicts, key=WORST_FIRST.index, default=Verdict.NO_DATA)


def _pass_if_excluded(evidence: Evidence, floor: Floor, alpha: float) -> Verdict:
    is_within = evidence.effect is not None and not evidence.is_beyond(floor)
    is_excluded = is_within and evidence.p_excluded <= alpha
    return Verdict.PASS if is_excluded else Verdict.INCONCLUSIVE


def _share_out(values: Sequence[float], part: float) -> list[float]:
    return [min(1.0, p / part) if part else 1.0 for p in values]


def at_floor(
    baseline: Sequence[Optional[float]], known: Sides, floor: Floor
) -> list[Optional[float]]:
    """The values of a baseline as they would be, were they worse by the floor."""
    if not floor.is_relative:
        return [None if value is None else value - floor.amount for value in baseline]
    factor = 1 - floor.amount if median(known.baseline) > 0 else 1 + floor.amount
    return [None if value is None else value * factor for value in baseline]
