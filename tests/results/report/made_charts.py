"""Charts to draw, and what is written in a drawing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

from rsctl.bench.samples import Sample
from rsctl.findings import JobState
from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    ChartLine,
    ChartMark,
    DotChart,
    HistoryChart,
    HistoryStep,
    IntervalChart,
    LineChart,
    Point,
    Span,
    Timeline,
    TimelineRow,
)
from rsctl.results.report.drawing import file_bytes
from rsctl.results.report.overlay_charts import RunCurves
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.stream.metrics import MetricSpec
from tests.cli.conftest import at


def curves(
    label: str,
    metrics: Mapping[str, Sequence[float]],
    samples: Mapping[str, Sample] | None = None,
    declared: Mapping[str, MetricSpec] | None = None,
    is_stepped: bool = True,
    **fields: Any,
) -> RunCurves:
    """A run that was submitted at second 0 and has logged a value of each metric every second."""
    run = RunRecord(
        run=label, name="job", target="process", url="process://x", state=JobState.SUCCEEDED,
        metrics_spec=dict(declared or {}), **{"created": at(0), "plan": {}, **fields},
    )  # fmt: skip
    headlines = {
        name: [
            MetricEvent(
                time=f"2026-01-31T12:{second // 60:02}:{second % 60:02}.000000Z",
                replica="worker-0",
                name=name,
                value=value,
                step=10 * second if is_stepped else None,
            )
            for second, value in enumerate(values)
        ]
        for name, values in metrics.items()
    }  # fmt: skip
    return RunCurves(label, run, samples or {}, headlines)


def one_line(xs: Sequence[float], ys: Sequence[float], x: str = "x", y: str = "y") -> LineChart:
    return LineChart("t", x, y, [ChartLine("a", list(zip(xs, ys, strict=True)))])


def texts(chart: Chart, place: str = "") -> list[str]:
    """The texts of a drawing; of the places `middle`, below it, or `end`, at its left."""
    svg = file_bytes(chart, "svg").decode()
    end = f' text-anchor="{place}"' if place else ""
    return [unescape(text) for text in re.findall(rf"<text [^>]*{end}[^>]*>([^<]*)</text>", svg)]


def evenly(step: float, count: int) -> list[float]:
    return [step * n for n in range(count)]


def row_charts(names: Sequence[str]) -> list[Chart]:
    bars = [Bar(name, 1.0, 0.5, 1.5) for name in names]
    timeline = [TimelineRow(name, [Span(0, 9, "running")]) for name in names]
    return [
        BarChart("t", "x", bars),
        DotChart("t", "x", [(name, [1.0, 2.0]) for name in names]),
        IntervalChart("t", "x", bars),
        Timeline("t", timeline),
    ]


def history(medians: Sequence[float], steps: Sequence[tuple[int, int]] = ()) -> HistoryChart:
    runs, commits = [[value] for value in medians], [f"c{n}" for n in range(len(medians))]
    found = [HistoryStep(first, last, f"{first} %") for first, last in steps]
    return HistoryChart("t", "commits", "s", commits, runs, steps=found)


def two_lines(name: str) -> LineChart:
    return LineChart("t", "x", "y", [ChartLine(name, [(0, 1), (1, 2)]), ChartLine("", [(0, 1)])])


def many_lines(name: str, points: Sequence[Point]) -> LineChart:
    others = [ChartLine(str(n), points) for n in range(8)]
    return LineChart("t", "x", "y", [ChartLine(name, [(x, y + 1) for x, y in points]), *others])


ROWS = [TimelineRow(f"r{n}", [Span(n, n + 0.25, "running")], [ChartMark(n + 0.5, "failed")])
        for n in range(2)]  # fmt: skip


BARS = [Bar(f"b{n}", float(n)) for n in range(7)]
