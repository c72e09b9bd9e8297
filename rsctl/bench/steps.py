"""Steps in a series of values by commit: where the level changes, by how much, how certainly.

The model is a level that is constant between steps, with AR(1) noise. The steps are those that
minimise twice the negative log-likelihood plus a penalty for each step, as in penalised
change-point methods (Killick et al., JASA 2012; with AR(1) noise Chakar et al., Bernoulli 2017).
The autocorrelation is estimated together with the steps, so that slow noise, such as the
temperature of a machine room, is not taken for steps. Values far from their neighbours are moved
towards them first (Winsorised), so that one slow run is not a step. The penalty is calibrated by
simulation (`python -m benchmarks.history`): in a series without steps one is found in about 1 %.

Everything here is pure and, for the same values, gives the same result.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

ALPHA = 0.01
"""The chance that a series without a step has one found."""

SHORTEST = 8
"""The fewest values in which a step can be found."""

_SIDE = 3  # values on either side of a step: fewer may be outliers
_HALF_WINDOW = 7  # of the running median: outliers are found in 15 values
_OUTLYING = 2.5  # standard deviations from the level
_FAR = 4.0  # standard deviations from the level, beyond which a value alone says nothing
_AROUND, _ALIKE = 4, 4  # neighbours on each side, and how many alike may be a short level
_USUAL = 0.7  # of the distances from the level; the rest may be outliers
_OF_USUAL = 1.0364  # standard deviations that 70 % of a normal distribution are within
_OF_MEAN = 1.2533  # from a mean distance to a normal distribution's standard deviation
_FINEST = 1e-6  # of a value's size: less is not a change
_EVIDENT = 2.33  # of z: one-sided 1 %
_TINY = 1e-9
_MOST_PHI = 0.95
_ROUNDS = 4
_MOVES = 60
_PAIRS = 3000  # of positions that are tried together at most
_WITHIN = 6.0  # of the evidence: positions this close to the best are possible, too

PENALTY = 8.0
PENALTY_OF_FIRST = 2.5
PENALTY_BY_PHI = 6.0
PENALTY_BY_LOG = 1.5
PENALTY_BY_SHORT = 60.0
"""The penalty of a step, and of what it depends on: see `_penalties`."""

_TAIL = 2.6
"""The evidence by which the chance of a false step falls to 1/e."""


def middle(values: Sequence[float]) -> float:
    """The median; also of values whose sum a float cannot hold."""
    order = sorted(values)
    half = len(order) // 2
    if len(order) % 2:
        return order[half]
    low, high = order[half - 1], order[half]
    return (low + high) / 2 if math.isfinite(low + high) else low / 2 + high / 2


class Step(NamedTuple):
    """A change of level. It lies before `position`, the index of the first value after it.

    `first` and `last` are the least and greatest index at which it may begin instead. `before` and
    `after` are the medians of the values since the step before and until the step after. `size` is
    the change as a part of `before`, None if that is zero. `p` is the probability of such a step
    anywhere in a series without steps.
    """

    position: int
    first: int
    last: int
    before: float
    after: float
    size: float | None
    p: float

    @property
    def confidence(self) -> float:
        """The probability that a series without a step does not look like this."""
        return 1 - self.p


def find_steps(values: Sequence[float]) -> list[Step]:
    """The steps in finite values in their order; a series without any has one found with `ALPHA`.

    Each step has at least three values on either side.
    """
    if len(values) < SHORTEST:
        return []
    scaled = _scaled(values)
    level, steps = running_median(scaled), list[int]()
    for _ in range(_ROUNDS):
        fit = _Fit(limited_to_level(scaled, level))
        found = fit.best(steps)
        level = _levels(scaled, found)
        if found == steps:
            break
        steps = found
    found = _evident(values, found)
    return [_step(values, fit, found, index) for index in range(len(found))]


def _step(values: Sequence[float], fit: _Fit, steps: Sequence[int], index: int) -> Step:
    start, position, end = [0, *steps, len(values)][index : index + 3]
    before, after = middle(values[start:position]), middle(values[position:end])
    size = after / abs(before) - math.copysign(1.0, before) if before else None
    if size is not None and not math.isfinite(size):
        size = None
    first, last = fit.range_of(steps, index)
    p = min(1.0, ALPHA * math.exp(-fit.margin_of(steps, index) / _TAIL))
    return Step(position, first, last, before, after, size, p)


def _evident(values: Sequence[float], steps: Sequence[int]) -> list[int]:
    """The steps at which the ranks of the values differ, too: a few values cannot make a step.

    The likelihood is of normal noise; where almost all values are equal it overrates the others.
    """
    known = list(steps)
    while known:
        ends = [0, *known, len(values)]
        lacking = [
            _lacking(values[start:at], values[at:end])
            for start, at, end in zip(ends, ends[1:], ends[2:], strict=False)
        ]
        if max(lacking) <= 0:
            break
        del known[lacking.index(max(lacking))]
    return known


def _lacking(before: Sequence[float], after: Sequence[float]) -> float:
    """By how much Mann and Whitney's z falls short of 1 %, or of all that so few values can have.

    Without a correction for ties, with which a single outlier among equal values would be evidence.
    """
    order = sorted(before)
    count = len(before) * len(after)
    u = sum(bisect_left(order, value) + bisect_right(order, value) for value in after) / 2
    deviation = math.sqrt(count * (len(before) + len(after) + 1) / 12)
    most = count / 2 / deviation
    return min(_EVIDENT, most * (1 - _TINY)) - abs(u - count / 2) / deviation


def _scaled(values: Sequence[float]) -> list[float]:
    """Logarithms where all values are positive, since noise and steps are relative then.

    Otherwise parts of the largest value.
    """
    if min(values) > 0:
        return [math.log(value) for value in values]
    size = max(map(abs, values)) or 1.0
    return [value / size for value in values]


def running_median(values: Sequence[float]) -> list[float]:
    """The median of 15 values around each one, of those at the ends of the nearest 15."""
    count, width = len(values), 2 * _HALF_WINDOW + 1
    found = []
    for index in range(count):
        start = max(0, min(index - _HALF_WINDOW, count - width))
        found.append(middle(values[start : start + width]))
    return found


def limited_to_level(values: Sequence[float], level: Sequence[float]) -> list[float]:
    """The values, at most 2.5 standard deviations from their level, which is robustly measured.

    A value much farther away, which fewer than four of its eight neighbours are near, is an outlier
    at any level: it becomes the level, as if the commit had no value.
    """
    distances = [abs(value - at) for value, at in zip(values, level, strict=True)]
    usual = sorted(distances)[math.ceil(_USUAL * len(distances)) - 1]
    spread = usual / _OF_USUAL or _OF_MEAN * math.fsum(distances) / len(distances)
    most, far = _OUTLYING * spread, _FAR * spread
    found = []
    for index, (value, at) in enumerate(zip(values, level, strict=True)):
        if distances[index] > far and _near(values, index, far) < _ALIKE:
            found.append(at)
        else:
            found.append(min(max(value, at - most), at + most))
    return found


def _near(values: Sequence[float], index: int, far: float) -> int:
    """How many of the eight neighbours of a value are near it."""
    around = [*values[max(0, index - _AROUND) : index], *values[index + 1 : index + 1 + _AROUND]]
    return sum(abs(other - values[index]) <= far for other in around)


def _levels(values: Sequence[float], steps: Sequence[int]) -> list[float]:
    found: list[float] = []
    for start, end in pairwise([0, *steps, len(values)]):
        found += [middle(values[start:end])] * (end - start)
    return found


class _Fit:
    """The likelihood of sets of steps, from running sums of the values."""

    def __init__(self, values: Sequence[float]) -> None:
        center = middle(values)
        self._values = [value - center for value in values]
        self._count = len(values)
        self._sums = [0.0, *accumulate(self._values)]
        self._squares = [0.0, *accumulate(v * v for v in self._values)]
        self._lags = [0.0, 0.0, *accumulate(a * b for a, b in pairwise(self._values))]
        self._least = self._count * _FINEST * _FINEST

    def cost(self, steps: Sequence[int]) -> float:
        """Twice the negative log-likelihood, and the penalties of the steps."""
        likelihood, phi, _ = self._likelihood(steps)
        return likelihood + self._penalties(steps, phi)

    def _independent_cost(self, steps: Sequence[int]) -> float:
        """The cost if the noise is known to be independent."""
        _, _, variance = self._likelihood(steps)
        return self._count * math.log(variance) + self._penalties(steps, 0.0)

    def best(self, steps: Sequence[int]) -> list[int]:
        """The steps of least cost, from these, from none and from those of independent noise.

        Of several steps a single one hardly lowers the cost, since an autocorrelation explains the
        others: with independent noise each does.
        """
        starts = {tuple(steps), (), tuple(self._search((), is_independent=True))}
        return min((self._search(start) for start in sorted(starts)), key=self.cost)

    def _search(self, steps: Sequence[int], is_independent: bool = False) -> list[int]:
        """The steps of least cost that adding, moving and removing steps reaches."""
        cost_of = self._independent_cost if is_independent else self.cost
        best, known = cost_of(steps), list(steps)
        for _ in range(_MOVES):
            cost, found = min(
                ((cost_of(changed), changed) for changed in self._changes(known)),
                default=(best, known),
            )
            if cost >= best - 1e-9:
                return known
            best, known = cost, found
        return known

    def margin_of(self, steps: Sequence[int], index: int) -> float:
        """By how much the cost is greater without a step than what `ALPHA` allows."""
        without = [*steps[:index], *steps[index + 1 :]]
        return self.cost(without) - self.cost(steps)

    def range_of(self, steps: Sequence[int], index: int) -> tuple[int, int]:
        """The least and greatest position that a step may have, given the others."""
        best, _, _ = self._likelihood(steps)
        start, position, end = [0, *steps, self._count][index : index + 3]

        def is_possible(at: int) -> bool:
            moved = [*steps[:index], at, *steps[index + 1 :]]
            return self._likelihood(moved)[0] - best <= _WITHIN

        low = high = position
        while low - 1 > start and is_possible(low - 1):
            low -= 1
        while high + 1 < end and is_possible(high + 1):
            high += 1
        return low, high

    def _changes(self, steps: Sequence[int]) -> Iterable[list[int]]:
        """The sets of steps that differ by one step, or by two that enclose a level."""
        ends = [0, *steps, self._count]
        for index in range(len(steps)):
            others = [*steps[:index], *steps[index + 1 :]]
            yield others
            start, end = ends[index], ends[index + 2]
            yield from (sorted([*others, at]) for at in range(start + _SIDE, end - _SIDE + 1))
        for start, end in pairwise(ends):
            positions = range(start + _SIDE, end - _SIDE + 1)
            yield from (sorted([*steps, at]) for at in positions)
            stride = max(1, math.isqrt(len(positions) ** 2 // (2 * _PAIRS)))
            for one in positions[::stride]:
                for other in range(one + _SIDE, end - _SIDE + 1, stride):
                    yield sorted([*steps, one, other])

    def _likelihood(self, steps: Sequence[int]) -> tuple[float, float, float]:
        """Twice the negative log-likelihood, Yule and Walker's autocorrelation, and the variance.

        The variance is the sum of squares around the levels.
        """
        variance = lagged = 0.0
        values, ends = self._values, [0, *steps, self._count]
        mean_before = 0.0
        for start, end in pairwise(ends):
            total = self._sums[end] - self._sums[start]
            length = end - start
            mean = total / length
            variance += self._squares[end] - self._squares[start] - length * mean * mean
            inner = self._lags[end] - self._lags[start + 1]
            ends_of = values[start] + values[end - 1]
            lagged += inner - mean * (2 * total - ends_of) + (length - 1) * mean * mean
            if start:
                lagged += (values[start - 1] - mean_before) * (values[start] - mean)
            mean_before = mean
        variance = max(variance, 0.0) + self._least
        phi = min(max(lagged / variance, 0.0), _MOST_PHI)
        innovations = variance * (1 + phi * phi) - 2 * phi * lagged
        return self._count * math.log(max(innovations, self._least)), phi, variance

    def _penalties(self, steps: Sequence[int], phi: float) -> float:
        """The penalties of steps; the first has an additional one, as the decision that any is."""
        if not steps:
            return 0.0
        each = (
            PENALTY
            + PENALTY_BY_PHI * phi
            + PENALTY_BY_LOG * math.log(self._count)
            + PENALTY_BY_SHORT / self._count
        )
        return PENALTY_OF_FIRST + len(steps) * each
