"""The table that stands behind each chart."""

from __future__ import annotations

from collections.abc import Sequence

from rsctl.bench.steps import middle
from rsctl.results.report.charts import (
    BarChart,
    Chart,
    DotChart,
    HistoryChart,
    IntervalChart,
    LineChart,
    Point,
    Timeline,
    band,
)
from rsctl.runs.stream.formatting import format_number

Row = tuple[str, ...]
_RUNS = 20

TABLE_ROWS = 40
"""Rows of the table behind a chart at most, evenly spread."""


def data_table(chart: Chart) -> tuple[Row, Sequence[Row], int]:
    """The head and the rows of the table behind a chart, and how many rows there were in all."""
    if isinstance(chart, LineChart):
        return _line_table(chart)
    if isinstance(chart, HistoryChart):
        values: list[Row] = [
            (commit, _number(middle(runs)), " ".join(map(_number, runs[:_RUNS])))
            for commit, runs in zip(chart.commits, chart.runs, strict=True)
        ]
        kept_values = _spread(values, TABLE_ROWS)
        return ("commit", f"median of {chart.y}", "runs"), kept_values, len(values)
    if isinstance(chart, (BarChart, IntervalChart)):
        return _bar_table(chart)
    if isinstance(chart, DotChart):
        dots: list[Row] = [(label, " ".join(map(_number, values))) for label, values in chart.rows]
        return ("", chart.x), dots, len(dots)
    if isinstance(chart, Timeline):
        rows = [
            *(
                (r.label, s.kind, _seconds(s.start), _seconds(s.end))
                for r in chart.rows
                for s in r.spans
            ),
            *((r.label, m.kind, _seconds(m.at), "") for r in chart.rows for m in r.marks),
        ]
        kept = rows[: 4 * TABLE_ROWS]
        return ("", "state", "from (s)", "to (s)"), kept, len(rows)
    grid: list[Row] = [
        (label, *map(_number, values))
        for label, values in zip(chart.rows, chart.values, strict=True)
    ]
    return (f"{chart.row_key} \\ {chart.column_key}", *chart.columns), grid, len(grid)


def _bar_table(chart: BarChart | IntervalChart) -> tuple[Row, list[Row], int]:
    rows: list[Row] = [(bar.label, _number(bar.value)) for bar in chart.bars]
    if all(bar.low is None for bar in chart.bars):
        return ("", chart.x), rows, len(rows)
    ends = [(_number(bar.low), _number(bar.high)) for bar in chart.bars]
    both: list[Row] = [(*row, *end) for row, end in zip(rows, ends, strict=True)]
    return ("", chart.x, "low", "high"), both, len(rows)


def _line_table(chart: LineChart) -> tuple[Row, list[Row], int]:
    if chart.is_band:
        rows = [tuple(map(_number, row)) for row in band(chart.lines, TABLE_ROWS)]
        return (chart.x, "lowest", "median", "highest"), rows, len(rows)
    if len({tuple(x for x, _ in line.points) for line in chart.lines}) == 1:
        columns = [line.points for line in chart.lines]
        every = [
            (_number(points[0][0]), *(_number(y) for _, y in points))
            for points in zip(*columns, strict=True)
        ]
        names = [line.label for line in chart.lines] if chart.lines[1:] else [chart.y]
        return (chart.x, *names), _spread(every, TABLE_ROWS), len(every)
    most = max(6, TABLE_ROWS // len(chart.lines))
    kept: list[Row] = [
        (line.label, _number(x), _number(y))
        for line in chart.lines
        for x, y in _spread(line.points, most)
    ]
    return ("", chart.x, chart.y), kept, sum(len(line.points) for line in chart.lines)


def _spread(rows: Sequence[Point] | Sequence[Row], most: int) -> list:  # type: ignore[type-arg]
    """At most so many, evenly spread, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(index * (len(rows) - 1) / (most - 1))] for index in range(most)]


def _number(value: float | None) -> str:
    return "no data" if value is None else format_number(value)


def _seconds(value: float) -> str:
    return f"{value:.1f}"
