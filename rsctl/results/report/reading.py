"""Reads a run's values once, and keeps of each series as much as a chart can show.

So a report of a million values needs as much memory as one of some thousands. A series is divided
into stretches of equally many values; of each the lowest and the highest are kept, so that a single
spike is never lost. The first and the last value are always kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from rsctl.bench.samples import SampleReader
from rsctl.runs.records import RunRecord, replica_order
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.stream.metrics import MACHINES

_STRETCHES = 400  # of a series at most
_LEAST_STRETCHES = 12
_KEPT = 120_000  # values of all series together
_STEPS = 256  # of a metric, whose times are compared between replicas
_COMPARED = 4  # metrics


_Numbered = tuple[int, MetricEvent]
"""A value, after its number in the order of arrival."""


class Curve:
    """One series in little memory: the values of one metric of one replica."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.first: _Numbered | None = None
        self.last: _Numbered | None = None
        self.strange: _Numbered | None = None
        self.strange_count = 0
        self._width = 1
        self._filled = 0
        self._stretches: list[tuple[_Numbered, _Numbered]] = []

    def add(self, event: MetricEvent, most: int) -> None:
        """Take a value; `most` is how many stretches there may be."""
        value = event.value
        numbered = self.count, event
        if self.first is None:
            self.first = numbered
        self.last = numbered
        self.count += 1
        if not isfinite(value):
            self.strange_count += 1
            self.strange = self.strange or numbered
            return
        self.sum += value
        if 0 < self._filled < self._width:
            low, high = self._stretches[-1]
            if value < low[1].value:
                self._stretches[-1] = numbered, high
            elif value > high[1].value:
                self._stretches[-1] = low, numbered
            self._filled += 1
            return
        self._stretches.append((numbered, numbered))
        self._filled = 1
        if len(self._stretches) > 2 * most:
            self._halve()

    @property
    def mean(self) -> float | None:
        """The mean of all finite values."""
        count = self.count - self.strange_count
        return self.sum / count if count else None

    def events(self) -> list[MetricEvent]:
        """The values that are kept, in the order of their times; values of the same time in the
        order of arrival.
        """
        kept = dict(numbered for pair in self._stretches for numbered in pair)
        kept |= dict(n for n in (self.first, self.last, self.strange) if n is not None)
        ordered = sorted(kept.items(), key=lambda item: (item[1].time, item[0]))
        return [event for _, event in ordered]

    def _halve(self) -> None:
        """Make one stretch of two; the last one stays open."""
        count = len(self._stretches)
        pairs = [self._stretches[index : index + 2] for index in range(0, count, 2)]
        self._stretches = [
            (min(lows, key=_value), max(highs, key=_value))
            for lows, highs in (zip(*pair, strict=True) for pair in pairs)
        ]
        self._width *= 2


def _value(numbered: _Numbered) -> float:
    return numbered[1].value


class StepArrivals:
    """When each replica logged the same steps of a metric, for evenly spread steps."""

    def __init__(self) -> None:
        self.times: dict[int, dict[str, str]] = {}
        self._stride = 1

    def add(self, event: MetricEvent) -> None:
        """Take a value."""
        step = event.step
        if step is None or step % self._stride:
            return
        self.times.setdefault(step, {})[event.replica] = event.time
        if len(self.times) > 2 * _STEPS:
            self._stride *= 2
            self.times = {s: found for s, found in self.times.items() if not s % self._stride}


class Readings:
    """The series of a run by metric and replica, its headline series, and the data of its samples.

    A headline series is one series for a metric of several replicas: see
    `rsctl.runs.stream.headline`.
    """

    def __init__(self, run: RunRecord) -> None:
        self.samples = SampleReader(run)
        self.curves: dict[str, dict[str, Curve]] = {}
        self.headlines: dict[str, Curve] = {}
        self.arrivals: dict[str, StepArrivals] = {}
        self._curves = 0
        self._most = _STRETCHES

    def add(self, event: MetricEvent) -> None:
        """Take a value, in the order of arrival."""
        name = event.name
        of_name = self.curves.get(name)
        if of_name is None:
            of_name = self._begin(name)
        curve = of_name.get(event.replica)
        if curve is None:
            curve = of_name[event.replica] = self._new()
        curve.add(event, self._most)
        headline = self.headlines.get(name)
        if headline is None:  # a machine's
            return
        if name in self.arrivals:
            self.arrivals[name].add(event)
        final = self.samples.add(event)
        if final is None:
            headline = self.headlines[name] = self._new()
            final = [event]
        for known in final:
            headline.add(known, self._most)

    def _begin(self, name: str) -> dict[str, Curve]:
        if not name.startswith(MACHINES):
            self.headlines[name] = self._new()
            if len(self.arrivals) < _COMPARED:
                self.arrivals[name] = StepArrivals()
        self.curves[name] = {}
        return self.curves[name]

    def end(self) -> None:
        """All values have been read."""
        for name, rest in self.samples.rest().items():
            for event in rest:
                self.headlines[name].add(event, self._most)
        self.curves = {
            name: dict(sorted(series.items(), key=lambda item: replica_order(item[0])))
            for name, series in self.curves.items()
        }

    def series(self) -> dict[str, Mapping[str, list[MetricEvent]]]:
        """By metric and replica, the values that are kept."""
        return {
            name: {replica: curve.events() for replica, curve in series.items()}
            for name, series in self.curves.items()
        }

    def headline_series(self) -> dict[str, list[MetricEvent]]:
        """By metric of the job, the values that are kept of its headline series."""
        return {name: curve.events() for name, curve in self.headlines.items()}

    def _new(self) -> Curve:
        self._curves += 1
        self._most = max(_LEAST_STRETCHES, min(_STRETCHES, _KEPT // (4 * self._curves)))
        return Curve()


def read_values(store: Store, run: RunRecord) -> Readings:
    """All values of a run. Raises StoreError."""
    return readings_of(run, (event for _, event in store.metrics(run.run)))


def readings_of(run: RunRecord, events: Iterable[MetricEvent]) -> Readings:
    """The readings of values in the order of arrival."""
    readings = Readings(run)
    for event in events:
        readings.add(event)
    readings.end()
    return readings
