"""The steady part of a series of values: what is left when its warm-up is cut off."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rsctl.spec.units import Warmup
from rsctl.stream.events import MetricEvent, seconds_between

_LEAST = 5
"""A series must have so many values for `auto` to search for a transient; else none is cut off."""


def steady(series: Sequence[MetricEvent], warmup: str) -> Sequence[MetricEvent]:
    """The values after the warm-up, of one metric of one replica in the order of their arrival.

    `20 steps` cuts off what belongs to the first 20 steps from the first one that is logged; where
    the log has no steps, the first 20 values. `30s` counts from the first value. `auto` is
    `transient`.
    """
    if not series:
        return series
    rule = Warmup.parse(warmup)
    if rule.steps is not None:
        first = series[0].step
        if first is None:
            return series[rule.steps :]
        return [m for m in series if m.step is None or m.step >= first + rule.steps]
    if rule.seconds is not None:
        start, least = series[0].time, rule.seconds
        return [m for m in series if seconds_between(start, m.time) >= least]
    return series[transient([m.value for m in series]) :]


def transient(values: Sequence[float]) -> int:
    """How many values at the beginning belong to the transient, at most half of all.

    By the marginal standard error rule (MSER, K. P. White 1997): the cut that makes the standard
    error of the mean of what is left the smallest. Values that are not finite are left out of it.
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
