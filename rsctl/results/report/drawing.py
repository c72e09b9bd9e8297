"""Draws charts by matplotlib: as SVG for a page that has light and dark colours, and as files.

Text stays text, so that it can be selected and searched.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.installation import install_command
from rsctl.results.report import palette
from rsctl.results.report.charts import (
    LINES,
    BarChart,
    Chart,
    DotChart,
    HeatMap,
    HistoryChart,
    IntervalChart,
    LineChart,
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
from rsctl.results.report.row_drawing import (
    ROUND,
    draw_bars,
    draw_dots,
    draw_intervals,
    draw_timeline,
    tick,
    tick_of,
)
from rsctl.results.report.scales import Scale, scale_of
from rsctl.results.report.svg import inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]

_WIDTH = 5.4  # inches of 72 points: wide enough for a chart, narrow enough for a phone
_WIDE = 16.5
_LINE_HEIGHT = 2.7
_SVG_DPI = 72  # of all that matplotlib writes as SVG
_ROW_INCHES = 0.42
_DENSE_ROW_INCHES = 0.155
_FEW_POINTS = 64
_HUGE = 1e100  # beyond it, and as near to 0, ends and ticks of an axis may not be numbers
_SETTINGS: Any = {
    "text.parse_math": False,
    "text.usetex": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rsctl",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.edgecolor": palette.FAINT.light,
    "axes.labelcolor": palette.INK.light,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": palette.GRID.light,
    "text.color": palette.INK.light,
    "xtick.color": palette.FAINT.light,
    "ytick.color": palette.FAINT.light,
    "xtick.labelcolor": palette.INK.light,
    "ytick.labelcolor": palette.INK.light,
    "axes.formatter.useoffset": False,
    "path.simplify": True,
}


def require_matplotlib() -> None:
    """Raises RsctlError if the extra `report` is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        finding = error("report", "charts need matplotlib", install_command("report"))
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None


def page_svg(chart: Chart, prefix: str, is_wide: bool = False) -> Markup:
    """A chart as an `<svg>` element of a page; `prefix` makes its ids unique there.

    A wide one is as wide as two others.
    """
    with _figure(chart, is_file=False, width=_WIDE if is_wide else _WIDTH) as figure:
        text = _svg(figure)
    return inline_svg(text, prefix, describe(chart))


def file_bytes(chart: Chart, form: Format) -> bytes:
    """A chart as a file by itself, with its title and its legend, in the light colours."""
    with _figure(chart, is_file=True) as figure:
        if form == "svg":
            return _svg(figure).encode()
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=200, facecolor="white")
        return data.getvalue()


@contextmanager
def _figure(chart: Chart, is_file: bool, width: float = _WIDTH) -> Iterator[Figure]:
    import matplotlib
    from matplotlib.figure import Figure

    with warnings.catch_warnings(), matplotlib.rc_context(_SETTINGS):
        warnings.simplefilter("ignore")  # a letter that the font lacks is the browser's to find
        more = 0.35 + 0.22 * ceil(len(legend(chart)) / 2) if is_file else 0.0
        figure = Figure(figsize=(width, _height(chart) + more), layout="constrained")
        axes = figure.add_subplot()
        _DRAW[type(chart)](chart, axes)
        if is_file:
            title = "\n".join(wrap(plain(chart.title, 200), 60))
            figure.suptitle(title, x=0.02, ha="left", fontsize=11, weight="bold")
            _add_legend(figure, chart)
        yield figure


def _svg(figure: Figure) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # Like `savefig`, but without the extra drawing that `savefig` makes only for the layout.
    FigureCanvasSVG(figure)
    figure.dpi = _SVG_DPI
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)
    data = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(data, format="svg", transparent=True, metadata=metadata)
    return data.getvalue().replace("'DejaVu Sans'", "'DejaVu Sans', sans-serif")


def _height(chart: Chart) -> float:
    if isinstance(chart, (LineChart, HistoryChart)):
        return _LINE_HEIGHT
    count = min(most_rows(chart), len(row_labels(chart)))
    if is_dense(chart):
        return 0.9 + _DENSE_ROW_INCHES * count
    if isinstance(chart, HeatMap):
        return 0.9 + _ROW_INCHES * max(2, count)
    return 0.8 + _ROW_INCHES * max(1, count)


def _draw_lines(chart: LineChart, axes: Axes) -> None:
    shown = [finite(line.points) for line in (*chart.others, *chart.lines)]
    reference = chart.reference.points if chart.reference else []
    scale = scale_of(chart)
    if chart.is_band:
        rows = [tuple(map(_drawable, row)) for row in band(chart.lines)]
        xs = [row[0] for row in rows]
        color = palette.SERIES[0].light
        axes.fill_between(
            xs, [r[1] for r in rows], [r[3] for r in rows], color=color, alpha=0.25, linewidth=0
        )
        axes.plot(xs, [r[2] for r in rows], color=color, linewidth=1.6)
    else:
        for line in chart.others:
            _draw_line(axes, finite(line.points), None, scale)
        for line in chart.lines:
            _draw_line(axes, finite(line.points), chart.labels.index(line.label), scale)
    if reference:
        across, up = zip(*reference, strict=True)
        axes.plot(across, up, color=palette.FAINT.light, linewidth=1.2, dashes=(2, 2))
    values = [_drawable(y) for points in [*shown, reference] for _, y in points]
    _scale_y(chart, axes, values, scale)
    axes.set_xlabel(short(chart.x))
    axes.grid(True, linewidth=0.7)
    _whole_ticks(axes, [x for points in shown for x, _ in points])


