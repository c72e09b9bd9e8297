"""Draws charts that have a row for each thing: bars, dots, intervals, timelines."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, log10
from typing import TYPE_CHECKING

from rsctl.results.report import palette
from rsctl.results.report.charts import (
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
from rsctl.runs.stream.formatting import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ROUND = (1, 2, 2.5, 5, 10)
"""The steps between ticks, times a power of ten."""


def _rows(chart: Chart, axes: Axes) -> None:
    """Rows from above. Each has its label above it, so that long ones have the whole width; many
    with short ones have them at their left."""
    labels = row_labels(chart)[: most_rows(chart)]
    axes.grid(True, axis="x", linewidth=0.7)
    if is_dense(chart):
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.set_yticks(range(len(labels)), [short(label) for label in labels])
        axes.tick_params(axis="y", length=0, labelsize=8)
        return
    axes.set_ylim(len(labels) - 0.4, -0.85)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for index, label in enumerate(labels):
        axes.text(
            *(0.0, index - 0.25, short(label, 56)),
            transform=axes.get_yaxis_transform(),
            fontsize=10,
            va="bottom",
            bbox={"facecolor": palette.PAPER.light, "edgecolor": "none", "pad": 0.6},
        )


def _look(chart: Chart) -> tuple[float, float, float]:
    """The height of a bar, the size of a text beside it, and the size of a mark."""
    return (0.72, 8, 4.5) if is_dense(chart) else (0.42, 10, 7)


def draw_bars(chart: BarChart, axes: Axes) -> None:
    bars = chart.bars[: most_rows(chart)]
    _rows(chart, axes)
    height, size, _ = _look(chart)
    highest = max((bar.high or bar.value or 0 for bar in bars), default=0) or 1
    for index, bar in enumerate(bars):
        if bar.value is None:
            axes.text(0, index, "no data", va="center", fontsize=9, color=palette.FAINT.light)
            continue
        axes.barh(index, bar.value, height=height, color=palette.SERIES[0].light)
        if bar.low is not None and bar.high is not None:
            axes.plot([bar.low, bar.high], [index, index], color=palette.INK.light, linewidth=1.5)
        end = max(bar.value, bar.high or 0)
        axes.text(
            end + highest * 0.015, index, format_number(bar.value), va="center", fontsize=size
        )
    axes.set_xlim(0, highest * 1.2)
    _value_axis(axes, chart.x)


def draw_dots(chart: DotChart, axes: Axes) -> None:
    rows = chart.rows[: most_rows(chart)]
    _rows(chart, axes)
    for index, (_, values) in enumerate(rows):
        if not values:
            axes.text(
                *(0.0, index, "no data"),
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=9,
                color=palette.FAINT.light,
            )
            continue
        middle = sorted(values)[len(values) // 2]
        if len(values) % 2 == 0:
            middle = (middle + sorted(values)[len(values) // 2 - 1]) / 2
        axes.plot(
            [middle, middle], [index - 0.2, index + 0.2], color=palette.INK.light, linewidth=2
        )
        axes.plot(
            *(values, [index] * len(values)),
            color=palette.SERIES[0].light,
            linestyle="none",
            marker="o",
            markersize=5,
            markeredgewidth=0,
            alpha=0.75,
        )
    axes.margins(x=0.06)
    _value_axis(axes, chart.x)


def draw_intervals(chart: IntervalChart, axes: Axes) -> None:
    bars = chart.bars[: most_rows(chart)]
    _rows(chart, axes)
    axes.axvline(0, color=palette.FAINT.light, linewidth=1)
    for index, bar in enumerate(bars):
        if bar.value is None:
            axes.text(0, index, " no data", va="center", fontsize=9, color=palette.FAINT.light)
            continue
        color = palette.SERIES[0].light
        if bar.low is not None and bar.high is not None:
            axes.plot([bar.low, bar.high], [index, index], color=color, linewidth=2.5)
        axes.plot([bar.value], [index], color=color, marker="o", markersize=5)
    axes.margins(x=0.08)
    _value_axis(axes, chart.x)


def _value_axis(axes: Axes, title: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=ROUND))
    low, high = axes.get_xlim()
    axes.xaxis.set_major_formatter(FuncFormatter(tick_of(high - low)))
    axes.set_xlabel(short(title, 52))


def draw_timeline(chart: Timeline, axes: Axes) -> None:
    rows = chart.rows[: most_rows(chart)]
    _rows(chart, axes)
    height, _, mark_size = _look(chart)
    ends = [s.end for row in rows for s in row.spans] + [m.at for row in rows for m in row.marks]
    divisor, unit = time_unit(max(ends, default=1.0))
    for index, row in enumerate(rows):
        for start, end, kind in row.spans:
            color = palette.KINDS.get(kind, palette.FAINT).light
            axes.barh(index, (end - start) / divisor, height, left=start / divisor, color=color)
        for at, kind in row.marks:
            axes.plot(
                *([at / divisor], [index]),
                marker=palette.MARKERS.get(kind, ("o", ""))[0],
                markersize=mark_size,
                color=palette.KINDS.get(kind, palette.INK).light,
                markeredgecolor=palette.PAPER.light,
                clip_on=False,
                zorder=5,
            )
    axes.set_xlim(min(0.0, min((s.start for r in rows for s in r.spans), default=0.0)), None)
    _value_axis(axes, f"time since the submission ({unit})")


def tick(value: float, _position: object = None) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:g}"


def tick_of(extent: float) -> Callable[..., str]:
    """A formatter with as many digits as the extent of the axis needs."""
    digits = max(0, min(8, 2 - floor(log10(extent)) if extent > 0 else 2))

    def format_tick(value: float, _position: object = None) -> str:
        if abs(value) >= 1e6 or extent < 1e-5:
            return f"{value:.3g}"
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    return format_tick
