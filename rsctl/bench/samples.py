"""Samples of a run: one number per metric, aggregated over the run's steady part.

Besides the metrics of the job there are metrics of the run itself, named `run.…`: the seconds of
its phases, its cost, its goodput, the bytes of its gradients. A missing figure has no value and a
reason. A run whose steps were recorded also has their parts, `step.…`, see
`rsctl.bench.step_parts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Optional, Union

import msgspec

from rsctl.bench.curves import Curve, CurveReader
from rsctl.bench.phases import StepDurations, phases_of, steady_steps
from rsctl.bench.steady import Steady
from rsctl.bench.step_parts import PARTS, step_values
from rsctl.runs.cost import cost_of
from rsctl.runs.goodput_records import goodput_of
from rsctl.runs.gradients import gradients_of
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.aggregates import AGGREGATES
from rsctl.runs.stream.aggregates import quantile as quantile
from rsctl.runs.stream.events import MetricEvent, parse_time
from rsctl.runs.stream.headline import Headline
from rsctl.runs.stream.metrics import MACHINES, MetricSpec
from rsctl.targets.managed.progress import kept_progress

_NO_STEPS = "the log has no steps: give a metric's regex a group `step`"
_UNREAD = "its log could not be read to the end"
_ONE_STEP = "the log has only one step, and the time of a step needs two"


class Sample(msgspec.Struct, kw_only=True):
    """One metric of one run, over its headline series: see `rsctl.runs.stream.headline`.

    `value` is None if there is no data, and `reason` says why. `n` is the number of values of
    the steady part, of `total` in all; `spread` is their interquartile range, None for fewer than
    two. `goal` is `min`, `max` or None. `aggregate` and `warmup` are the
    metric's definition, None for what is measured once. `diverged` is True if the last value is
    not finite, and otherwise not set.
    """

    value: Optional[float] = None
    n: int = 0
    total: int = 0
    spread: Optional[float] = None
    unit: Optional[str] = None
    goal: Optional[str] = None
    aggregate: Optional[str] = None
    warmup: Optional[str] = None
    reason: Optional[str] = None
    diverged: Union[Literal[True], msgspec.UnsetType] = msgspec.UNSET


def samples(store: Store, run: RunRecord) -> dict[str, Sample]:
    """The samples of a run by name: metrics that are declared, others logged, those of the run.

    They are the samples so far, in any state of the run: a caller that decides by them must check
    the state.
    """
    return _read(store, run, SampleReader(run)).samples(store)


def samples_and_curves(
    store: Store, run: RunRecord
) -> tuple[dict[str, Sample], dict[str, Curve | None]]:
    """The samples of a run, and the curve of each logged metric; None without steps."""
    reader = _read(store, run, SampleReader(run, with_curves=True))
    return reader.samples(store), reader.curves


def _read(store: Store, run: RunRecord, reader: SampleReader) -> SampleReader:
    for _, metric in store.metrics(run.run):
        reader.add(metric)
    reader.rest()
    return reader


def sample_of(values: Sequence[float], spec: MetricSpec, total: int | None = None) -> Sample:
    """The sample from the values of a steady part, of `total` values in all."""
    common = Sample(
        n=len(values),
        total=len(values) if total is None else total,
        unit=spec.unit,
        goal=spec.goal,
        aggregate=spec.aggregate,
        warmup=spec.warmup,
    )
    strange = sum(not math.isfinite(value) for value in values)
    if not values:
        common.reason = "all values are in the warm-up" if total else "the log has no value"
    elif strange:
        common.reason = f"{strange} of {len(values)} values are not finite"
        if not math.isfinite(values[-1]):
            common.diverged = True
    else:
        common.value = AGGREGATES[spec.aggregate](values)
        spread = quantile(values, 0.75) - quantile(values, 0.25)
        common.spread = spread if values[1:] and math.isfinite(spread) else None
    return common


class SampleReader:
    """Takes a run's values one by one, so that those of long runs fit into memory."""

    def __init__(self, run: RunRecord, with_curves: bool = False) -> None:
        self._run, self._with_curves = run, with_curves
        self._metrics: dict[str, _Metric] = {}
        self._first: str | None = None
        self._time = ("", 0.0)

    def add(self, metric: MetricEvent) -> list[MetricEvent] | None:
        """Take a value, in the order of arrival; what describes machines is left out.

        Returns the values of the metric's headline series that are known with it, or None if that
        begins with it, since the chief has begun to log the metric.
        """
        name = metric.name
        series = self._metrics.get(name)
        if series is None:
            if name.startswith(MACHINES):
                return []
            spec = self._run.metrics_spec.get(name, MetricSpec())
            series = self._metrics[name] = _Metric(spec, self._with_curves)
        if self._first is None or metric.time < self._first:
            self._first = metric.time
        return series.add(metric, self._seconds)

    @property
    def first(self) -> str | None:
        """When the first value of the job came; None if there is none."""
        return self._first

    def rest(self) -> dict[str, list[MetricEvent]]:
        """Call it at the end: the values of headline series that no later value completes."""
        return {name: metric.end(name, self._seconds) for name, metric in self._metrics.items()}

    @property
    def curves(self) -> dict[str, Curve | None]:
        """The curve of each logged metric, after `rest`; None without steps."""
        return {n: m.curve.curve() for n, m in self._metrics.items() if m.curve is not None}

    def samples(self, store: Store) -> dict[str, Sample]:
        """The samples by name, after `rest`. Raises StoreError."""
        logged, specs = self._metrics, self._run.metrics_spec
        names = [*specs, *(name for name in logged if name not in specs)]
        found = {
            name: logged[name].sample() if name in logged else sample_of([], specs[name])
            for name in names
        }
        progress = kept_progress(store, self._run.run) if self._run.state.is_final else None
        if progress is not None and not progress.is_complete:
            for sample in found.values():
                sample.reason = sample.reason if sample.total else _UNREAD
        series = [each for metric in logged.values() for each in metric.durations.values()]
        steps = sample_of(steady_steps(series), MetricSpec(goal="min", unit="s"))
        if not steps.n:
            steps.reason = _ONE_STEP if any(each.has_step for each in series) else _NO_STEPS
        measured = _of_run(store, self._run, self._first, steps)
        return {**found, **{name: sample for name, sample in measured.items() if name not in found}}

    def _seconds(self, time: str) -> float:
        """Seconds of an event's time; for an invalid time, those of the previous event."""
        if time != self._time[0]:
            try:
                self._time = time, parse_time(time).timestamp()
            except ValueError:
                self._time = time, self._time[1]
        return self._time[1]


