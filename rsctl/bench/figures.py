"""Figures of a run: one number a metric, aggregated over the run's steady part.

Besides the metrics of the job there are those of the run itself, named `run.…`: the seconds of its
phases, its cost, the bytes of its gradients. What a run lacks has no value and a reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Optional

import msgspec

from rsctl.bench.phases import phases_of, step_seconds
from rsctl.bench.steady import steady
from rsctl.costs.run_cost import cost_of
from rsctl.runs.gradients import gradients_of
from rsctl.runs.store import Run, Store
from rsctl.stream.aggregates import AGGREGATES
from rsctl.stream.aggregates import quantile as quantile
from rsctl.stream.events import MetricEvent
from rsctl.stream.headline import headline_series
from rsctl.stream.metrics import MACHINES, MetricSpec


class Figure(msgspec.Struct, kw_only=True):
    """One metric of one run, over its headline series: see `rsctl.stream.headline`.

    `value` is None where there is no data, and `reason` says why. `n` is the number of samples of
    the steady part, of `total` in all; `spread` is their interquartile range, None for fewer than
    two. `goal` is `min`, `max` or None. `aggregate` and `warmup` are the
    metric's definition, None for what is measured once.
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


def figures(store: Store, run: Run) -> dict[str, Figure]:
    """The figures of a run by name: metrics that are declared, others logged, those of the run.

    They are what is known so far, whatever the run's state: who decides by them must check that.
    """
    logged = _logged(store, run.run)
    names = [*run.metrics_spec, *(name for name in logged if name not in run.metrics_spec)]
    found = {
        name: _figure(logged.get(name, []), run.metrics_spec.get(name, MetricSpec()))
        for name in names
    }
    measured = _of_run(store, run, list(logged.values()))
    return {**found, **{name: figure for name, figure in measured.items() if name not in found}}


def figure_of(values: Sequence[float], spec: MetricSpec, total: int | None = None) -> Figure:
    """The figure of the samples of a steady part, of `total` samples in all."""
    common = Figure(
        n=len(values),
        total=len(values) if total is None else total,
        unit=spec.unit,
        goal=spec.goal,
        aggregate=spec.aggregate,
        warmup=spec.warmup,
    )
    strange = sum(not math.isfinite(value) for value in values)
    if not values:
        common.reason = "all values belong to the warm-up" if total else "the log has no value"
    elif strange:
        common.reason = f"{strange} of {len(values)} values are not finite"
    else:
        common.value = AGGREGATES[spec.aggregate](values)
        common.spread = quantile(values, 0.75) - quantile(values, 0.25) if values[1:] else None
    return common


def _figure(logged: Sequence[MetricEvent], spec: MetricSpec) -> Figure:
    series = headline_series(logged, spec)
    kept = steady(series, spec.warmup)
    return figure_of([m.value for m in kept], spec, len(series))


def _logged(store: Store, run: str) -> dict[str, list[MetricEvent]]:
    """All values of the run's metrics in the order of arrival, without those of machines."""
    found: dict[str, list[MetricEvent]] = {}
    for _, metric in store.metrics(run):
        if not metric.name.startswith(MACHINES):
            found.setdefault(metric.name, []).append(metric)
    return found


def _by_replica(events: Sequence[MetricEvent]) -> Iterator[list[MetricEvent]]:
    series: dict[str, list[MetricEvent]] = {}
    for event in events:
        series.setdefault(event.replica, []).append(event)
    yield from series.values()


def _of_run(store: Store, run: Run, logged: list[list[MetricEvent]]) -> dict[str, Figure]:
    """What is measured of every run."""
    first = min((event.time for events in logged for event in events), default=None)
    measured = {
        f"run.{name}": _once(seconds, "s", reason)
        for name, (seconds, reason) in phases_of(run, first).items()
    }
    steps = step_seconds([series for events in logged for series in _by_replica(events)])
    measured["run.step"] = figure_of(steps, MetricSpec(goal="min", unit="s"))
    if not steps:
        measured["run.step"].reason = "the log has no steps: give a metric's regex a group `step`"
    measured["run.cost"] = _once(*_unit(cost_of(run)))
    travel = gradients_of(store, run)
    why = None if travel else "no gradients went over reducers"
    measured["run.gradient_bytes"] = _once(float(travel.bytes) if travel else None, "B", why)
    return measured


def _unit(cost: tuple[float | None, str | None]) -> tuple[float | None, str, str | None]:
    return cost[0], "USD", cost[1]


def _once(value: float | None, unit: str, reason: str | None) -> Figure:
    n = 0 if value is None else 1
    return Figure(
        value=value, n=n, total=n, unit=unit, goal="min", reason=reason if n == 0 else None
    )
