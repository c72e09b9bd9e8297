"""The charts of a run's GPUs, as the driver of each node reports them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rsctl.results.report.charts import LINES, Chart, ChartLine, HeatMap, LineChart
from rsctl.results.report.data import RunData
from rsctl.results.report.run_charts import byte_unit, bytes_over_time, over_time
from rsctl.runs.stream.events import MetricEvent

NODES = 4
"""Nodes with a chart of their own at most; the GPUs of more are one band, and a heat map."""

_GPU = re.compile(r"node\.gpu(\d+)\.(util_percent|memory_bytes|memory_total_bytes)")

Gpus = Mapping[str, Mapping[int, Sequence[MetricEvent]]]
"""By replica, the values of each of its GPUs."""


def gpu_charts(data: RunData) -> Iterator[Chart]:
    """Use and memory of every GPU: by node, or for many nodes in all."""
    found = _gpus(data)
    used = found.get("util_percent", {})
    for where, series in _by_chart(used):
        yield over_time(data, f"GPU in use{where}", "% of the time", series, from_zero=True)
    total = _total(found.get("memory_total_bytes", {}))
    for where, series in _by_chart(found.get("memory_bytes", {})):
        yield _with_total(bytes_over_time(data, f"GPU memory{where}", series), series, total)
    if used and _is_divided(used) and len(used) > NODES:
        yield _mean_use(
            data, used
        )  # last, for it is tall: on paper a row of charts is never divided


def _gpus(data: RunData) -> dict[str, dict[str, dict[int, Sequence[MetricEvent]]]]:
    found: dict[str, dict[str, dict[int, Sequence[MetricEvent]]]] = {}
    for name, all_events in data.metrics.items():
        if match := _GPU.fullmatch(name):
            for replica, events in all_events.items():
                found.setdefault(match[2], {}).setdefault(replica, {})[int(match[1])] = events
    return found


def _is_divided(gpus: Gpus) -> bool:
    """Whether there are more GPUs than distinguishable lines in one chart."""
    return sum(map(len, gpus.values())) > LINES


def _by_chart(gpus: Gpus) -> Iterator[tuple[str, dict[str, Sequence[MetricEvent]]]]:
    """For each chart the end of its title, and its lines by their labels."""
    if _is_divided(gpus) and 1 < len(gpus) <= NODES:
        for replica, own in gpus.items():
            yield f", {replica}", {f"GPU {index}": own[index] for index in sorted(own)}
        return
    if not gpus:
        return
    is_one_each = all(len(own) == 1 for own in gpus.values())
    yield (
        "",
        {
            replica if is_one_each else f"{replica} GPU {index}": own[index]
            for replica, own in gpus.items()
            for index in sorted(own)
        },
    )


def _mean_use(data: RunData, gpus: Gpus) -> HeatMap:
    indices = sorted({index for own in gpus.values() for index in own})
    return HeatMap(
        title="GPU in use, on average",
        unit="%",
        row_key="node",
        rows=list(gpus),
        column_key="GPU",
        columns=[str(index) for index in indices],
        values=[[_mean(data, replica, index) for index in indices] for replica in gpus],
        note="% of the time, mean of all readings; brighter is more.",
    )


def _mean(data: RunData, replica: str, index: int) -> float | None:
    curve = data.curves.get(f"node.gpu{index}.util_percent", {}).get(replica)
    mean = curve.mean if curve else None
    return None if mean is None else round(mean, 1)


def _total(totals: Gpus) -> float | None:
    """The memory of a GPU in bytes, if all have as much."""
    found = {e.value for own in totals.values() for events in own.values() for e in events}
    return found.pop() if len(found) == 1 else None


def _with_total(
    chart: LineChart, series: Mapping[str, Sequence[MetricEvent]], total: float | None
) -> LineChart:
    xs = [x for line in chart.lines for x, _ in line.points]
    most = max(event.value for events in series.values() for event in events)
    if not xs or total is None or not 0 < total < 1e15 or most > total:
        return chart
    whole = total / byte_unit(most)[0]
    return replace(
        chart, reference=ChartLine("memory of a GPU", [(min(xs), whole), (max(xs), whole)])
    )
