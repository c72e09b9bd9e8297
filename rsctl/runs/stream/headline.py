"""Reduces a metric of several replicas to one series of values, its headline.

That is the series of the chief, if the chief has logged the metric. Otherwise each of its values
is the metric's `aggregate` over the replicas that have logged one step; where the log has no steps,
the n-th values of the replicas belong together, and a replica that is far behind, such as one that
begins late, counts from the newest value on. `submit`, `list`, `status`, `metrics`, trackers,
reports and samples all take it from here.

Lines may arrive late and several times. The last value is the one with the latest time, in any
order of arrival.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

import msgspec

from rsctl.runs.stream.aggregates import over_replicas
from rsctl.runs.stream.events import MetricEvent, unix_time
from rsctl.runs.stream.metrics import MACHINES, MetricSpec

CHIEF = "worker-0"
"""The replica whose values count."""

_OPEN_STEPS = 16
"""The maximum distance in steps between replicas whose values are combined."""

_AT_ONCE_SECONDS = 3.0
"""The maximum time between values without steps that replicas printed in one piece each."""

_NO_SPEC = MetricSpec()


def is_chief(replica: str) -> bool:
    """Whether a replica, or a rank of one such as `worker-0/3`, is the chief's first process."""
    return replica in (CHIEF, f"{CHIEF}/0")


class MetricStep(msgspec.Struct, array_like=True):
    """The values of the replicas at one step, or the n-th of each; `time` is the earliest."""

    by_step: bool
    number: int
    time: str
    values: dict[str, float]


class Headline(msgspec.Struct, array_like=True):
    """The statistics of one metric so far, in bounded memory; `count` is of all replicas.

    `last` with its `time` and `step`, and `best` are from final values: the chief's values, or the
    values of closed steps. `steps` are the open steps, in the order of their first value; `numbers`
    has the last step of each replica, or the count of its values without a step, less one.
    """

    count: int = 0
    is_chiefs: bool = False
    last: Optional[float] = None
    time: str = ""
    step: Optional[int] = None
    best: Optional[float] = None
    steps: list[MetricStep] = []
    numbers: dict[str, int] = {}

    def add(self, event: MetricEvent, spec: MetricSpec) -> list[MetricEvent]:
        """Take a value; returns the values of the series that become final."""
        self.count += 1
        if is_chief(event.replica):
            if not self.is_chiefs:
                self._begin_again()
            self._take(event, spec)
            return [event]
        if self.is_chiefs:
            return []
        return self._add_to_step(event, spec)

    def statistics(self, spec: MetricSpec) -> dict[str, Any]:
        """The last value, the number of values, the best by the goal, the unit."""
        now = msgspec.structs.replace(self, steps=[])
        for step in self.steps:
            now._take(_of_step("", step, spec), spec)
        found: dict[str, Any] = {"last": now.last, "count": self.count}
        if now.best is not None:
            found["best"] = now.best
        if spec.unit:
            found["unit"] = spec.unit
        return found

    def rest(self, name: str, spec: MetricSpec) -> list[MetricEvent]:
        """The values of the series that are not final yet."""
        return [_of_step(name, step, spec) for step in self.steps]

    def _begin_again(self) -> None:
        """The chief logs it: the values of other replicas no longer count."""
        self.is_chiefs, self.last, self.time, self.step, self.best = True, None, "", None, None
        self.steps, self.numbers = [], {}

    def _take(self, event: MetricEvent, spec: MetricSpec) -> None:
        if self.last is None or event.time >= self.time:
            self.last, self.time, self.step = event.value, event.time, event.step
        if spec.goal and math.isfinite(event.value):
            better = min if spec.goal == "min" else max
            self.best = event.value if self.best is None else better(self.best, event.value)

    def _add_to_step(self, event: MetricEvent, spec: MetricSpec) -> list[MetricEvent]:
        number, replica = event.step, event.replica
        before = self.numbers.get(replica, -1)
        if number is None:
            number = before + 1
        self.numbers[replica] = number
        key = event.step is not None, number
        for step in self.steps:
            if (step.by_step, step.number) == key and replica not in step.values:
                step.values[replica] = event.value
                step.time = min(step.time, event.time)
                return []
        if self._is_closed(event, number, before):
            later = (unix_time(event.time) or 0.0) - (unix_time(self.time) or 0.0)
            if event.step is not None or later < _AT_ONCE_SECONDS:
                return []
            number = self.numbers[replica] = self.steps[-1].number + 1
            key = False, number
        elif number <= before:
            self.numbers = {replica: number}  # the others, too, have their next steps again
        self.steps.append(MetricStep(*key, event.time, {replica: event.value}))
        final = []
        while len(self.steps) > _OPEN_STEPS:
            final.append(_of_step(event.name, self.steps.pop(0), spec))
            self._take(final[-1], spec)
        return final

    def _is_closed(self, event: MetricEvent, number: int, before: int) -> bool:
        """Whether the step of a value is no longer open: it is before the last closed one, by its
        time or by its number.

        After a restart the numbers begin again: the replica's own number, `before`, goes back.
        """
        if not self.time or event.time < self.time:
            return bool(self.time)
        newest = self.steps[0].number - 1 if event.step is None else self.step
        if newest is None or number > newest:
            return False
        is_restarted = number <= before or any(step.number <= newest for step in self.steps)
        return event.time == self.time or not is_restarted


