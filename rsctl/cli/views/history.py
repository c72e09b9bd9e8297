"""A history on a terminal: a table of its series, a chart of each, and the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

import typer

from rsctl.api import FoundStep, HistorySeries, HistoryView, Recorded, short_commit
from rsctl.cli.show import print_message
from rsctl.cli.views.plot import TICK, new_figure, round_limits
from rsctl.cli.views.table import write_table
from rsctl.runs.stream.formatting import format_number
from rsctl.runs.stream.sanitize import sanitize_line

_HEIGHT = 10
_MOST_CHARTS = 12
_MOST_VALUE = 1e300  # plotille's own arithmetic overflows beyond
_HEAD = ("METRIC", "CELL", "CONDITION", "COMMITS", "LATEST", "LEVEL", "STEPS")
_STEP_HEAD = ("COMMIT", "RANGE", "CHANGE", "BEFORE", "AFTER", "CONFIDENCE", "")


def print_history(view: HistoryView) -> None:
    """Print the series of a history on standard output."""
    if not view.series:
        typer.echo(sanitize_line(f"{view.history} has no records"))
        return
    jobs = list(dict.fromkeys(series.job for series in view.series))
    for job in jobs:
        mine = [series for series in view.series if series.job == job]
        typer.echo(sanitize_line(f"{job}: {view.history}"))
        write_table([_HEAD, *map(_row, mine)])
        for series in mine[:_MOST_CHARTS]:
            _print_series(series)
        if len(mine) > _MOST_CHARTS:
            print_message(
                f"{len(mine) - _MOST_CHARTS} more series without a chart: "
                "select with --metric and --cell"
            )


def recorded_line(added: Recorded) -> str:
    """The history, the commit and the bench of an append, in one line."""
    cells = "1 cell" if added.cells == 1 else f"{added.cells} cells"
    return f"{added.history}: {short_commit(added.commit)}, {cells}, from {added.bench}"


def _row(series: HistorySeries) -> Sequence[str]:
    latest = series.points[-1]
    level = series.levels()[-1][2]
    unit = f" {series.unit}" if series.unit else ""
    return (
        *(series.metric, series.where, series.condition[:60], str(len(series.points))),
        f"{format_number(latest.value)}{unit} ({short_commit(latest.commit)})",
        f"{format_number(level)}{unit}",
        "too few commits" if series.is_short else str(len(series.steps)),
    )


def _print_series(series: HistorySeries) -> None:
    drawn = [point for point in series.points if abs(point.value) < _MOST_VALUE]
    typer.echo("")
    typer.echo(sanitize_line(series.title))
    if len(drawn) > 1:
        typer.echo(_chart(series))
        first, last = series.points[0], series.points[-1]
        typer.echo(
            f"commits {short_commit(first.commit)} ({first.committed[:10]}) to "
            f"{short_commit(last.commit)} ({last.committed[:10]})"
        )
    if not series.steps:
        typer.echo(f"steps: {series.found}")
    else:
        write_table([_STEP_HEAD, *(_step_row(step, series.unit) for step in series.steps)])


def _step_row(step: FoundStep, unit: str | None) -> Sequence[str]:
    how = {True: "worse", False: "better", None: ""}[step.is_worse]
    name = f" {unit}" if unit else ""
    return (
        short_commit(step.commit),
        step.range,
        step.size_text,
        f"{format_number(step.level_before)}{name}",
        f"{format_number(step.level)}{name}",
        step.confidence_text,
        how,
    )


def _chart(series: HistorySeries) -> str:
    """The medians of the commits as dots, and the levels between steps as lines."""
    figure = new_figure("commit", sanitize_line(series.unit or ""), _HEIGHT)
    points = [
        (float(index), point.value)
        for index, point in enumerate(series.points)
        if abs(point.value) < _MOST_VALUE
    ]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    figure.set_x_limits(0.0, _last_tick(int(max(xs)), figure.width // TICK))
    # plotille leaves out a dot that is exactly on the upper limit.
    highest = math.nextafter(max(ys), math.inf)
    figure.set_y_limits(*round_limits(min(ys), highest, _HEIGHT))
    marker = {} if figure.with_colors else {"marker": "o"}
    color = {"lc": "cyan"} if figure.with_colors else {}
    figure.scatter(xs, ys, **color, **marker)
    for first, last, level in series.levels():
        if abs(level) < _MOST_VALUE:
            line = {"lc": "yellow"} if figure.with_colors else {}
            figure.plot([float(first), float(last)], [level, level], **line)
    chart = str(figure.show())
    return chart if series.unit else chart.replace("()", "  ", 1)


def _last_tick(last: int, ticks: int) -> float:
    """The end of an axis with so many ticks, each at a whole and round number, beyond `last`."""
    step = next(
        factor * 10**power
        for power in count()
        for factor in (1, 2, 3, 4, 5, 6, 8)
        if factor * 10**power * ticks > last
    )
    return float(step * ticks)
