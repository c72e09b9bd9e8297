"""The aggregates that a metric may name: functions from several values to one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def quantile(values: Sequence[float], part: float) -> float:
    """The quantile of finite values, interpolated between neighbours; 0.5 is the median."""
    ordered = sorted(values)
    position = part * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    step, part = ordered[high] - ordered[low], position - low
    if math.isinf(step):
        return ordered[low] * (1 - part) + ordered[high] * part
    return ordered[low] + step * part


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "median": lambda values: quantile(values, 0.5),
    "mean": _mean,
    "last": lambda values: values[-1],
    "min": min,
    "max": max,
    "p95": lambda values: quantile(values, 0.95),
}
"""By name; all take finite values, at least one."""


def over_replicas(values: Sequence[float], aggregate: str) -> float:
    """One value of the replicas' values at one step.

    `last` needs an order in time, which replicas at one step do not have: then the median is used.
    A value that is not finite is the result, so that one replica's divergence shows.
    """
    strange = next((value for value in values if not math.isfinite(value)), None)
    if strange is not None:
        return strange
    return AGGREGATES["median" if aggregate == "last" else aggregate](values)
