"""Exact tests, intervals and effects of two sides, and what a number of runs can detect.

The unit is a run: one value per run, never one per step, since the steps of a run correlate. A
matrix has several cells; the cells of one repetition share the disturbances of their hour, so that
`combine` makes one value per repetition of them. Everything here is pure and, for the same
values, gives the same result: draws come from a seeded generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from itertools import zip_longest
from statistics import NormalDist, median
from statistics import fmean as _fmean
from statistics import stdev as _stdev
from typing import NamedTuple, Optional

from rsctl.bench.exchanges import p_within
from rsctl.bench.sides import Sides

LEVEL = 0.90
"""The level of intervals: each of their ends is a one-sided bound of 95 %."""

_TOLERANCE = 1e-9
_POWER = 0.8
_ROWS, _COLUMNS, _ITERATIONS = 512, 5, 60
_FEW = 1_000
"""Exchanges below alpha up to which their number matters."""

_NORMAL = NormalDist()


class CellSides(NamedTuple):
    """One cell of a matrix: one value per repetition, None if the run has no data."""

    baseline: Sequence[Optional[float]]
    candidate: Sequence[Optional[float]]

    @property
    def known(self) -> Sides:
        """The values that exist."""
        return Sides(*([value for value in side if value is not None] for side in self))


def mean(values: Sequence[float]) -> float:
    """The mean; also of values whose sum a float cannot hold."""
    size = _size(values)
    return _fmean(value / size for value in values) * size


def combine(cells: Sequence[CellSides], scale: Callable[[Sides], float] | None) -> Sides:
    """One value per repetition: the mean over the cells, each divided by its own `scale`.

    Only repetitions in which every cell has a value count, unless there is one cell only. The
    value is not finite where a scale is zero.
    """
    if len(cells) == 1:
        return _scaled(cells[0].known, scale)
    scales = [scale(cell.known) if scale else 1.0 for cell in cells]
    sides = []
    for side in (0, 1):
        rows = zip_longest(*(cell[side] for cell in cells))
        sides.append([mean_of_row(row, scales) for row in rows if None not in row])
    return Sides(*sides)


def by_baseline(sides: Sides) -> float:
    """A scale for effects: the size of the baseline's median."""
    return abs(median(sides.baseline))


def by_both(sides: Sides) -> float:
    """A scale for tests: the size of the mean of both sides together; 1 where that is zero.

    A scale that knew which side is which would favour one exchange over the others.
    """
    return abs(mean([*sides.baseline, *sides.candidate])) or 1.0


def change(sides: Sides) -> float | None:
    """The median of all differences of two runs, one of each side (Hodges and Lehmann 1963).

    Negative if the candidate is lower. An outlier moves it less than it moves the mean. None
    without values, or where it is not finite.
    """
    differences = _differences(sides)
    if not differences:
        return None
    middle = median(differences)
    return middle if math.isfinite(middle) else None


def effect(cells: Sequence[CellSides], is_relative: bool = True) -> float | None:
    """The change over all cells, relative to the medians of the baselines or as an amount.

    A decrease is negative for values of either sign. None if a median is zero.
    """
    return change(_for_effect(cells, is_relative))


def interval(cells: Sequence[CellSides], is_relative: bool = True) -> tuple[float, float] | None:
    """The 90 % interval of `effect`; None if the number of runs cannot give one.

    Its ends are two of the ordered differences of two runs, chosen by the exact distribution of
    Mann and Whitney's U, so that it covers at least 90 % for any noise, if the sides differ by a
    shift. 3+3 runs are the fewest of equal numbers.
    """
    sides = _for_effect(cells, is_relative)
    return interval_of(_differences(sides), [sides])


def interval_of(
    differences: Sequence[float], blocks: Sequence[Sides]
) -> tuple[float, float] | None:
    """The 90 % interval of the median of the differences within blocks, exchanged only there.

    The number of positive differences is then the sum of one U of each block.
    """
    left_out = _left_out(tuple(sorted((len(b.baseline), len(b.candidate)) for b in blocks)))
    if left_out is None or not all(map(math.isfinite, differences)):
        return None
    ordered = sorted(differences)
    return ordered[left_out], ordered[-1 - left_out]


