"""The charts of one run: its timeline, its metrics, its machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rsctl.findings import counted
from rsctl.results.report.charts import (
    DENSE_ROWS,
    Chart,
    ChartLine,
    ChartMark,
    LineChart,
    Point,
    Span,
    Timeline,
    TimelineRow,
    time_unit,
)
from rsctl.results.report.data import RunData, Series
from rsctl.runs.stream.events import MetricEvent, StateEvent, now

METRICS = 12
"""Metrics of the job that are drawn at most."""

_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_CLOUD_UNIT = re.compile(r"[._](percent|utilization|bytes|bytes_per_s)$")
_CLOUD_NAMES = {
    "cpu": "CPU",
    "memory": "Memory",
    "disk": "Disk",
    "gpu": "GPU in use",
    "gpu memory": "GPU memory",
    "network received": "Network received",
    "network sent": "Network sent",
}


def timeline(data: RunData) -> Timeline:
    """The states of the job and of each replica, with the first metric and how each ended."""
    own = [event for event in data.states if event.replica is None]
    names = _in_order(data)
    by_replica = {n: [e for e in data.states if e.replica == n] for n in names}
    last = max((s for e in data.states if (s := data.seconds(e.time)) is not None), default=0.0)
    if data.run.ended is None:
        last = max(last, data.seconds(now()) or 0.0)
    rows = [TimelineRow("the job", _spans(data, own, last, 0.0), _marks(data, own))]
    for name, events in by_replica.items():
        marks = _marks(data, events)
        first = _first_metric(data, name)
        marks = [ChartMark(first, "first metric"), *marks] if first is not None else marks
        rows.append(TimelineRow(name, _spans(data, events, last), marks))
    return Timeline("States of the job and its replicas", rows)


def _in_order(data: RunData) -> list[str]:
    """The replicas, but of more than are drawn the one that failed first stands first."""
    names = list(dict.fromkeys(r.replica for r in data.run.replicas))
    failure = data.run.first_failure
    if failure is not None and failure.replica in names[DENSE_ROWS - 1 :]:
        names.remove(failure.replica)
        names.insert(0, failure.replica)
    return names


def _spans(
    data: RunData, events: Sequence[StateEvent], last: float, start: float | None = None
) -> list[Span]:
    """The stretches between states; `start` is when the job was queued."""
    known = [(s, e) for e in events if (s := data.seconds(e.time)) is not None]
    spans: list[Span] = []
    if start is not None and known and known[0][0] > start:
        spans.append(Span(start, known[0][0], "queued"))
    ends = [*(time for time, _ in known[1:]), last]
    for (begin, event), end in zip(known, ends, strict=True) if known else ():
        if event.state.is_final or end <= begin:
            continue
        kind = event.state.value
        if spans and spans[-1].kind == kind and abs(spans[-1].end - begin) < 1e-6:
            spans[-1] = spans[-1]._replace(end=end)
        else:
            spans.append(Span(begin, end, kind))
    return spans


def _marks(data: RunData, events: Sequence[StateEvent]) -> list[ChartMark]:
    return [
        ChartMark(seconds, event.state.value)
        for event in events
        if event.state.is_final and (seconds := data.seconds(event.time)) is not None
    ]


def _first_metric(data: RunData, replica: str) -> float | None:
    times = [
        events[0].time for name in data.logged() if (events := data.metrics[name].get(replica))
    ]
    return data.seconds(min(times)) if times else None


def metric_charts(data: RunData) -> Iterator[Chart]:
    """Each metric of the job over its steps, where the log has them, and over time."""
    for name in data.logged()[:METRICS]:
        unit = data.unit(name)
        axis = f"{name} ({unit})" if unit else name
        series = data.metrics[name]
        steps = [ChartLine(r, by_step(events)) for r, events in series.items()]
        steps = [line for line in steps if line.points]
        note = _left_out(data, name)
        if steps:
            yield LineChart(f"{name} over steps", "step", axis, steps, note=note)
        yield over_time(data, f"{name} over time", axis, series, note=note)


def by_step(events: Sequence[MetricEvent]) -> list[Point]:
    """The values that have a step, over it."""
    return in_order((float(e.step), e.value) for e in events if e.step is not None)


def in_order(points: Iterable[Point]) -> list[Point]:
    """Points by x. Those of one x stay as they came: by y they would be the teeth of a saw."""
    return sorted(points, key=lambda point: point[0])


def _left_out(data: RunData, name: str) -> str:
    """How many values of a metric cannot be drawn, and the first of them."""
    curves = data.curves[name].values()
    strange = [curve.strange[1] for curve in curves if curve.strange]
    if not strange:
        return ""
    first = min(strange, key=lambda event: event.time)
    count = counted(sum(curve.strange_count for curve in curves), "value")
    where = f" at step {first.step}" if first.step is not None else ""
    verb = "is" if count.startswith("1 ") else "are"
    return f"Not drawn: {count} that {verb} not finite, the first {first.value:g}{where}."


def over_time(
    data: RunData,
    title: str,
    axis: str,
    series: Series,
    scale: float = 1.0,
    from_zero: bool = False,
    note: str = "",
) -> LineChart:
    """A line for each replica over time; values are divided by `scale`."""
    timed = {
        replica: [(s, e.value) for e in events if (s := data.seconds(e.time)) is not None]
        for replica, events in series.items()
    }
    return _time_chart(title, axis, timed, scale, note, from_zero)


def _time_chart(
    title: str,
    axis: str,
    timed: dict[str, list[Point]],
    scale: float,
    note: str,
    from_zero: bool = True,
) -> LineChart:
    last = max((x for points in timed.values() for x, _ in points), default=1.0)
    divisor, unit = time_unit(last)
    lines = [
        ChartLine(name, in_order((x / divisor, y / scale) for x, y in points))
        for name, points in timed.items()
        if points
    ]
    return LineChart(
        title, f"time since the submission ({unit})", axis, lines, from_zero=from_zero, note=note
    )


def machine_charts(data: RunData) -> Iterator[Chart]:
    """CPU, memory and network of every replica, as nodes report them."""
    metrics = data.metrics
    if series := metrics.get("node.cpu_percent"):
        yield over_time(data, "CPU", "% of one core", series, from_zero=True)
    if series := metrics.get("node.rss_bytes"):
        note = "Resident memory of the job's processes; shared memory counts once for each process."
        yield bytes_over_time(data, "Memory", series, note)
    for name, title in (
        ("node.net_tx_bytes", "Network, sent"),
        ("node.net_rx_bytes", "Network, received"),
    ):
        if series := metrics.get(name):
            yield _rates(data, title, series)


def bytes_over_time(data: RunData, title: str, series: Series, note: str = "") -> LineChart:
    """A line for each replica over time, in a unit that fits the most."""
    most = max((e.value for events in series.values() for e in events), default=0.0)
    scale, unit = byte_unit(most)
    return over_time(data, title, unit, series, scale, from_zero=True, note=note)


def byte_unit(most: float) -> tuple[float, str]:
    """The divisor of bytes for an axis up to `most`, and the unit."""
    return next((pair for pair in _BYTE_UNITS if most >= pair[0]), (1.0, "B"))


def _rates(data: RunData, title: str, series: Series) -> LineChart:
    """Bytes counted from the start as bytes a second between two readings."""
    timed = {}
    for replica, events in series.items():
        known = [(s, e.value) for e in events if (s := data.seconds(e.time)) is not None]
        timed[replica] = [
            (later, (after - before) / (later - earlier))
            for (earlier, before), (later, after) in pairwise(known)
            if later > earlier and after >= before  # an attempt starts from zero
        ]
    most = max((y for points in timed.values() for _, y in points), default=0.0)
    scale, unit = byte_unit(most)
    note = "Mean rate between two readings of the interface's counter."
    return _time_chart(title, f"{unit}/s", timed, scale, note)


def cloud_charts(data: RunData) -> Iterator[Chart]:
    """The cloud's own measurements of each replica."""
    for name, series in data.metrics.items():
        if not name.startswith("cloud."):
            continue
        what = name.removeprefix("cloud.")
        most = max((e.value for events in series.values() for e in events), default=0.0)
        scale, unit = (1.0, "%") if what.endswith("percent") else (1.0, what)
        if "bytes" in what:
            scale, unit = byte_unit(most)
            unit += "/s" if what.endswith("per_s") else ""
        elif what.endswith("utilization"):  # a part of 1
            scale, unit = 0.01, "%"
        words = _CLOUD_UNIT.sub("", what).replace(".", " ").replace("_", " ")
        title = _CLOUD_NAMES.get(words, words)
        yield over_time(
            data, f"{title}, reported by the cloud", unit, series, scale, from_zero=True
        )
