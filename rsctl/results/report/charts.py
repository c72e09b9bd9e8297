"""Charts as data: their content, and its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple, Union

from rsctl.bench.steps import middle
from rsctl.findings import counted
from rsctl.results.report.html import plain
from rsctl.runs.stream.formatting import format_number

Point = tuple[float, float]

DRAWN = 200
"""Points of a line that are drawn at most: of each stretch its lowest and its highest."""

LINES = 8
"""Lines in a chart at most; more become a band from the lowest to the highest, with the median."""

ROWS = 60
"""Bars, spans or intervals in a chart at most, if their labels are long."""

DENSE_ROWS = 130
"""Rows at most that are close together, since their labels are short."""

_DENSE_FROM = 13
_SHORT_LABEL = 14


class ChartLine(NamedTuple):
    """One line of a chart: its label and its points in the order of x."""

    label: str
    points: Sequence[Point]


class Bar(NamedTuple):
    """One horizontal bar; `low` and `high` are the ends of its interval, where there is one."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None


def effect_bar(label: str, effect: float | None, interval: tuple[float, float] | None) -> Bar:
    """The bar of an effect and its interval, in percent."""
    return Bar(label, 100 * (effect or 0.0), *(100 * end for end in interval or ()))


class Span(NamedTuple):
    """A stretch of time in seconds; `kind` names its colour and stands in the legend."""

    start: float
    end: float
    kind: str


class ChartMark(NamedTuple):
    """A moment, in seconds."""

    at: float
    kind: str


class TimelineRow(NamedTuple):
    """The events of one replica or run."""

    label: str
    spans: Sequence[Span]
    marks: Sequence[ChartMark] = ()


@dataclass(frozen=True)
class LineChart:
    """Lines over an axis. `x` and `y` are the axes' titles with their units."""

    title: str
    x: str
    y: str
    lines: Sequence[ChartLine]
    from_zero: bool = False
    note: str = ""
    reference: ChartLine | None = None
    others: Sequence[ChartLine] = ()
    """Thin lines in the background, without separate colours: among very many, the ones that do not
    stand out.
    """

    @property
    def labels(self) -> list[str]:
        """The labels of the lines, each once: lines with one label have one colour."""
        return list(dict.fromkeys(line.label for line in self.lines))

    @property
    def is_band(self) -> bool:
        """Whether there are too many lines to tell apart."""
        return len(self.labels) > LINES


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars from zero."""

    title: str
    x: str
    bars: Sequence[Bar]
    note: str = ""


@dataclass(frozen=True)
class DotChart:
    """For each row the values of single runs as dots, and their median as a line."""

    title: str
    x: str
    rows: Sequence[tuple[str, Sequence[float]]]
    note: str = ""


@dataclass(frozen=True)
class IntervalChart:
    """Effects with their intervals around zero, in percent."""

    title: str
    x: str
    bars: Sequence[Bar]
    note: str = ""


@dataclass(frozen=True)
class Timeline:
    """Spans of time, one row for each replica or run."""

    title: str
    rows: Sequence[TimelineRow]
    note: str = ""


@dataclass(frozen=True)
class HeatMap:
    """A value for each pair of two keys' values; None if there is no data."""

    title: str
    unit: str
    row_key: str
    rows: Sequence[str]
    column_key: str
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    note: str = field(default="")


