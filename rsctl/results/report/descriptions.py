"""Descriptions of charts in a sentence, for readers that do not see the drawing."""

from __future__ import annotations

from rsctl.findings import counted, first_of
from rsctl.results.report.charts import (
    BarChart,
    Chart,
    DotChart,
    HeatMap,
    HistoryChart,
    LineChart,
    Timeline,
    finite,
)
from rsctl.runs.stream.formatting import format_number

_LINES = 4
_ROWS = 6


def describe(chart: Chart) -> str:
    """The kind of a chart, its title, how much is in it, and its main values."""
    kind, text = _content(chart)
    return f"{kind}: {chart.title}. {text}"


def _content(chart: Chart) -> tuple[str, str]:
    if isinstance(chart, LineChart):
        return "Line chart", _lines(chart)
    if isinstance(chart, Timeline):
        return "Timeline", f"{counted(len(chart.rows), 'row')}: {_kinds(chart)}."
    if isinstance(chart, HistoryChart):
        return "Chart of a history", _history(chart)
    if isinstance(chart, HeatMap):
        known = [value for row in chart.values for value in row if value is not None]
        extent = (
            f"{format_number(min(known))} to {format_number(max(known))}" if known else "no data"
        )
        return "Heat map", f"{chart.row_key} by {chart.column_key}: {extent}."
    if isinstance(chart, DotChart):
        ends = [
            f"{label} {format_number(min(values))} to {format_number(max(values))}"
            for label, values in chart.rows
            if values
        ]
        return "Dot chart", f"{first_of(ends, _ROWS)}."
    bars = [
        f"{bar.label} {format_number(bar.value)}" for bar in chart.bars if bar.value is not None
    ]
    kind = "Bar chart" if isinstance(chart, BarChart) else "Interval chart"
    return kind, f"{first_of(bars, _ROWS)}. In {chart.x}." if bars else "No data."


def _lines(chart: LineChart) -> str:
    parts = []
    for line in chart.lines[:_LINES]:
        points = finite(line.points)
        if points:
            ys = [y for _, y in points]
            parts.append(
                f"{line.label}: from {format_number(ys[0])} to {format_number(ys[-1])}, "
                f"lowest {format_number(min(ys))}, highest {format_number(max(ys))}"
            )
    left = len(chart.lines) + len(chart.others) - len(parts)
    more = f"; {counted(left, 'more line')}" if left > 0 else ""
    return f"{chart.y} over {chart.x}. {'; '.join(parts)}{more}."


def _history(chart: HistoryChart) -> str:
    steps = [f"{step.text} at {chart.commits[step.first]}" for step in chart.steps]
    found = f"steps: {first_of(steps, _ROWS)}." if steps else "no step."
    return f"{chart.y} of {counted(len(chart.commits), 'commit')}; {found}"


def _kinds(chart: Timeline) -> str:
    kinds = dict.fromkeys(span.kind for row in chart.rows for span in row.spans)
    marks = dict.fromkeys(mark.kind for row in chart.rows for mark in row.marks)
    return ", ".join([*kinds, *marks]) or "nothing"