def _of_step(name: str, step: MetricStep, spec: MetricSpec) -> MetricEvent:
    return MetricEvent(
        time=step.time,
        replica=next(iter(step.values)) if len(step.values) == 1 else "",
        name=name,
        value=over_replicas([*step.values.values()], spec.aggregate),
        step=step.number if step.by_step else None,
    )


def headline_series(
    events: Iterable[MetricEvent], spec: Optional[MetricSpec] = None
) -> list[MetricEvent]:
    """The series of one metric by all its values in the order of arrival; the result is by time."""
    spec = spec or _NO_SPEC
    headline, name = Headline(), ""
    series: list[MetricEvent] = []
    for event in events:
        name, had_chief = event.name, headline.is_chiefs
        final = headline.add(event, spec)
        if headline.is_chiefs and not had_chief:
            series = []
        series += final
    series += headline.rest(name, spec)
    return sorted(series, key=lambda event: event.time)


class Tally:
    """The statistics of every metric of a run, for any number of values.

    `recent` keeps the last values of each, for a sparkline; `metrics` are the headlines by name.
    """

    def __init__(
        self,
        specs: Mapping[str, MetricSpec],
        recent: int = 40,
        metrics: Optional[dict[str, Headline]] = None,
    ) -> None:
        self._specs = specs
        self.metrics: dict[str, Headline] = {} if metrics is None else metrics
        self._recent: dict[str, deque[MetricEvent]] = {}
        self._keep = recent

    def add(self, event: MetricEvent) -> None:
        """Count one value."""
        name = event.name
        headline = self.metrics.get(name)
        if headline is None:
            headline = self.metrics[name] = Headline()
        had_chief = headline.is_chiefs
        final = headline.add(event, self._spec(name))
        if not self._keep:
            return
        if name not in self._recent or (headline.is_chiefs and not had_chief):
            self._recent[name] = deque(maxlen=self._keep)
        self._recent[name].extend(final)

    def recent(self, name: str) -> list[float]:
        """The last values of a metric, by time."""
        events = [*self._recent.get(name, ()), *self.metrics[name].rest(name, self._spec(name))]
        events.sort(key=lambda event: event.time)
        return [event.value for event in events[-self._keep :]]

    def last(self, name: str) -> float:
        """The last value of a metric that has one."""
        return float(self.metrics[name].statistics(self._spec(name))["last"])

    def summary(self, nodes: bool = False) -> dict[str, dict[str, Any]]:
        """For each metric its last value, the number of all replicas' values, its best by the goal,
        and its unit.

        Omits metrics of machines unless `nodes`.
        """
        return {name: self.metrics[name].statistics(self._spec(name)) for name in self.names(nodes)}

    def names(self, nodes: bool = False) -> Iterator[str]:
        """The metrics in the order of their first values; those of machines only if `nodes`."""
        return (name for name in self.metrics if nodes or not name.startswith(MACHINES))

    def _spec(self, name: str) -> MetricSpec:
        return self._specs.get(name, _NO_SPEC)