def _draw_line(
    axes: Axes, points: Sequence[tuple[float, float]], index: int | None, scale: Scale
) -> None:
    """A line; one without an index is thin. What is beyond the axis is a mark at its end."""
    if not points:
        return
    color, dashes = (palette.FAINT, ()) if index is None else palette.series(index)
    width, alpha = (0.8, 0.35) if index is None else (1.6, 1.0)
    kept = thinned(points)
    xs = [x for x, _ in kept]
    ys = [_drawable(y) for _, y in kept]
    style: dict[str, Any] = {"dashes": dashes} if dashes else {}
    marker = "o" if len(kept) <= 12 and index is not None else None
    axes.plot(
        *(xs, ys), color=color.light, linewidth=width, alpha=alpha, marker=marker, **style,
        markersize=3.5,
    )  # fmt: skip
    if scale.beyond:
        for end, sign in ((scale.high, "^"), (scale.low, "v")):
            beyond = [x for x, y in kept if (y > end if sign == "^" else y < end)]
            axes.plot(
                *(beyond, [end] * len(beyond)),
                color=color.light,
                marker=sign,
                linestyle="none",
                markersize=6,
                clip_on=False,
            )


def _drawable(value: float) -> float:
    near = max(-_HUGE, min(_HUGE, value))
    return near if abs(near) >= 1 / _HUGE else 0.0


def _scale_y(chart: LineChart, axes: Axes, values: Sequence[float], scale: Scale) -> None:
    low, high = min(values, default=0.0), max(values, default=1.0)
    if scale.beyond:
        low, high = _drawable(scale.low), _drawable(scale.high)
    if scale.is_log:
        axes.set_yscale("log")
        if scale.beyond:
            axes.set_ylim(low, high)
    elif chart.from_zero:
        axes.set_ylim(0, (high * 1.06) or 1)
    elif low == high:
        axes.set_ylim(low - (abs(low) * 0.1 or 1), high + (abs(high) * 0.1 or 1))
    elif scale.beyond:
        axes.set_ylim(low, high)
    axes.set_title(
        short(chart.y, 52) + (", logarithmic" if scale.is_log else ""),
        loc="left",
        fontsize=11,
        color=palette.FAINT.light,
    )


def _are_apart(xs: Sequence[float]) -> bool:
    """Whether these few can all have their tick."""
    gaps = [after - before for before, after in pairwise(xs)]
    return 0 < len(gaps) < 8 and min(gaps) >= (xs[-1] - xs[0]) / 15


def _whole_ticks(axes: Axes, xs: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    is_whole = bool(xs) and all(x == int(x) for x in xs[:50])
    few = sorted(set(xs)) if len(xs) <= _FEW_POINTS else []
    if is_whole and _are_apart(few):
        axes.set_xticks(few)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=is_whole, steps=ROUND))
    axes.xaxis.set_major_formatter(FuncFormatter(tick))
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_formatter(FuncFormatter(tick))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=ROUND))
        low, high = axes.get_ylim()
        axes.yaxis.set_major_formatter(FuncFormatter(tick_of(high - low)))
    if xs and min(xs) == max(xs):
        half = max(1.0, abs(xs[0]) / 1000)
        axes.set_xlim(xs[0] - half, xs[0] + half)


_DRAW: dict[type, Any] = {
    LineChart: _draw_lines,
    BarChart: draw_bars,
    DotChart: draw_dots,
    IntervalChart: draw_intervals,
    Timeline: draw_timeline,
    HeatMap: draw_heat_map,
    HistoryChart: draw_history,
}


def _add_legend(figure: Figure, chart: Chart) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for index, label in enumerate(legend(chart)):
        name = short(label, 30)
        if isinstance(chart, Timeline):
            color = palette.KINDS.get(label, palette.FAINT).light
            is_mark = any(m.kind == label for row in chart.rows for m in row.marks)
            marker = palette.MARKERS.get(label, ("o", ""))[0]
            mark = Line2D([], [], color=color, marker=marker, linestyle="none", label=name)
            handles.append(mark if is_mark else Patch(color=color, label=name))
        else:
            color_of, dashes = line_style(chart, index)
            line = Line2D([], [], color=color_of.light, linewidth=1.6, label=name)
            if dashes:
                line.set_dashes(list(dashes))
            handles.append(line)
    if handles:
        figure.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=9)


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
