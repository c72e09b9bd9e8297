"""Draws charts: for a page that has light and dark colours, and as files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from textwrap import wrap
from typing import Any, Literal

from rsctl.results.report import palette
from rsctl.results.report.canvas import Drawing, Marks, Path, Text, file_svg, page_svg
from rsctl.results.report.charts import (
    LINES,
    BarChart,
    Chart,
    DotChart,
    HeatMap,
    HistoryChart,
    IntervalChart,
    LineChart,
    Point,
    Timeline,
    band,
    finite,
    is_dense,
    legend,
    most_rows,
    row_labels,
    short,
    thinned,
)
from rsctl.results.report.descriptions import describe
from rsctl.results.report.heat_map_drawing import draw_heat_map
from rsctl.results.report.history_drawing import draw_history
from rsctl.results.report.html import Markup, plain
from rsctl.results.report.plot import Axis, Plot, drawable, tick, tick_of
from rsctl.results.report.png import png_bytes
from rsctl.results.report.row_drawing import draw_bars, draw_dots, draw_intervals, draw_timeline
from rsctl.results.report.scales import Scale, scale_of

Format = Literal["svg", "png"]

_WIDTH = 388.0  # points: wide enough for a chart, narrow enough for a phone
_WIDE = 1188.0
_LINE_HEIGHT = 194.0
_ROW_HEIGHT = 30.0
_DENSE_ROW_HEIGHT = 11.2
_FEW_POINTS = 64
_MARGIN = 0.05
_TITLE_LINE, _LEGEND_LINE = 14.0, 16.0


def chart_svg(chart: Chart, prefix: str, is_wide: bool = False) -> Markup:
    """A chart as an `<svg>` element of a page; `prefix` makes its ids unique there.

    A wide one is as wide as three others.
    """
    drawing = _plot(chart).drawing(_WIDE if is_wide else _WIDTH, _height(chart))
    return page_svg(drawing, prefix, describe(chart))


def file_bytes(chart: Chart, form: Format) -> bytes:
    """A chart as a file by itself, with its title and its legend, in the light colours.

    Raises ImportError for a PNG file without matplotlib.
    """
    title = wrap(plain(chart.title, 200), 60)
    above = _TITLE_LINE * len(title) + 8
    below = _LEGEND_LINE * ceil(len(legend(chart)) / 2) + (6 if legend(chart) else 0)
    height = _height(chart) + above + below
    drawing = _plot(chart).drawing(_WIDTH, height, above, below)
    for number, line in enumerate(title, 1):
        drawing.shapes.append(Text(8, 4 + _TITLE_LINE * number, line, 11, is_bold=True))
    _add_legend(drawing, chart)
    return png_bytes(drawing) if form == "png" else file_svg(drawing).encode()


def _plot(chart: Chart) -> Plot:
    plot = Plot()
    _DRAW[type(chart)](chart, plot)
    return plot


def _height(chart: Chart) -> float:
    if isinstance(chart, (LineChart, HistoryChart)):
        return _LINE_HEIGHT
    count = min(most_rows(chart), len(row_labels(chart)))
    if is_dense(chart):
        return 65 + _DENSE_ROW_HEIGHT * count
    if isinstance(chart, HeatMap):
        return 65 + _ROW_HEIGHT * max(2, count)
    return 58 + _ROW_HEIGHT * max(1, count)


def _draw_lines(chart: LineChart, plot: Plot) -> None:
    shown = [_drawable(line.points) for line in (*chart.others, *chart.lines)]
    reference = _drawable(chart.reference.points) if chart.reference else []
    scale = scale_of(chart)
    _scale_y(chart, plot, [y for points in [*shown, reference] for _, y in points], scale)
    _scale_x(plot.across, [x for points in [*shown, reference] for x, _ in points])
    plot.x_title = short(chart.x)
    if chart.is_band:
        rows = [tuple(map(drawable, row)) for row in band(chart.lines)]
        color = palette.SERIES[0]
        edge = [(row[0], row[1]) for row in rows] + [(row[0], row[3]) for row in reversed(rows)]
        plot.area(edge, color, opacity=0.25)
        plot.line([(row[0], row[2]) for row in rows], color, 1.6)
    else:
        for line in chart.others:
            _draw_line(plot, _drawable(line.points), None, scale)
        for line in chart.lines:
            _draw_line(plot, _drawable(line.points), chart.labels.index(line.label), scale)
    if reference:
        plot.line(reference, palette.FAINT, 1.2, (2, 2))


def _drawable(points: Sequence[Point]) -> list[Point]:
    return [(drawable(x), drawable(y)) for x, y in finite(points)]


def _draw_line(plot: Plot, points: Sequence[Point], index: int | None, scale: Scale) -> None:
    """A line; one without an index is thin. What is beyond the axis is a mark at its end."""
    if not points:
        return
    color, dashes = (palette.FAINT, ()) if index is None else palette.series(index)
    width, opacity = (0.8, 0.35) if index is None else (1.6, 1.0)
    kept = thinned(points)
    plot.line(kept, color, width, dashes, opacity)
    if len(kept) <= 12 and index is not None:
        within = [p for p in kept if plot.up.low <= p[1] <= plot.up.high]
        plot.marks(within, "o", 3.5, color)
    if scale.beyond:
        high, low = plot.up.high, plot.up.low
        plot.marks([(x, high) for x, y in kept if y > high], "^", 6, color)
        plot.marks([(x, low) for x, y in kept if y < low], "v", 6, color)


def _scale_y(chart: LineChart, plot: Plot, values: Sequence[float], scale: Scale) -> None:
    axis = plot.up
    low, high = min(values, default=0.0), max(values, default=1.0)
    if scale.beyond:
        low, high = drawable(scale.low), drawable(scale.high)
    axis.is_log = scale.is_log and low > 0
    if chart.from_zero and not axis.is_log:
        axis.low, axis.high = min(0.0, low * 1.06), max(0.0, high * 1.06)
        if axis.low == axis.high:
            axis.high = 1.0
    else:
        axis.span((low, high), 0 if scale.beyond else _MARGIN)
    axis.mark(5, tick if axis.is_log else tick_of(axis.high - axis.low))
    axis.has_grid = True
    plot.title = short(chart.y, 52) + (", logarithmic" if axis.is_log else "")


def _are_apart(xs: Sequence[float]) -> bool:
    """Whether these few can all have their tick."""
    gaps = [after - before for before, after in pairwise(xs)]
    return 0 < len(gaps) < 8 and min(gaps) >= (xs[-1] - xs[0]) / 15


def _scale_x(axis: Axis, xs: Sequence[float]) -> None:
    is_whole = bool(xs) and all(x == int(x) for x in xs[:50])
    few = sorted(set(xs)) if len(xs) <= _FEW_POINTS else []
    if xs and min(xs) == max(xs):
        half = max(1.0, abs(xs[0]) / 1000)
        axis.low, axis.high = xs[0] - half, xs[0] + half
    else:
        axis.span(xs, _MARGIN)
    if is_whole and _are_apart(few):
        axis.ticks = [(x, tick(x)) for x in few]
    else:
        axis.mark(6, tick, is_whole)


_DRAW: dict[type, Any] = {
    LineChart: _draw_lines,
    BarChart: draw_bars,
    DotChart: draw_dots,
    IntervalChart: draw_intervals,
    Timeline: draw_timeline,
    HeatMap: draw_heat_map,
    HistoryChart: draw_history,
}


def _add_legend(drawing: Drawing, chart: Chart) -> None:
    """The legend at the lower end, in two columns."""
    labels = legend(chart)
    first = drawing.height - _LEGEND_LINE * ceil(len(labels) / 2)
    for index, label in enumerate(labels):
        x, y = 10 + index % 2 * drawing.width / 2, first + index // 2 * _LEGEND_LINE + 4
        if isinstance(chart, Timeline):
            color = palette.KINDS.get(label, palette.FAINT)
            is_mark = any(m.kind == label for row in chart.rows for m in row.marks)
            mark = palette.MARKERS.get(label, ("o", ""))[0] if is_mark else "s"
            drawing.shapes.append(Marks([(x + 10, y)], mark, 7 if is_mark else 9, color))
        else:
            color, dashes = line_style(chart, index)
            drawing.shapes.append(Path([(x, y), (x + 20, y)], color, 1.6, dashes=dashes))
        drawing.shapes.append(Text(x + 26, y + 3.2, short(label, 30), 9))


def line_style(chart: Chart, index: int) -> tuple[palette.Color, tuple[float, ...]]:
    """The colour and dashes of an entry in the legend of a line chart."""
    if isinstance(chart, LineChart):
        if chart.reference and index == len(legend(chart)) - 1:
            return palette.FAINT, (2, 2)
        if chart.is_band:
            return palette.SERIES[0], (() if index == 0 else (0.5, 0.5))
        if index >= len(chart.labels):
            return palette.FAINT, ()
    return palette.series(index % LINES)
