"""Draws heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsctl.results.report.charts import HeatMap, is_dense, most_rows, short
from rsctl.runs.stream.formatting import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_heat_map(chart: HeatMap, axes: Axes) -> None:
    _draw_cells(chart, axes)
    _label_axes(chart, axes)
    for side in axes.spines.values():
        side.set_visible(False)


def _draw_cells(chart: HeatMap, axes: Axes) -> None:
    """Each value as a coloured field with its number; the colour is its place in the range."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    known = [value for row in chart.values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    map_ = colormaps["cividis"]
    for y, row in enumerate(chart.values[: most_rows(chart)]):
        size = 7 if is_dense(chart) else 10.5 if len(row) <= 5 else 8
        for x, value in enumerate(row):
            if value is None:
                axes.text(x, y, "no data", ha="center", va="center", fontsize=10)
                continue
            part = (value - low) / (high - low) if high > low else 0.5
            color = to_hex(map_(round(part, 2)))
            axes.bar(x, 0.96, width=0.97, bottom=y - 0.48, color=color)
            ink = "#ffffff" if part < 0.55 else "#000000"
            text = format_number(value)
            axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=size)


def _label_axes(chart: HeatMap, axes: Axes) -> None:
    """Names of rows and columns, shortened to the available room; the first row is at the top."""
    rows, columns = chart.rows[: most_rows(chart)], chart.columns
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    width = max(6, 48 // max(1, len(columns)))
    axes.set_xticks(range(len(columns)), [short(name, width) for name in columns])
    axes.set_yticks(range(len(rows)), [short(name, 16) for name in rows])
    if is_dense(chart):
        axes.tick_params(axis="y", labelsize=8)
    axes.tick_params(length=0)
    axes.set_xlabel(short(chart.column_key))
    axes.set_ylabel(short(chart.row_key, 24 if len(rows) > 3 else 14))
