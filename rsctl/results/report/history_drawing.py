"""Draws the values of a metric over commits, with the levels between its steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from rsctl.bench.steps import middle
from rsctl.results.report import palette
from rsctl.results.report.charts import HistoryChart, short
from rsctl.results.report.row_drawing import ROUND, tick_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = 5
_MOST_DOTS = 1500
_HUGE = 1e100


def draw_history(chart: HistoryChart, axes: Axes) -> None:
    """Single runs as faint dots, their medians as dots, levels as lines, steps as shaded ranges."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    medians = [middle(runs) for runs in chart.runs]
    shown = [(x, y) for x, y in enumerate(medians) if isfinite(y) and abs(y) < _HUGE]
    low, high = _extent([y for _, y in shown])
    dots = [
        (x, y)
        for x, runs in enumerate(chart.runs)
        for y in runs
        if len(runs) > 1 and low <= y <= high
    ][:_MOST_DOTS]
    for step in chart.steps:
        axes.axvspan(
            *(step.first - 0.5 - 0.5 * (step.first == step.last), step.last + 0.5 - 0.5),
            color=palette.SERIES[1].light,
            alpha=0.16,
            linewidth=0,
        )
    style = {"linestyle": "none", "marker": "o", "markeredgewidth": 0}
    if dots:
        xs, ys = zip(*dots, strict=True)
        axes.plot(xs, ys, color=palette.FAINT.light, alpha=0.4, markersize=2.6, **style)  # type: ignore[arg-type]
    xs, ys = zip(*shown, strict=True)
    axes.plot(xs, ys, color=palette.SERIES[0].light, markersize=4.2, **style)  # type: ignore[arg-type]
    for start, end, level in chart.levels:
        axes.plot(
            (start - 0.4, end + 0.4), (level, level), color=palette.SERIES[1].light, linewidth=2.0
        )
    axes.set_ylim(low, high)
    _label_steps(chart, axes)
    axes.set_xlim(-0.9, len(medians) - 0.1)
    ticks = _tick_positions(len(medians))
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.set_xticklabels([chart.commits[at] for at in ticks], fontsize=9)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=ROUND))
    axes.yaxis.set_major_formatter(tick_of(high - low))
    axes.grid(True, axis="y", linewidth=0.7)
    axes.set_xlabel(short(chart.x, 60))
    axes.set_title(short(chart.y, 52), loc="left", fontsize=11, color=palette.FAINT.light)


def _extent(values: Sequence[float]) -> tuple[float, float]:
    """The ends of the axis of values, with room for the sizes of steps above."""
    low, high = min(values), max(values)
    room = (high - low) or abs(high) * 0.1 or 1.0
    return low - 0.08 * room, high + 0.2 * room


def _label_steps(chart: HistoryChart, axes: Axes) -> None:
    """The size of each step at the top, unless it would be on another one."""
    least, last = max(1.0, len(chart.commits) * 0.13), float("-inf")
    for step in chart.steps:
        at = (step.first + step.last) / 2 - 0.5
        if at - last < least:
            continue
        last = at
        axes.text(
            *(at, 0.985, step.text),
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize=9,
            color=palette.INK.light,
            bbox={"facecolor": palette.PAPER.light, "edgecolor": "none", "pad": 0.8},
        )


def _tick_positions(count: int) -> list[int]:
    """Up to five positions that are evenly spread, the first and the last among them."""
    if count <= _TICKS:
        return list(range(count))
    return [round(index * (count - 1) / (_TICKS - 1)) for index in range(_TICKS)]
