"""Several runs in one chart: each metric's headline series of every run, over steps and over time.

Runs of one cell of a bench have one label, and so one colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rsctl.bench.samples import Sample, quantile
from rsctl.results.report.charts import (
    DRAWN,
    LINES,
    Chart,
    ChartLine,
    LineChart,
    Point,
    thinned,
    time_unit,
)
from rsctl.results.report.run_charts import by_step, in_order
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import MetricEvent, parse_time

METRICS = 8
"""Metrics that are drawn at most; half of them of more than `MANY` runs."""

MANY = 20
_POINTS = 2400  # of all lines of a chart together
_FEWEST = 40


class RunCurves(NamedTuple):
    """A run with its label, its samples, and the headline series of its metrics."""

    label: str
    run: RunRecord
    samples: Mapping[str, Sample]
    headlines: Mapping[str, Sequence[MetricEvent]]


def overlay_charts(runs: Sequence[RunCurves]) -> Iterator[Chart]:
    """Each metric over steps, where the logs have them, and over the time since the start."""
    most = METRICS if len(runs) <= MANY else METRICS // 2
    for name in metric_names(runs)[:most]:
        axis = _axis(runs, name)
        chosen = _chosen(runs, name)
        points = max(_FEWEST, min(DRAWN, _POINTS // len(runs)))
        logged = [(each, each.headlines[name]) for each in runs if name in each.headlines]
        by_steps = [(each, thinned(by_step(events), points)) for each, events in logged]
        if any(found for _, found in by_steps):
            yield _chart(f"{name} over steps", "step", axis, by_steps, chosen)
        by_time = [(each, thinned(_by_time(each.run, events), points)) for each, events in logged]
        last = max((x for _, found in by_time for x, _ in found), default=1.0)
        divisor, unit = time_unit(last)
        scaled = [(each, [(x / divisor, y) for x, y in found]) for each, found in by_time]
        title = f"time since the start of each run ({unit})"
        yield _chart(f"{name} over time", title, axis, scaled, chosen)


def metric_names(runs: Sequence[RunCurves]) -> list[str]:
    """The metrics of the runs, those first that their job files declare, then the most common."""
    counts = Counter(name for run in runs for name in run.headlines)
    declared = dict.fromkeys(name for run in runs for name in run.run.metrics_spec)
    rank = {name: position for position, name in enumerate(declared)}
    return sorted(counts, key=lambda name: (rank.get(name, len(rank)), -counts[name]))


def _axis(runs: Sequence[RunCurves], name: str) -> str:
    specs = [run.run.metrics_spec[name] for run in runs if name in run.run.metrics_spec]
    unit = next((spec.unit for spec in specs if spec.unit), None)
    return f"{name} ({unit})" if unit else name


def _chosen(runs: Sequence[RunCurves], name: str) -> tuple[list[str], str]:
    """The labels that get a separate colour, and the rule of their choice, as a sentence."""
    labels = list(dict.fromkeys(run.label for run in runs if name in run.headlines))
    if len(labels) <= LINES:
        return labels, ""
    values: dict[str, list[float]] = {}
    goal = None
    for run in runs:
        sample = run.samples.get(name)
        if sample is not None and sample.value is not None:
            values.setdefault(run.label, []).append(sample.value)
            goal = sample.goal or goal
    most = LINES - 1
    if goal is None:
        return labels[:most], (
            f"The first {most} of {len(labels)} are in color; all others are grey."
        )
    sign = 1 if goal == "min" else -1
    best = sorted(values, key=lambda label: sign * quantile(values[label], 0.5))
    return best[:most], f"The best {most} of {len(labels)} are in color; all others are grey."


def _chart(
    title: str,
    x: str,
    y: str,
    found: Sequence[tuple[RunCurves, list[Point]]],
    chosen: tuple[list[str], str],
) -> LineChart:
    labels, note = chosen
    order = {label: position for position, label in enumerate(labels)}
    lines = [ChartLine(each.label, points) for each, points in found if points]
    shown = [line for line in lines if line.label in order]
    return LineChart(
        title,
        x,
        y,
        sorted(shown, key=lambda line: order[line.label]),
        note=note,
        others=[line for line in lines if line.label not in order],
    )


def _by_time(run: RunRecord, events: Sequence[MetricEvent]) -> list[Point]:
    try:
        start = parse_time(run.started or run.created)
        timed = [((parse_time(e.time) - start).total_seconds(), e.value) for e in events]
    except ValueError:
        return []
    return in_order(timed)
