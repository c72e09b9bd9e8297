"""The metric of a struck job next to the run without a fault. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import ceil, isfinite
from statistics import median
from typing import Optional

import msgspec

from rsctl.api.drill_watch import Point

_LOCAL_FACTOR = 5.0
_RUN_FACTOR = 2.0
_LEAST_PART = 0.02
_EXTREME = 0.05
"""The part of the values at each end that the range leaves out: a first loss may be far above all
others."""


class Curve(msgspec.Struct, kw_only=True, frozen=True):
    """The metric after the strike next to the run without a fault.

    `difference` is the largest difference, smoothed over three steps, at `step`; `noise` is the
    largest that the curve's own noise explains. `steps` were compared.
    """

    steps: int
    difference: float
    noise: float
    step: Optional[int] = None

    @property
    def is_same(self) -> bool:
        """Whether the difference is within the noise."""
        return self.difference <= self.noise


def compare_curves(
    reference: dict[int, float], before: Sequence[Point], after: Sequence[Point]
) -> Curve:
    """The largest difference after a fault, next to the noise of the curve.

    The noise has two sources: the scatter of the reference between neighbouring steps, by its
    second differences, which a smooth trend does not change; and the differences between the runs
    before the fault, where they did the same.
    """
    noise = curve_noise(reference, before)
    last: dict[int, float] = {point.step: point.value for point in after}
    known = sorted(step for step, value in reference.items() if isfinite(value))
    expected = {step: _value_at(step, known, reference) for step in sorted(last)}
    common = [(step, value) for step, value in expected.items() if value is not None]
    steps = [step for step, _ in common]
    differences = [last[step] - value for step, value in common]
    for step, difference in zip(steps, differences, strict=True):
        if not isfinite(difference):
            return Curve(steps=len(steps), difference=float("inf"), noise=noise, step=step)
    smooth = [abs(median(differences[max(0, i - 1) : i + 2])) for i in range(len(differences))]
    if not smooth:
        return Curve(steps=0, difference=0.0, noise=noise)
    worst = max(range(len(smooth)), key=smooth.__getitem__)
    return Curve(steps=len(steps), difference=smooth[worst], noise=noise, step=steps[worst])


def _value_at(step: int, known: Sequence[int], values: Mapping[int, float]) -> float | None:
    """The value of a curve at a step, on a line between the steps beside it that are `known`.

    A script that logs each tenth step from its start on logs other steps when it is resumed. None
    where the curve has a value that is not finite, and outside of it.
    """
    if step in values:
        return values[step] if isfinite(values[step]) else None
    index = bisect_left(known, step)
    if not 0 < index < len(known):
        return None
    left, right = known[index - 1], known[index]
    part = (step - left) / (right - left)
    return values[left] + part * (values[right] - values[left])


def curve_noise(reference: dict[int, float], before: Sequence[Point]) -> float:
    """The largest difference between two runs that the noise of a curve explains."""
    values = [reference[step] for step in sorted(reference) if isfinite(reference[step])]
    if not values:
        return 0.0
    bends = [abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    scatter = 1.4826 * median(bends) / 6**0.5 if bends else 0.0
    between = max(
        (d for p in before if isfinite(d := abs(p.value - reference.get(p.step, p.value)))),
        default=0.0,
    )
    ordered, extreme = sorted(values), ceil(_EXTREME * len(values)) if len(values) >= 10 else 0
    least = _LEAST_PART * (ordered[-1 - extreme] - ordered[extreme])
    return max(_LOCAL_FACTOR * scatter, _RUN_FACTOR * between, least)
