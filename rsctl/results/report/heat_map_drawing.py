"""Draws heat maps."""

from __future__ import annotations

from rsctl.results.report.charts import HeatMap, is_dense, most_rows, short
from rsctl.results.report.plot import Plot
from rsctl.runs.stream.formatting import format_number

_CIVIDIS = (
    0x00224E,
    0x1A386F,
    0x434E6C,
    0x61656F,
    0x7D7C78,
    0x9B9476,
    0xBCAE6C,
    0xDEC958,
    0xFEE838,
)
"""Colours of the map at equal distances; colours between them are mixed."""


def draw_heat_map(chart: HeatMap, plot: Plot) -> None:
    """Each value as a coloured field with its number; the colour is its place in the range.

    Names are shortened to the available room; the first row is at the top.
    """
    rows, columns = chart.rows[: most_rows(chart)], chart.columns
    width = max(6, 48 // max(1, len(columns)))
    across, up = plot.across, plot.up
    across.low, across.high = -0.5, len(columns) - 0.5
    up.low, up.high = len(rows) - 0.5, -0.5
    across.ticks = [(at, short(name, width)) for at, name in enumerate(columns)]
    up.ticks = [(at, short(name, 16)) for at, name in enumerate(rows)]
    up.size = 8 if is_dense(chart) else 11
    for axis in (across, up):
        axis.has_grid = axis.has_line = axis.has_marks = False
    plot.x_title, plot.title = short(chart.column_key), short(chart.row_key, 52)
    _draw_cells(chart, plot)


def _draw_cells(chart: HeatMap, plot: Plot) -> None:
    known = [value for row in chart.values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    for y, row in enumerate(chart.values[: most_rows(chart)]):
        size = 7 if is_dense(chart) else 10.5 if len(row) <= 5 else 8
        for x, value in enumerate(row):
            if value is None:
                plot.text(x, y, "no data", 10, anchor="middle")
                continue
            part = (value - low) / (high - low) if high > low else 0.5
            plot.box(x - 0.485, x + 0.485, y - 0.48, y + 0.48, _color(part))
            ink = "#ffffff" if part < 0.47 else "#000000"
            plot.text(x, y, format_number(value), size, ink, anchor="middle")


def _color(part: float) -> str:
    at = part * (len(_CIVIDIS) - 1)
    index = min(int(at), len(_CIVIDIS) - 2)
    mixed = [
        round((1 - at + index) * (_CIVIDIS[index] >> shift & 255)
              + (at - index) * (_CIVIDIS[index + 1] >> shift & 255))
        for shift in (16, 8, 0)
    ]  # fmt: skip
    return "#{:02x}{:02x}{:02x}".format(*mixed)
