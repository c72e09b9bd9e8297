"""Curves of metrics, by which a gate judges whole trainings instead of their last values.

A curve has at most 16 parts of equal numbers of steps, and the mean of the values in each. A loss
that diverges and comes back, or that falls later than before, differs in some part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

import msgspec

_MOST_PARTS = 16


class Curve(msgspec.Struct, frozen=True):
    """The curve of one run from its `first` step on, in parts of so many `steps`.

    `means` has None for a part without values. A mean that is not finite is None in JSON.
    """

    first: int
    steps: int
    means: list[Optional[float]]

    @property
    def mean(self) -> float | None:
        """The mean of all parts; None if it is not finite."""
        known = [value for value in self.means if value is not None]
        middle = math.fsum(known) / len(known) if known else math.nan
        return middle if math.isfinite(middle) else None

    def in_parts_of(self, steps: int) -> Curve:
        """The same curve in parts of a multiple of its steps."""
        factor = steps // self.steps
        groups = [self.means[at : at + factor] for at in range(0, len(self.means), factor)]
        return Curve(self.first, steps, [_mean(group) for group in groups])


class CurveReader:
    """Takes the values of one run in their order; it keeps no more than the parts.

    Once there are more than 16 parts, two and two become one, so that curves of the same length
    have the same parts.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._steps = 1
        self._parts: list[tuple[float, int]] = []

    def add(self, step: int | None, value: float, is_counted: bool = True) -> None:
        """Take a value. The first step counts from also where its value does not, as of a warm-up.

        Values without a step are on no curve.
        """
        if step is None:
            return
        if self._first is None:
            self._first = step
        if not is_counted or step < self._first:
            return
        while (index := (step - self._first) // self._steps) >= _MOST_PARTS:
            self._steps *= 2
            self._parts = [
                (sum(total for total, _ in pair), sum(count for _, count in pair))
                for pair in (self._parts[at : at + 2] for at in range(0, len(self._parts), 2))
            ]
        self._parts += [(0.0, 0)] * (index + 1 - len(self._parts))
        total, count = self._parts[index]
        self._parts[index] = total + value, count + 1

    def curve(self) -> Curve | None:
        """The curve; None without values that have a step."""
        if self._first is None or not self._parts:
            return None
        means = [total / count if count else None for total, count in self._parts]
        return Curve(self._first, self._steps, means)


class Part(msgspec.Struct, frozen=True):
    """A part of the curves of two sides: its first and last step, and a value for each run.

    A run without a curve has None.
    """

    steps: tuple[int, int]
    baseline: list[Optional[float]]
    candidate: list[Optional[float]]


def curve_parts(
    baseline: Sequence[Optional[Curve]], candidate: Sequence[Optional[Curve]]
) -> list[Part]:
    """The parts in which every run that has a curve has a value.

    Raises ValueError with the reason if the curves are of other steps. Runs may end early by
    themselves: the steps that all of them have are compared, if they are half of the longest.
    """
    whole = [c for c in (*baseline, *candidate) if c is not None and c.mean is not None]
    firsts = sorted({curve.first for curve in whole})
    if len(firsts) > 1:
        raise ValueError(f"the runs begin at different steps: {firsts[0]} and {firsts[-1]}")
    steps = max(curve.steps for curve in whole)
    sides = [
        [None if c is None or c.mean is None else c.in_parts_of(steps).means for c in side]
        for side in (baseline, candidate)
    ]
    lengths = [len(means) for side in sides for means in side if means is not None]
    if 2 * min(lengths) < max(lengths):
        counted = " and ".join(str(steps * length) for length in (min(lengths), max(lengths)))
        raise ValueError(f"the runs have different numbers of steps: about {counted}")
    found = []
    for index in range(min(lengths)):
        values = [[means[index] if means else None for means in side] for side in sides]
        known = [
            value is not None
            for side, of_side in zip(values, sides, strict=True)
            for value, means in zip(side, of_side, strict=True)
            if means is not None
        ]
        start = firsts[0] + index * steps
        if all(known):
            found.append(Part((start, start + steps - 1), *values))
    if not found:
        raise ValueError("there are no steps at which all runs have logged it")
    return found


def _mean(values: Sequence[Optional[float]]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