class HistoryStep(NamedTuple):
    """A step, which begins at one of the commits from `first` to `last`, and its size as text."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class HistoryChart:
    """The runs of each commit, in the commits' order, and the levels between steps.

    A level is its first and last commit and its value.
    """

    title: str
    x: str
    y: str
    commits: Sequence[str]
    runs: Sequence[Sequence[float]]
    levels: Sequence[tuple[int, int, float]] = ()
    steps: Sequence[HistoryStep] = ()
    note: str = ""


Chart = Union[LineChart, BarChart, DotChart, IntervalChart, Timeline, HeatMap, HistoryChart]


def is_empty(chart: Chart) -> bool:
    """Whether there is nothing to draw."""
    if isinstance(chart, LineChart):
        return not any(finite(line.points) for line in (*chart.lines, *chart.others))
    if isinstance(chart, (BarChart, IntervalChart)):
        return all(bar.value is None for bar in chart.bars)
    if isinstance(chart, DotChart):
        return not any(values for _, values in chart.rows)
    if isinstance(chart, Timeline):
        return not any(row.spans for row in chart.rows)
    if isinstance(chart, HistoryChart):
        return not chart.runs
    return all(value is None for row in chart.values for value in row)


def single_values(chart: Chart) -> list[tuple[str, float]]:
    """The labels and values of a line chart whose points have one x: they make no line."""
    if not isinstance(chart, LineChart):
        return []
    points = [
        (line.label, *p) for line in (*chart.lines, *chart.others) for p in finite(line.points)
    ]
    one_x = len({x for _, x, _ in points}) == 1
    return [(label, y) for label, _, y in points] if one_x else []


def finite(points: Sequence[Point]) -> list[Point]:
    """The points that can be drawn."""
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def thinned(points: Sequence[Point], most: int = DRAWN) -> list[Point]:
    """At most `most` points: the first, the last, of each stretch its lowest and its highest."""
    if len(points) <= most:
        return list(points)
    stretches = max(1, most // 2 - 1)
    inner = points[1:-1]
    kept = [points[0]]
    for index in range(stretches):
        part = inner[index * len(inner) // stretches : (index + 1) * len(inner) // stretches]
        ends = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])} if part else set()
        kept += sorted(ends)
    return [*kept, points[-1]]


def band(lines: Sequence[ChartLine], buckets: int = 60) -> list[tuple[float, float, float, float]]:
    """A summary of many lines, by stretches of x: its middle, and the lowest, median and highest
    value.
    """
    points = sorted(point for line in lines for point in finite(line.points))
    if not points:
        return []
    start, width = points[0][0], (points[-1][0] - points[0][0]) / buckets or 1.0
    grouped: dict[int, list[float]] = {}
    for x, y in points:
        grouped.setdefault(min(buckets - 1, int((x - start) / width)), []).append(y)
    return [
        (start + (index + 0.5) * width, min(v), middle(v), max(v))
        for index, v in sorted(grouped.items())
    ]


def legend(chart: Chart) -> list[str]:
    """The legend of the chart's colors, in the order of the palette; kinds for timelines."""
    if isinstance(chart, LineChart):
        reference = [chart.reference.label] if chart.reference else []
        if chart.is_band:
            return [f"median of {len(chart.lines)}", "lowest to highest", *reference]
        others = [counted(len(chart.others), "other")] if chart.others else []
        several = len(chart.labels) > 1 or reference or others
        return [*chart.labels, *others, *reference] if several else []
    if isinstance(chart, Timeline):
        kinds = dict.fromkeys(s.kind for row in chart.rows for s in row.spans)
        return [*kinds, *dict.fromkeys(m.kind for row in chart.rows for m in row.marks)]
    return []


def row_labels(chart: Chart) -> list[str]:
    """The labels of a chart's rows; none for lines."""
    if isinstance(chart, (LineChart, HistoryChart)):
        return []
    if isinstance(chart, HeatMap):
        return list(chart.rows)
    if isinstance(chart, DotChart):
        return [label for label, _ in chart.rows]
    rows: Sequence[Bar | TimelineRow] = chart.rows if isinstance(chart, Timeline) else chart.bars
    return [row.label for row in rows]


def is_dense(chart: Chart) -> bool:
    """Whether a chart has many rows with short labels, which then stand beside their rows."""
    labels = row_labels(chart)
    return len(labels) >= _DENSE_FROM and max(map(len, labels)) <= _SHORT_LABEL


def most_rows(chart: Chart) -> int:
    """How many rows of a chart are drawn at most."""
    return DENSE_ROWS if is_dense(chart) or isinstance(chart, HeatMap) else ROWS


def extremes(chart: Chart) -> str:
    """The lines of a band that are lowest and highest on average, in one sentence; otherwise
    empty.
    """
    if not isinstance(chart, LineChart) or not chart.is_band:
        return ""
    found = {line.label: finite(line.points) for line in chart.lines}
    means = {name: fmean(y for _, y in points) for name, points in found.items() if points}
    if len(set(means.values())) < 2:
        return ""
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return (
        f"On average {plain(low, 60)} is lowest ({format_number(means[low])}), "
        f"{plain(high, 60)} highest ({format_number(means[high])})."
    )


def short(label: str, longest: int = 44) -> str:
    """A label with its middle left out where it is too long for a chart."""
    text = plain(label, 400)
    half = longest // 2
    return text if len(text) <= longest else f"{text[: half - 1]}…{text[-half:]}"


def time_unit(seconds: float) -> tuple[float, str]:
    """The divisor of seconds for an axis of this length, and the unit."""
    if seconds <= 180:
        return 1.0, "s"
    return (60.0, "min") if seconds <= 3 * 3600 else (3600.0, "h")
