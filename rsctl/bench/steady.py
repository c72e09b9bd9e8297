"""The steady part of a series of values: the values without the warm-up."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from rsctl.job.units import Warmup

_LEAST = 5
"""The minimum length of a series in which `auto` searches for a transient; shorter ones keep all
values.
"""


class Steady:
    """The values after the warm-up, of one series in the order of their times.

    `20 steps` cuts off what belongs to the first 20 steps from the first one that is logged; where
    the log has no steps, the first 20 values. `30s` counts from the first value. `auto` is
    `transient`. It keeps 16 bytes for each value, so that a million of them fit into memory.
    """

    def __init__(self, warmup: str) -> None:
        self._rule = Warmup.parse(warmup)
        self._first: tuple[float, int | None] | None = None
        self._seconds, self._values = array("d"), array("d")
        self._is_sorted = True
        self.count = 0

    def add(self, seconds: float, step: int | None, value: float) -> bool:
        """Take a value; `seconds` is its time, from any moment on. Whether it is kept so far."""
        self.count += 1
        if self._first is None:
            self._first = seconds, step
        if not self._is_kept(seconds, step):
            return False
        if self._seconds and seconds < self._seconds[-1]:
            self._is_sorted = False
        self._seconds.append(seconds)
        self._values.append(value)
        return True

    def values(self) -> Sequence[float]:
        """The values that are kept."""
        kept: Sequence[float] = self._values
        if not self._is_sorted:
            order = sorted(range(len(kept)), key=self._seconds.__getitem__)
            kept = [kept[index] for index in order]
        if self._rule.steps is None and self._rule.seconds is None:
            return kept[transient(kept) :]
        return kept

    def _is_kept(self, seconds: float, step: int | None) -> bool:
        start, first = self._first or (seconds, step)
        if self._rule.steps is not None:
            if first is None:
                return self.count > self._rule.steps
            return step is None or step >= first + self._rule.steps
        return self._rule.seconds is None or seconds - start >= self._rule.seconds


def transient(values: Sequence[float]) -> int:
    """How many values at the beginning belong to the transient, at most half of all.

    By the marginal standard error rule (MSER, K. P. White 1997): the cut that minimizes the
    standard error of the mean of the remaining values. Values that are not finite are left out.
    """
    count = len(values)
    if count < _LEAST:
        return 0
    best, cut = math.inf, 0
    n, mean, squares = 0, 0.0, 0.0
    for index in range(count - 1, -1, -1):  # Welford's sums, from the end to the beginning
        value = values[index]
        if not math.isfinite(value):
            continue
        n += 1
        delta = value - mean
        mean += delta / n
        squares += delta * (value - mean)
        if index <= count // 2 and squares / n**2 <= best:
            best, cut = squares / n**2, index
    return cut
