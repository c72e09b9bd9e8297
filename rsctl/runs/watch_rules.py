"""Rules of `watch` over the metrics of a run, as their values come."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Optional, Union

import msgspec

from rsctl.findings import Finding, error, warning
from rsctl.job.units import Bound
from rsctl.runs.stream.events import ENDED_EXIT_CODE, WATCH, Failure, MetricEvent, seconds_between
from rsctl.runs.stream.formatting import format_duration, format_number

_KEPT_VALUES = 501
_FEWEST_VALUES = 5
"""Values that a metric needs before its median is taken as its own normal."""


class WatchSpec(msgspec.Struct, frozen=True):
    """A rule: exactly one of `when`, `below` and `above`, for so many values or seconds."""

    metric: str
    when: Optional[str] = None
    below: Optional[str] = None
    above: Optional[str] = None
    values: Optional[int] = None
    seconds: Optional[float] = None
    fails: bool = False


class Trip(NamedTuple):
    """A rule that holds, on the replica that reports the metric."""

    finding: Finding
    replica: str
    time: str
    fails: bool

    def failure(self) -> Failure:
        """The first failure of an attempt that is ended for it."""
        return Failure(
            replica=self.replica.partition("/")[0],
            time=self.time,
            exit_code=ENDED_EXIT_CODE,
            causes=[self.finding],
        )


class _Series:
    """A rule on the metric of one replica."""

    def __init__(self) -> None:
        self.values: deque[float] = deque(maxlen=_KEPT_VALUES)
        self.since: str | None = None
        self.count = 0


class WatchRules:
    """All rules of a run; each is reported once."""

    def __init__(self, rules: Mapping[str, WatchSpec]) -> None:
        self._rules = rules
        self._series: dict[tuple[str, str], _Series] = {}
        self._tripped: set[str] = set()

    def read(self, metrics: Iterable[MetricEvent]) -> list[Trip]:
        """Take values in their order; the rules that hold with them."""
        if not self._rules:
            return []
        return [trip for metric in metrics for trip in self._take(metric)]

    def _take(self, metric: MetricEvent) -> list[Trip]:
        trips = []
        for name, rule in self._rules.items():
            if rule.metric != metric.name or name in self._tripped:
                continue
            series = self._series.setdefault((name, metric.replica), _Series())
            bound = _broken_bound(rule, series, metric.value)
            if bound is None:
                series.since, series.count = None, 0
                if math.isfinite(metric.value):  # others would become the normal with time
                    series.values.append(metric.value)
                continue
            series.since = series.since or metric.time
            series.count += 1
            if _holds(rule, series, metric.time):
                self._tripped.add(name)
                trips.append(_trip(name, rule, series, metric, bound))
        return trips


def _broken_bound(rule: WatchSpec, series: _Series, value: float) -> str | None:
    """The condition that a value meets, as text; None if it meets none."""
    if rule.when is not None:
        return "" if not math.isfinite(value) else None
    text = rule.below if rule.below is not None else rule.above
    bound = Bound(text)
    if bound.part is not None and len(series.values) < _FEWEST_VALUES:
        return None
    from statistics import median  # not for a plan, which has no values

    limit = bound.value(median(series.values) if series.values else 0.0)
    is_broken = value < limit if rule.below is not None else value > limit
    side = "below" if rule.below is not None else "above"
    shown = format_number(limit) + (f" ({text})" if bound.part is not None else "")
    return f", {side} {shown}," if is_broken else None


def _holds(rule: WatchSpec, series: _Series, time: str) -> bool:
    if rule.seconds is not None:
        return series.since is not None and seconds_between(series.since, time) >= rule.seconds
    return series.count >= (rule.values or 1)


def _trip(name: str, rule: WatchSpec, series: _Series, metric: MetricEvent, bound: str) -> Trip:
    how_long = (
        f"for {format_duration(rule.seconds)}"
        if rule.seconds is not None
        else f"for {series.count} {'value' if series.count == 1 else 'values'}"
    )
    at = f" at step {metric.step}" if metric.step is not None else ""
    message = f"{rule.metric} is {format_number(metric.value)}{bound} {how_long}{at}"
    report = error if rule.fails else warning
    remedy = "to see where it starts: `rsctl metrics --plot`"
    return Trip(
        report(WATCH, message, remedy, f"watch.{name}"), metric.replica, metric.time, rule.fails
    )


def seconds_or_values(held: Union[int, float]) -> tuple[int | None, float | None]:
    """`for` of a rule as a number of values, or as seconds."""
    return (held, None) if type(held) is int else (None, float(held))
