"""Draws charts that have a row for each thing: bars, dots, intervals, timelines."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rsctl.results.report import palette
from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    DotChart,
    IntervalChart,
    Timeline,
    is_dense,
    most_rows,
    row_labels,
    short,
    time_unit,
)
from rsctl.results.report.plot import Plot, drawable, tick_of
from rsctl.runs.stream.formatting import format_number


def _rows(chart: Chart, plot: Plot) -> None:
    """Rows from above. Each has its label above it, so that long ones have the whole width; many
    with short ones have them at their left."""
    labels = row_labels(chart)[: most_rows(chart)]
    up = plot.up
    up.has_marks = False
    if is_dense(chart):
        up.low, up.high, up.size = len(labels) - 0.4, -0.6, 8
        up.ticks = [(at, short(label)) for at, label in enumerate(labels)]
        return
    up.low, up.high, up.has_line = len(labels) - 0.4, -0.85, False
    for index, label in enumerate(labels):
        plot.text(None, index - 0.25, short(label, 56), 10, lift=2, has_halo=True)


def _look(chart: Chart) -> tuple[float, float, float]:
    """The height of a bar, the size of a text beside it, and the size of a mark."""
    return (0.72, 8, 4.5) if is_dense(chart) else (0.42, 10, 7)


def _value_axis(plot: Plot, title: str) -> None:
    plot.across.mark(6, tick_of(plot.across.high - plot.across.low))
    plot.x_title = short(title, 52)


def _no_data(plot: Plot, index: int) -> None:
    plot.text(None, index, "no data", 9, palette.FAINT)


def draw_bars(chart: BarChart, plot: Plot) -> None:
    """Bars from zero, with their values beside them."""
    bars = chart.bars[: most_rows(chart)]
    _rows(chart, plot)
    height, size, _ = _look(chart)
    ends = [drawable(end) for bar in bars for end in _ends(bar)]
    highest = max(map(abs, ends), default=0) or 1
    plot.across.low, plot.across.high = min([0, *ends]), highest * 1.2
    for index, bar in enumerate(bars):
        if bar.value is None:
            _no_data(plot, index)
            continue
        value, half = drawable(bar.value), height / 2
        plot.box(0, value, index - half, index + half, palette.SERIES[0])
        if bar.low is not None and bar.high is not None:
            plot.line(_interval(bar.low, bar.high, index), palette.INK, 1.5)
        end = max(value, drawable(bar.high or 0))
        plot.text(end + highest * 0.015, index, format_number(bar.value), size)
    _value_axis(plot, chart.x)


def _interval(low: float, high: float, index: int) -> Sequence[tuple[float, float]]:
    return [(drawable(low), index), (drawable(high), index)]


def draw_dots(chart: DotChart, plot: Plot) -> None:
    """The values of each row as dots, and their median as a line."""
    rows = [(label, [*map(drawable, values)]) for label, values in chart.rows[: most_rows(chart)]]
    _rows(chart, plot)
    plot.across.span([value for _, values in rows for value in values], 0.06)
    for index, (_, values) in enumerate(rows):
        if not values:
            _no_data(plot, index)
            continue
        middle = median(values)
        plot.line([(middle, index - 0.2), (middle, index + 0.2)], palette.INK, 2)
        dots = [(value, index) for value in values]
        plot.marks(dots, "o", 5, palette.SERIES[0], opacity=0.75)
    _value_axis(plot, chart.x)


def draw_intervals(chart: IntervalChart, plot: Plot) -> None:
    """Effects as dots, with their intervals as lines, beside a line at zero."""
    bars = chart.bars[: most_rows(chart)]
    _rows(chart, plot)
    plot.across.span([0.0, *(drawable(end) for bar in bars for end in _ends(bar))], 0.08)
    plot.line([(0, plot.up.low), (0, plot.up.high)], palette.FAINT, 1)
    for index, bar in enumerate(bars):
        if bar.value is None:
            _no_data(plot, index)
            continue
        if bar.low is not None and bar.high is not None:
            plot.line(_interval(bar.low, bar.high, index), palette.SERIES[0], 2.5)
        plot.marks([(drawable(bar.value), index)], "o", 5, palette.SERIES[0])
    _value_axis(plot, chart.x)


def _ends(bar: Bar) -> Sequence[float]:
    return [end for end in (bar.low, bar.value, bar.high) if end is not None]


def draw_timeline(chart: Timeline, plot: Plot) -> None:
    """The spans of each row as bars, and its moments as marks."""
    rows = chart.rows[: most_rows(chart)]
    _rows(chart, plot)
    height, _, mark_size = _look(chart)
    ends = [s.end for row in rows for s in row.spans] + [m.at for row in rows for m in row.marks]
    divisor, unit = time_unit(max(ends, default=1.0))
    low = min(0.0, min((s.start for row in rows for s in row.spans), default=0.0)) / divisor
    high = max(ends, default=1.0) / divisor
    plot.across.low, plot.across.high = low, high + (0.05 * (high - low) or 1.0)
    for index, row in enumerate(rows):
        for start, end, kind in row.spans:
            color = palette.KINDS.get(kind, palette.FAINT)
            half = height / 2
            plot.box(start / divisor, end / divisor, index - half, index + half, color)
        for at, kind in row.marks:
            shape = palette.MARKERS.get(kind, ("o", ""))[0]
            color = palette.KINDS.get(kind, palette.INK)
            plot.marks([(at / divisor, index)], shape, mark_size, color, is_outlined=True)
    _value_axis(plot, f"time since the submission ({unit})")