class _Metric:
    """The headline series of one metric, and its steady part."""

    def __init__(self, spec: MetricSpec, with_curve: bool = False) -> None:
        self.curve = CurveReader() if with_curve else None
        self.durations: dict[str, StepDurations] = {}
        self._spec = spec
        self._headline = Headline()
        self._steady = Steady(spec.warmup)

    def add(self, metric: MetricEvent, seconds: Callable[[str], float]) -> list[MetricEvent] | None:
        durations = self.durations.get(metric.replica)
        if durations is None:
            durations = self.durations[metric.replica] = StepDurations()
        durations.add(seconds(metric.time), metric.step)
        had_chief = self._headline.is_chiefs
        final = self._headline.add(metric, self._spec)
        begins = self._headline.is_chiefs and not had_chief and self._headline.count > 1
        if begins:
            self._steady = Steady(self._spec.warmup)
            self.curve = self.curve and CurveReader()
        self._take(final, seconds)
        return None if begins else final

    def end(self, name: str, seconds: Callable[[str], float]) -> list[MetricEvent]:
        rest = self._headline.rest(name, self._spec)
        self._take(rest, seconds)
        return rest

    def sample(self) -> Sample:
        return sample_of(self._steady.values(), self._spec, self._steady.count)

    def _take(self, final: Iterable[MetricEvent], seconds: Callable[[str], float]) -> None:
        for metric in final:
            is_kept = self._steady.add(seconds(metric.time), metric.step, metric.value)
            if self.curve is not None:
                self.curve.add(metric.step, metric.value, is_kept)


def _of_run(store: Store, run: RunRecord, first: str | None, steps: Sample) -> dict[str, Sample]:
    """The metrics that are measured for every run."""
    measured = {
        f"run.{name}": _once(seconds, "s", reason)
        for name, (seconds, reason) in phases_of(run, first).items()
    }
    measured["run.step"] = steps
    cost, unknown = cost_of(run)
    measured["run.cost"] = _once(cost, "USD", unknown)
    goodput = goodput_of(store, run)
    measured["run.goodput"] = _once(goodput.share, None, goodput.unknown, "max")
    travel = gradients_of(store, run)
    why = None if travel else "no gradients were exchanged through reducers"
    measured["run.gradient_bytes"] = _once(float(travel.bytes) if travel else None, "B", why)
    for name, value in step_values(store, run.run).items():
        measured[name] = (
            _once(value, "s", None) if name in PARTS else Sample(value=value, n=1, total=1)
        )
    return measured


def _once(value: float | None, unit: str | None, reason: str | None, goal: str = "min") -> Sample:
    n = 0 if value is None else 1
    why = reason if n == 0 else None
    return Sample(value=value, n=n, total=n, unit=unit, goal=goal, reason=why)