def p_lower(sides: Sides, level: float = 1.0) -> float:
    """One-sided p of the candidate being lower: an exact test, see `rsctl.bench.exchanges`."""
    return p_within([sides], level)


def p_two_sided(sides: Sides) -> float:
    """Twice the smaller of the two one-sided p, at most 1."""
    return min(1.0, 2 * min(p_lower(sides), p_lower(Sides(sides.candidate, sides.baseline))))


def smallest_p(runs: tuple[int, int]) -> float:
    """The least one-sided p that a number of runs can reach: one exchange out of all."""
    return 1 / math.comb(sum(runs), runs[1])


def holm(values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number (Holm 1979), in the order given."""
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = highest
    return adjusted


def noise(groups: Sequence[Sequence[float]]) -> float | None:
    """Relative standard deviation of a run, pooled over groups of like runs; None if unknown."""
    usable = [group for group in groups if len(group) > 1 and mean(group)]
    if not usable:
        return None
    degrees = sum(len(g) - 1 for g in usable)
    return math.hypot(*(stdev(g) / mean(g) * math.sqrt((len(g) - 1) / degrees) for g in usable))


def spread(cells: Sequence[CellSides], is_relative: bool) -> float | None:
    """Standard deviation of one value of `combine`, in the unit of `effect`; None if unknown."""
    return pooled_spread(_for_effect(cells, is_relative))


def pooled_spread(groups: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation within groups, pooled over them; None if it is unknown."""
    groups = [group for group in groups if len(group) > 1]
    degrees = sum(len(group) - 1 for group in groups)
    if not degrees or not all(math.isfinite(value) for group in groups for value in group):
        return None
    return math.hypot(*(stdev(g) * math.sqrt((len(g) - 1) / degrees) for g in groups))


def stdev(values: Sequence[float]) -> float:
    """The standard deviation of a sample; also of values whose squares a float cannot hold."""
    size = _size(values)
    return _stdev([value / size for value in values]) * size


class Fresh(NamedTuple):
    """The runs of a confirmation: how many of a baseline of their own, 0 without, and others."""

    baseline: int
    candidate: int


def detectable(
    spread: float,
    runs: tuple[int, int],
    floor: float,
    alpha: float,
    fresh: Fresh | None = None,
    smallest: float | None = None,
) -> float | None:
    """The smallest true regression that is found in 80 % of cases.

    `spread` is the standard deviation of a run in the unit of `floor`, `runs` their number in the
    baseline and the candidate. `fresh` runs have to be beyond the floor, too, and `alpha` is for
    all runs. None if so few can never reach `alpha`; `smallest` is the least p that they can.
    """
    after = Fresh(0, 0) if fresh is None else fresh
    both = runs[0] + after.baseline, runs[1] + after.candidate
    smallest = smallest_p(both) if smallest is None else smallest
    if min(runs) < 1 or smallest > alpha:
        return None
    if smallest * _FEW > alpha:  # the greatest p up to alpha that an exchange can have
        alpha = smallest * math.floor(alpha / smallest * (1 + _TOLERANCE))
    degrees = sum(both) - 2
    bound = student_t(1 - alpha, degrees) * standard_error(1.0, both)
    found = []
    for first, second, third, fourth, fifth in _deviates():
        before, now = first / math.sqrt(runs[0]), second / math.sqrt(runs[1])
        needed, old, new = floor + spread * (now - before), before, now
        if fresh is not None:
            own = third / math.sqrt(after.baseline) if after.baseline else before
            again = fourth / math.sqrt(after.candidate)
            needed = max(needed, floor + spread * (again - own))
            old = (runs[0] * before + after.baseline * own) / both[0]
            new = (runs[1] * now + after.candidate * again) / both[1]
        part = 2 / (9 * degrees)  # of a sample's variance, by Wilson and Hilferty (1931)
        size = math.sqrt(max(0.0, 1 - part + fifth * math.sqrt(part)) ** 3)
        found.append(max(needed, max(floor, spread * bound * size) + spread * (new - old)))
    return sorted(found)[math.ceil(_POWER * len(found)) - 1]


def excludable(spread: float, runs: tuple[int, int], alpha: float) -> float:
    """The smallest floor at which an unchanged program passes in 80 % of cases."""
    bound = student_t(1 - alpha, max(2, sum(runs) - 2)) + _NORMAL.inv_cdf(_POWER)
    return bound * standard_error(spread, runs)


def standard_error(spread: float, runs: tuple[int, int]) -> float:
    """The standard error of the difference of two means, in the unit of `spread`."""
    return spread * math.sqrt(1 / runs[0] + 1 / runs[1])


def student_t(probability: float, degrees: int) -> float:
    """Quantile of Student's t by the Cornish-Fisher expansion: 1 % off at 2 degrees, less above.

    Abramowitz and Stegun 26.7.5. At 1 degree it is the quantile of Cauchy's distribution.
    """
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    z, n = _NORMAL.inv_cdf(probability), max(2, degrees)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


@lru_cache(maxsize=1)
def _deviates() -> list[tuple[float, ...]]:
    """Rows of normal deviates, by a lattice that fills their space evenly (an R-sequence)."""
    ratio = 2.0
    for _ in range(_ITERATIONS):
        ratio = (1 + ratio) ** (1 / (_COLUMNS + 1))
    return [
        tuple(
            _NORMAL.inv_cdf((0.5 + row / ratio**column) % 1 or 0.5)
            for column in range(1, _COLUMNS + 1)
        )
        for row in range(1, _ROWS + 1)
    ]


def _for_effect(cells: Sequence[CellSides], is_relative: bool) -> Sides:
    return combine(cells, by_baseline if is_relative else None)


def _scaled(sides: Sides, scale: Callable[[Sides], float] | None) -> Sides:
    if scale is None or not all(sides):
        return sides
    size = scale(sides)
    return Sides(*([_divide(value, size) for value in side] for side in sides))


def mean_of_row(row: Sequence[Optional[float]], scales: Sequence[float]) -> float:
    """The mean over the cells of one repetition; infinite where a scale is zero."""
    pairs = zip(row, scales, strict=True)
    values = [_divide(value, scale) for value, scale in pairs if value is not None]
    return mean(values) if all(map(math.isfinite, values)) else math.inf


def _divide(value: float, by: float) -> float:
    return value / by if by else math.inf


def _differences(sides: Sides) -> list[float]:
    return [after - before for after in sides.candidate for before in sides.baseline]


def _size(values: Sequence[float]) -> float:
    """The largest absolute value: what is divided by it can be summed without overflow."""
    return max(map(abs, values)) or 1.0


def _counts_of_u(before: int, after: int) -> list[int]:
    """By u, the number of exchanges in which Mann and Whitney's U is u.

    They are the coefficients of the Gaussian binomial, multiplied out here factor by factor.
    """
    most = before * after
    counts = [1] + [0] * most
    for i in range(1, after + 1):
        for u in range(most, before + i - 1, -1):
            counts[u] -= counts[u - before - i]
        for u in range(i, most + 1):
            counts[u] += counts[u - i]
    return counts


def _product(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """The coefficients of the product of two polynomials."""
    found = [0] * (len(one) + len(other) - 1)
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            found[i + j] += left * right
    return found


@lru_cache(maxsize=256)
def _left_out(sizes: tuple[tuple[int, int], ...]) -> int | None:
    """How many differences an interval leaves out at each end; None if it cannot reach `LEVEL`."""
    counts = reduce(_product, (_counts_of_u(*size) for size in sizes), [1])
    allowed = (1 - LEVEL) / 2 * sum(counts) * (1 + _TOLERANCE)
    total, left_out = 0, -1
    while total + counts[left_out + 1] <= allowed:
        left_out += 1
        total += counts[left_out]
    return left_out if left_out >= 0 else None
