"""Charts of metrics in the terminal."""

from __future__ import annotations

import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotille
import typer

from rsctl.api import replica_order
from rsctl.cli.output import in_color
from rsctl.results.report.charts import ChartLine, band
from rsctl.runs.stream.events import MetricEvent, seconds_between
from rsctl.runs.stream.formatting import format_number
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.stream.sanitize import sanitize_line

_HEIGHT = 12
_MARGIN = 24  # columns that the labels of the axes take
TICK = 10  # columns between two ticks of the x axis; on the y axis each row has one
_DOTS, _DOTS_BELOW = 2, 4  # columns and rows of dots in a character
_ROUNDING = 1e-9  # of an axis: less than that is an error of the arithmetic
_MOST_VALUES = 8
_DIGITS = 4  # that every number has
_MAX_VALUE = 1e300  # plotille's own arithmetic overflows beyond
MARKERS = "abcdefghijklmnopqrstuvwxyz"
Point = tuple[float, float]
COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red")


def new_figure(x: str, y: str, height: int) -> Any:
    """An empty chart as wide as the terminal, with the names of its axes."""
    figure = plotille.Figure()
    figure.width = max(2, (shutil.get_terminal_size().columns - _MARGIN) // TICK) * TICK
    figure.height = height
    figure.with_colors = in_color(sys.stdout)
    figure.x_label, figure.y_label = x, y
    figure.register_label_formatter(float, format_tick)
    return figure


def plot_metrics(metrics: Iterable[MetricEvent], specs: Mapping[str, MetricSpec]) -> None:
    """One chart per metric; by step if all its values have one, otherwise by seconds."""
    series: dict[str, list[MetricEvent]] = {}
    for metric in metrics:
        series.setdefault(metric.name, []).append(metric)
    if not series:
        typer.echo("no metrics to draw", err=True)
    for name, events in series.items():
        spec = specs.get(name)
        typer.echo(_chart(name, events, spec.unit if spec else None))


def _chart(name: str, events: list[MetricEvent], unit: str | None) -> str:
    drawn = [event for event in events if abs(event.value) < _MAX_VALUE]
    left_out = [event for event in events if not abs(event.value) < _MAX_VALUE]
    counts = Counter(event.replica for event in drawn)
    chart = _draw(drawn, unit) if max(counts.values(), default=0) > 1 else _single(drawn, unit)
    note = f"not drawn: {_describe(left_out)}\n" if left_out else ""
    return f"{sanitize_line(name)}\n{chart}{note}"


def _single(events: list[MetricEvent], unit: str | None) -> str:
    """One value for each replica, which makes no line."""
    shown = sorted(events, key=lambda event: replica_order(event.replica))[:_MOST_VALUES]
    more = len(events) - len(shown)
    of_unit = f" ({sanitize_line(unit)})" if unit else ""
    lines = [f"  {_describe([event])}{of_unit}" for event in shown]
    lines += [f"  and {more} more replicas"] if more else []
    return "".join(f"{line}\n" for line in lines)


def _describe(events: list[MetricEvent]) -> str:
    """The values beyond the range of an axis: their number, and the position of the first."""
    first = events[0]
    where = f" at step {first.step}" if first.step is not None else ""
    what = f"{format_number(first.value)} on {sanitize_line(first.replica)}{where}"
    return what if len(events) == 1 else f"{len(events)} values, the first {what}"


def _draw(events: list[MetricEvent], unit: str | None) -> str:
    """A line for each replica, or the highest, median and lowest of many; over steps if all values
    have one.
    """
    by_step = all(event.step is not None for event in events)
    start = min(event.time for event in events)
    lines: dict[str, list[Point]] = {}
    for event in events:
        point = (_position(event, start, by_step), event.value)
        lines.setdefault(event.replica, []).append(point)

    figure = new_figure("step" if by_step else "seconds", unit or "", _HEIGHT)
    positions = [x for points in lines.values() for x, _ in points]
    values = [event.value for event in events]
    low, high = round_limits(min(0.0, *positions), max(positions), figure.width // TICK)
    figure.set_x_limits(low, high)
    figure.set_y_limits(*round_limits(min(values), max(values), _HEIGHT))

    drawn = [ChartLine(name, lines[name]) for name in sorted(lines, key=replica_order)]
    if len(drawn) > len(COLORS):
        rows = band(drawn, figure.width)
        drawn = [
            ChartLine(f"{kind} of {len(lines)} replicas", [(row[0], row[column]) for row in rows])
            for kind, column in (("highest", 3), ("median", 2), ("lowest", 1))
        ]
    for index, line in enumerate(drawn):
        add_line(figure, line, index, len(drawn))
    chart = str(figure.show(legend=len(drawn) > 1))
    return f"{chart if unit else chart.replace('()', '  ', 1)}\n"


def add_line(figure: Any, line: ChartLine, index: int, count: int) -> None:
    """Draw one of several lines within the limits of a figure.

    plotille leaves out points at the upper ends of its axes: they move to the last dot before them.
    """
    (left, right), (low, high) = figure.x_limits(), figure.y_limits()
    columns, rows = _DOTS * figure.width, _DOTS_BELOW * figure.height
    end, top = right - (right - left) / columns, high - (high - low) / rows
    points = thinned(line.points, left, right, columns)
    xs, ys = [min(x, end) for x, _ in points], [min(y, top) for _, y in points]
    style = line_style(index, count, figure.with_colors)
    figure.plot(xs, ys, label=sanitize_line(line.label), **style)


def line_style(index: int, count: int, with_colors: bool) -> dict[str, str]:
    """The style that distinguishes one of several lines: a colour, or a letter without colours."""
    if with_colors:
        return {"lc": COLORS[index % len(COLORS)]}
    return {"marker": MARKERS[index % len(MARKERS)]} if count > 1 else {}


def thinned(points: Sequence[Point], low: float, high: float, columns: int) -> list[Point]:
    """The points that are visible in this number of columns: the first, lowest, highest and last of
    each.

    This keeps single spikes visible.
    """
    if len(points) <= 4 * columns:
        return list(points)
    seen: dict[int, list[int]] = {}
    for index, (x, y) in enumerate(points):
        column = int((x / 2 - low / 2) / (high / 2 - low / 2) * columns)
        kept = seen.setdefault(column, [index] * 4)
        if y < points[kept[1]][1]:
            kept[1] = index
        if y > points[kept[2]][1]:
            kept[2] = index
        kept[3] = index
    return [points[index] for index in sorted({i for kept in seen.values() for i in kept})]


def round_limits(low: float, high: float, ticks: int) -> tuple[float, float]:
    """Axis limits around two values, with a given number of round steps between them.

    The limits cross zero only if the values do.
    """
    least = (high - low) / ticks or abs(high) / ticks or 1.0 / ticks
    power = 10.0 ** math.floor(math.log10(least))
    for step in (power * times for times in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15)):
        start = math.floor(low / step) * step
        if start + ticks * step >= high:
            return start, start + ticks * step
    return low, high


def _position(event: MetricEvent, start: str, by_step: bool) -> float:
    return float(event.step or 0) if by_step else seconds_between(start, event.time)


def format_tick(value: float, chars: int, delta: float, left: bool = False) -> str:
    """An axis label of the width that plotille requires; `delta` is the length of the axis.

    Shows values that differ from zero only by rounding errors as 0, and gives neighbors on a short
    axis distinct digits where there is room for them.
    """
    if abs(value) < delta * _ROUNDING:
        value = 0.0
    text, digits, room = format_number(value), _DIGITS, chars - left
    if value and delta and abs(value) < _MAX_VALUE:
        tick = delta / _HEIGHT
        digits = max(digits, math.floor(math.log10(abs(value))) - math.floor(math.log10(tick)) + 1)
        if digits > _DIGITS and (tick < 1 or abs(value) >= 1e12):
            text = f"{value:.{digits}g}"
    while len(text) > room:  # a longer one would shift its row
        text = f"{value:.{digits}g}"
        digits -= 1
    return f"{text:<{chars}}" if left else f"{text:>{chars}}"
