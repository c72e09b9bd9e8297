"""The scores by which a test compares two sides: means, ranks, and means without the lowest runs.

A score depends on the values of both sides together and never on which run is of which side, so
that a test which exchanges runs is exact. Higher values are better: runs far below the others are
those that something has slowed down.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from rsctl.bench.sides import Sides

OUTLYING = 4.0
"""How many times farther than usual below the median of both sides a run is an outlier."""

GAP = 4.0
"""How many times the usual gap between neighbouring values sets the lowest runs apart."""

ROUNDING = 1e-12
"""The part of the largest value below which values do not differ."""

_TOLERANCE = 1e-9
_FEWEST = 4
"""Runs of the smaller side from which low runs can be left out."""

_RANKS, _WITHOUT_LOWEST = (0.05, 0.3), (0.36, 0.47)
"""Deductions of scores with fewer than five runs on the smaller side, and with more."""


class Scores(NamedTuple):
    """One score for each value, and the deduction from their statistic, in standard deviations.

    Deductions keep the power of the first scores, the means, where there are no outliers; they are
    chosen by simulation (`python -m benchmarks.gate`).
    """

    values: Sequence[float]
    deduction: float


def all_scores(sides: Sides) -> list[Scores]:
    """The scores of the values of a baseline, followed by the values of a candidate."""
    pool, smaller = [*sides.baseline, *sides.candidate], min(map(len, sides))
    kept = winsorised(sides)
    number = smaller > _FEWEST
    found = [
        Scores([*kept.baseline, *kept.candidate], 0.0),
        Scores(_ranks(pool), _RANKS[number]),
    ]
    if smaller >= _FEWEST:
        without = _without_lowest(pool, smaller)
        found += [Scores(values, _WITHOUT_LOWEST[number]) for values in without]
    return found


def winsorised(sides: Sides) -> Sides:
    """Both sides, with each low outlier replaced by the nearest value that is not an outlier.

    The usual distance from the common median is one that more runs reach than the smaller side
    has, so that a side which differs as a whole is never taken for outliers. High values are never
    replaced: beside slow runs of the same side they may be all that tells the sides apart.
    """
    pool = [*sides.baseline, *sides.candidate]
    middle = median(pool)
    distances = [abs(value - middle) for value in pool]
    usual = sorted(distances)[-min(map(len, sides))]
    limit = OUTLYING * usual * (1 + _TOLERANCE)
    if not limit:
        return sides
    low = min(value for value in pool if middle - value <= limit)
    return Sides(*([max(value, low) for value in side] for side in sides))


def several_apart(blocks: Sequence[Sides]) -> int:
    """How many runs of the first side are far below the others, where they are several more than
    the second side has in proportion; otherwise 0.

    They are the runs that the scores replace or leave out.
    """
    sides = Sides(*([value for block in blocks for value in block[side]] for side in (0, 1)))
    size = max(abs(value) for side in sides for value in side) or 1.0
    sides = Sides(*([value / size for value in side] for side in sides))
    found = 0
    for lowest in _lowest_kept(sides):
        apart, like = (sum(value < lowest for value in side) for side in sides)
        if apart > 1 + like * len(sides[0]) / len(sides[1]):
            found = max(found, apart)
    return found


def _lowest_kept(sides: Sides) -> Iterator[float]:
    """The lowest value that is not set apart, by each of the scores that sets lower ones apart."""
    yield min(map(min, winsorised(sides)))
    smaller = min(map(len, sides))
    if smaller >= _FEWEST:
        ordered = sorted([*sides.baseline, *sides.candidate])
        yield from (ordered[count] for count in _counts_apart(ordered, smaller))


def _ranks(pool: Sequence[float]) -> list[float]:
    """Twice the rank of each value, the mean of ranks where values are equal but for rounding."""
    ordered, near = sorted(pool), ROUNDING * max(map(abs, pool))
    return [float(bisect_left(ordered, v - near) + bisect_right(ordered, v + near)) for v in pool]


def _without_lowest(pool: Sequence[float], smaller: int) -> Iterator[list[float]]:
    """The values, the lowest at the mean of the others: they speak for neither side.

    One list for each gap below which there are fewer values than the smaller side has.
    """
    ordered = sorted(pool)
    for count in _counts_apart(ordered, smaller):
        others = fmean(ordered[count:])
        yield [others if value < ordered[count] else value for value in pool]


def _counts_apart(ordered: Sequence[float], smaller: int) -> list[int]:
    """How many of the lowest values are below a wide gap, for each such gap."""
    gaps = [high - low for low, high in pairwise(ordered)]
    widest = GAP * median(gaps) * (1 + _TOLERANCE) + _TOLERANCE * max(map(abs, ordered))
    return [count for count, gap in enumerate(gaps[: smaller - 1], 1) if gap > widest]
