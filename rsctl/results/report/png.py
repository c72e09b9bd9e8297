"""A drawing as a PNG file, by matplotlib (extra `report`)."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from rsctl.installation import needs_extra
from rsctl.results.report import palette
from rsctl.results.report.canvas import Drawing, Marks, Path, Text, light, outline

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_DPI = 200
_ALIGN = {"start": "left", "middle": "center", "end": "right"}
_SETTINGS: Any = {
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
}


def require_matplotlib() -> None:
    """Raises RsctlError if the extra `report` is not installed."""
    remedy = "{}, or use --chart-format svg, which needs no package"
    with needs_extra("report", "report", "charts as PNG files need matplotlib", remedy):
        import matplotlib  # noqa: F401


def png_bytes(drawing: Drawing) -> bytes:
    """The drawing as a PNG file. Raises ImportError without matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    with warnings.catch_warnings(), matplotlib.rc_context(_SETTINGS):
        warnings.simplefilter("ignore")  # such as a letter that the font does not have
        figure = Figure(figsize=(drawing.width / 72, drawing.height / 72))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, drawing.width)
        axes.set_ylim(drawing.height, 0)
        for order, shape in enumerate(drawing.shapes):
            if isinstance(shape, Path):
                _draw_path(axes, shape, drawing, order)
            elif isinstance(shape, Marks):
                _draw_marks(axes, shape, order)
            else:
                _draw_text(axes, shape, order)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=_DPI, facecolor="white")
        return data.getvalue()


def _draw_path(axes: Axes, path: Path, drawing: Drawing, order: int) -> None:
    from matplotlib.patches import Polygon, Rectangle

    look: Any = {"color": light(path.color), "alpha": path.opacity, "zorder": order}
    drawn: Artist
    if path.width:
        (line,) = axes.plot(*zip(*path.points, strict=True), linewidth=path.width, **look)
        if path.dashes:
            line.set_dashes(list(path.dashes))
        drawn = line
    else:
        drawn = axes.add_patch(Polygon(path.points, linewidth=0, **look))
    if path.is_clipped:
        left, top, right, bottom = drawing.clip
        box = Rectangle((left, top), right - left, bottom - top, transform=axes.transData)
        drawn.set_clip_path(box)


def _draw_marks(axes: Axes, marks: Marks, order: int) -> None:
    from matplotlib.patches import Circle, Polygon

    edge = palette.PAPER.light if marks.is_outlined else "none"
    for x, y in marks.points:
        form: Any = {"facecolor": light(marks.color), "edgecolor": edge, "alpha": marks.opacity}
        axes.add_patch(
            Circle((x, y), marks.size / 2, **form, zorder=order)
            if marks.shape == "o"
            else Polygon(outline(marks.shape, x, y, marks.size), **form, zorder=order)
        )


def _draw_text(axes: Axes, text: Text, order: int) -> None:
    from matplotlib.patheffects import withStroke

    drawn = axes.text(
        *(text.x, text.y, text.text),
        color=light(text.color),
        fontsize=text.size,
        ha=_ALIGN[text.anchor],
        weight="bold" if text.is_bold else "normal",
        zorder=order,
    )
    if text.has_halo:
        drawn.set_path_effects([withStroke(linewidth=3, foreground=palette.PAPER.light)])
