"""Charts of metrics in the terminal."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Mapping

import plotille
import typer

from rsctl.cli.output import in_color
from rsctl.stream.events import MetricEvent, seconds_between
from rsctl.stream.formatting import format_number
from rsctl.stream.metrics import MetricSpec
from rsctl.stream.sanitize import sanitize_line

_HEIGHT = 12
_MARGIN = 24  # columns that the labels of the axes take
_TICK = 10  # columns between two ticks of the x axis; on the y axis each row has one
_MAX_POINTS = 2000
_MAX_VALUE = 1e300  # plotille's own arithmetic overflows beyond
MARKERS = "abcdefghijklmnopqrstuvwxyz"
COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red")


def plot_metrics(metrics: Iterable[MetricEvent], specs: Mapping[str, MetricSpec]) -> None:
    """One chart a metric; over steps if all its values have one, else over seconds."""
    series: dict[str, list[MetricEvent]] = {}
    for metric in metrics:
        if abs(metric.value) < _MAX_VALUE:
            series.setdefault(metric.name, []).append(metric)
    if not series:
        typer.echo("no metrics to draw (yet)", err=True)
    for name, events in series.items():
        spec = specs.get(name)
        typer.echo(_chart(name, events, spec.unit if spec else None))


def _chart(name: str, events: list[MetricEvent], unit: str | None) -> str:
    events = events[:: max(1, len(events) // _MAX_POINTS)]
    by_step = all(event.step is not None for event in events)
    figure = plotille.Figure()
    figure.width = max(2, (shutil.get_terminal_size().columns - _MARGIN) // _TICK) * _TICK
    figure.height = _HEIGHT
    figure.with_colors = in_color(sys.stdout)
    figure.x_label = "step" if by_step else "seconds"
    figure.y_label = unit or ""
    figure.register_label_formatter(float, format_tick)
    ends = [_position(event, events[0].time, by_step) for event in events]
    low, high = round_limits(min(0.0, *ends), max(ends), figure.width // _TICK)
    figure.set_x_limits(low, high)
    values = [event.value for event in events]
    figure.set_y_limits(*round_limits(min(values), max(values), _HEIGHT))
    replicas = sorted({event.replica for event in events})
    for index, replica in enumerate(replicas):
        points = [event for event in events if event.replica == replica]
        x = [_position(event, events[0].time, by_step) for event in points]
        style = {"lc": COLORS[index % len(COLORS)]}
        if not figure.with_colors:
            style = {"marker": MARKERS[index % len(MARKERS)]} if len(replicas) > 1 else {}
        figure.plot(x, [event.value for event in points], label=replica, **style)
    chart = figure.show(legend=len(replicas) > 1)
    return f"{sanitize_line(name)}\n{chart if unit else chart.replace('()', '  ', 1)}\n"


def round_limits(low: float, high: float, ticks: int) -> tuple[float, float]:
    """Limits around two values between which so many steps are round numbers.

    They cross zero only if the values do.
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
    """An axis label as wide as plotille wants it."""
    text = format_number(value)
    return f"{text:<{chars}}" if left else f"{text:>{chars}}"
