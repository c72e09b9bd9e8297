"""Charts of a report as plain data, which the page draws itself, so that they can change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from statistics import median
from typing import Any

from rsctl.results.report import palette
from rsctl.results.report.charts import (
    BarChart,
    Chart,
    ChartLine,
    DotChart,
    HeatMap,
    IntervalChart,
    LineChart,
    Point,
    Timeline,
    band,
    finite,
    is_dense,
    most_rows,
    short,
    thinned,
    time_unit,
)
from rsctl.results.report.descriptions import describe
from rsctl.results.report.html import plain
from rsctl.results.report.scales import Scale, scale_of
from rsctl.runs.stream.formatting import format_number

_MARGIN = 0.05
_DIGITS = 9
_LABEL = 120  # characters; the page shortens a label to its width


def plot_of(chart: Chart) -> dict[str, Any]:
    """A chart as data for JSON, with finite numbers and without control characters."""
    plot = _content(chart)
    return {"title": plain(describe(chart), 400), **plot}


def _content(chart: Chart) -> dict[str, Any]:
    if isinstance(chart, LineChart):
        return _lines(chart)
    if isinstance(chart, Timeline):
        return _timeline(chart)
    if isinstance(chart, HeatMap):
        return _heat_map(chart)
    if isinstance(chart, (BarChart, DotChart, IntervalChart)):
        return _rows(chart)
    return {"kind": "none"}


def _lines(chart: LineChart) -> dict[str, Any]:
    scale = scale_of(chart)
    low, high = _ends(chart, scale)
    plot: dict[str, Any] = {"kind": "line", "x": short(chart.x), "y": short(chart.y, 52)}
    plot |= {"low": low, "high": high, "log": scale.is_log, "lines": [], "others": []}
    if chart.is_band:
        rows = band(chart.lines)
        plot["band"] = [[_number(value) for value in row] for row in rows]
        middle = [[_number(row[0]), _number(row[2])] for row in rows]
        plot["lines"] = [{"label": "median", "color": "c1", "dashes": [], "points": middle}]
    else:
        plot["lines"] = [_line(line, chart.labels.index(line.label)) for line in chart.lines]
        plot["others"] = [_points(line.points) for line in chart.others]
    if chart.reference:
        plot["reference"] = _points(chart.reference.points)
    return plot


def _line(line: ChartLine, index: int) -> dict[str, Any]:
    color, dashes = palette.series(index)
    return {
        "label": short(line.label),
        "color": color.name,
        "dashes": [1.6 * dash for dash in dashes],
        "points": _points(line.points),
    }


def _ends(chart: LineChart, scale: Scale) -> tuple[float, float]:
    """The ends of the vertical axis, with space around the values."""
    low, high = scale.low, scale.high
    if scale.beyond or scale.is_log:
        return low, high
    if chart.from_zero:
        return 0.0, (high * 1.06) or 1.0
    if low == high:
        return low - (abs(low) * 0.1 or 1), high + (abs(high) * 0.1 or 1)
    space = _MARGIN * (high - low)
    return low - space, high + space


def _points(points: Sequence[Point]) -> list[list[float]]:
    return [[_number(x), _number(y)] for x, y in thinned(finite(points))]


def _number(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _timeline(chart: Timeline) -> dict[str, Any]:
    rows = chart.rows[: most_rows(chart)]
    ends = [span.end for row in rows for span in row.spans]
    divisor, unit = time_unit(max([*ends, *(m.at for row in rows for m in row.marks)], default=1.0))
    return {
        "kind": "timeline",
        "dense": is_dense(chart),
        "x": f"time since the submission ({unit})",
        "rows": [
            {
                "label": short(row.label, _LABEL),
                "spans": [
                    [_number(s.start / divisor), _number(s.end / divisor), _kind(s.kind), s.kind]
                    for s in row.spans
                ],
                "marks": [
                    [_number(m.at / divisor), _kind(m.kind), _symbol(m.kind), m.kind]
                    for m in row.marks
                ],
            }
            for row in rows
        ],
    }


def _kind(kind: str) -> str:
    return palette.KINDS.get(kind, palette.FAINT).name


def _symbol(kind: str) -> str:
    return palette.MARKERS.get(kind, ("o", "●"))[1]


def _rows(chart: BarChart | DotChart | IntervalChart) -> dict[str, Any]:
    plot: dict[str, Any] = {"kind": "rows", "dense": is_dense(chart), "x": short(chart.x)}
    if isinstance(chart, DotChart):
        rows = [_dots(label, values) for label, values in chart.rows[: most_rows(chart)]]
        return {**plot, "dots": True, "rows": rows}
    bars = chart.bars[: most_rows(chart)]
    is_interval = isinstance(chart, IntervalChart)
    return {
        **plot,
        "bars": not is_interval,
        "rows": [
            {
                "label": short(bar.label, _LABEL),
                "value": _known(bar.value),
                "low": _known(bar.low),
                "high": _known(bar.high),
                "text": "no data" if bar.value is None else format_number(bar.value),
            }
            for bar in bars
        ],
    }


def _dots(label: str, values: Sequence[float]) -> dict[str, Any]:
    known = _finite(values)
    middle = median(known) if known else None
    text = "no data" if middle is None else format_number(middle)
    return {"label": short(label, _LABEL), "dots": known, "median": middle, "text": text}


def _finite(values: Iterable[float]) -> list[float]:
    return [_number(value) for value in values if isfinite(value)]


def _known(value: float | None) -> float | None:
    return _number(value) if value is not None and isfinite(value) else None


def _heat_map(chart: HeatMap) -> dict[str, Any]:
    return {
        "kind": "heat",
        "x": short(chart.column_key),
        "y": short(chart.row_key),
        "dense": is_dense(chart),
        "columns": [short(column, 12) for column in chart.columns],
        "rows": [short(row, 14) for row in chart.rows[: most_rows(chart)]],
        "values": [[_known(value) for value in row] for row in chart.values],
        "texts": [
            ["" if value is None else format_number(value) for value in row] for row in chart.values
        ],
    }
