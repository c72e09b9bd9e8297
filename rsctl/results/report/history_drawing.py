"""Draws the values of a metric over commits, with the levels between its steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from rsctl.bench.steps import middle
from rsctl.results.report import palette
from rsctl.results.report.charts import HistoryChart, short
from rsctl.results.report.plot import HUGE, Plot, tick_of

_TICKS = 5
_MOST_DOTS = 1500


def draw_history(chart: HistoryChart, plot: Plot) -> None:
    """Single runs as faint dots, their medians as dots, levels as lines, steps as shaded ranges."""
    medians = [middle(runs) for runs in chart.runs]
    shown = [(x, y) for x, y in enumerate(medians) if isfinite(y) and abs(y) < HUGE]
    across, up = plot.across, plot.up
    up.low, up.high = low, high = _extent([y for _, y in shown])
    across.low, across.high = -0.9, len(medians) - 0.1
    across.ticks = [(at, chart.commits[at]) for at in _tick_positions(len(medians))]
    across.size = 9
    up.mark(5, tick_of(high - low))
    across.has_grid, up.has_grid = False, True
    plot.x_title, plot.title = short(chart.x, 60), short(chart.y, 52)
    for step in chart.steps:
        first = step.first - 0.5 - 0.5 * (step.first == step.last)
        plot.box(first, step.last, low, high, palette.SERIES[1], 0.16)
    dots = [
        (x, y)
        for x, runs in enumerate(chart.runs)
        for y in runs
        if len(runs) > 1 and low <= y <= high
    ][:_MOST_DOTS]
    if dots:
        plot.marks(dots, "o", 2.6, palette.FAINT, opacity=0.4)
    plot.marks(shown, "o", 4.2, palette.SERIES[0])
    for start, end, level in chart.levels:
        plot.line([(start - 0.4, level), (end + 0.4, level)], palette.SERIES[1], 2.0)
    _label_steps(chart, plot)


def _extent(values: Sequence[float]) -> tuple[float, float]:
    """The ends of the axis of values, with room for the sizes of steps above."""
    low, high = min(values), max(values)
    room = (high - low) or abs(high) * 0.1 or 1.0
    return low - 0.08 * room, high + 0.2 * room


def _label_steps(chart: HistoryChart, plot: Plot) -> None:
    """The size of each step at the top, unless it would be on another one."""
    least, last = max(1.0, len(chart.commits) * 0.13), float("-inf")
    for step in chart.steps:
        at = (step.first + step.last) / 2 - 0.5
        if at - last >= least:
            last = at
            plot.text(at, None, step.text, 9, anchor="middle", lift=0, has_halo=True)


def _tick_positions(count: int) -> list[int]:
    """Up to five positions that are evenly spread, the first and the last among them."""
    if count <= _TICKS:
        return list(range(count))
    return [round(index * (count - 1) / (_TICKS - 1)) for index in range(_TICKS)]
