"""A drawing as shapes in points of 1/72 inch, and how it becomes SVG.

In a page colours are CSS variables, so that they follow the page's; in a file they are the light
ones. Text stays text, so that it can be selected and searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from rsctl.results.report import palette
from rsctl.results.report.html import Markup, plain

Points = Sequence[tuple[float, float]]
Anchor = Literal["start", "middle", "end"]
Paint = palette.Color | str
"""A colour of the palette, which follows the page's, or `#rrggbb`."""

Painter = Callable[[Paint], str]

FONT = "'DejaVu Sans', Verdana, sans-serif"

_EM = 0.62  # the mean width of a letter, in sizes of the font
_LONGEST_TEXT = 200


@dataclass(frozen=True)
class Path:
    """A line through points or, if `width` is 0, the area within them."""

    points: Points
    color: Paint
    width: float = 0.0
    opacity: float = 1.0
    dashes: Sequence[float] = ()
    """Lengths in widths of the line."""
    is_clipped: bool = False


@dataclass(frozen=True)
class Marks:
    """Marks of one shape: `o`, `s`, `X`, `^` or `v`; `size` is their width."""

    points: Points
    shape: str
    size: float
    color: Paint
    opacity: float = 1.0
    is_outlined: bool = False
    """Whether a line in the colour of the paper is around each."""


@dataclass(frozen=True)
class Text:
    """A text whose baseline begins, has its middle or ends at a point."""

    x: float
    y: float
    text: str
    size: float
    color: Paint = palette.INK
    anchor: Anchor = "start"
    is_bold: bool = False
    has_halo: bool = False
    """Whether the paper's colour is around the letters, where lines pass below them."""


Shape = Path | Marks | Text


@dataclass
class Drawing:
    """Shapes, from the lowest to the highest, and the box that clipped ones stay in."""

    width: float
    height: float
    clip: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    shapes: list[Shape] = field(default_factory=list)


def text_width(text: str, size: float) -> float:
    """The approximate width of a text."""
    return _EM * size * len(text)


def outline(shape: str, x: float, y: float, size: float) -> Points:
    """The corners of a mark that is not round."""
    half = size / 2
    if shape == "X":
        arm = size / 4
        right = [(0.0, -arm), (arm, -half), (half, -arm), (arm, 0.0), (half, arm), (arm, half)]
        corners = right + [(-across, -down) for across, down in right]
    elif shape in "^v":
        up = -half if shape == "^" else half
        corners = [(0.0, up), (half, -up), (-half, -up)]
    else:
        corners = [(-half, -half), (half, -half), (half, half), (-half, half)]
    return [(x + across, y + down) for across, down in corners]


def page_svg(drawing: Drawing, prefix: str, title: str) -> Markup:
    """An `<svg>` element of a page; `prefix` makes its ids unique there."""
    return _svg(drawing, _in_page, prefix, role="img", aria_label=plain(title, 200))


def file_svg(drawing: Drawing) -> str:
    """An SVG document, in the light colours."""
    width, height = f"{drawing.width:.0f}pt", f"{drawing.height:.0f}pt"
    names = {"xmlns": "http://www.w3.org/2000/svg", "font_family": FONT}
    return f"{_svg(drawing, light, '', width=width, height=height, **names)}\n"


def light(color: Paint) -> str:
    """A colour on white paper, as `#rrggbb`."""
    return color if isinstance(color, str) else color.light


def _in_page(color: Paint) -> str:
    return color if isinstance(color, str) else f"var(--{color.name})"


def _svg(drawing: Drawing, paint: Painter, prefix: str, **attributes: str) -> Markup:
    left, top, right, bottom = drawing.clip
    are_beyond = any(
        not (left <= x <= right and top <= y <= bottom)
        for shape in drawing.shapes
        if isinstance(shape, Path) and shape.is_clipped
        for x, y in shape.points
    )
    parts = []
    if are_beyond:
        box = _tag(
            "path", "", d=_closed([(left, top), (right, top), (right, bottom), (left, bottom)])
        )
        parts.append(f'<defs><clipPath id="{prefix}box">{box}</clipPath></defs>')
    clip = f"url(#{prefix}box)" if are_beyond else None
    for shape in drawing.shapes:
        if isinstance(shape, Path):
            parts.append(_path(shape, paint, clip if shape.is_clipped else None))
        elif isinstance(shape, Marks):
            parts.append(_marks(shape, paint))
        else:
            parts.append(_text(shape, paint))
    view = f"0 0 {drawing.width:.1f} {drawing.height:.1f}"
    return Markup(_tag("svg", "".join(parts), viewBox=view, **attributes))


def _path(path: Path, paint: Painter, clip: str | None) -> str:
    color = paint(path.color)
    opacity = None if path.opacity == 1 else f"{path.opacity:g}"
    if not path.width:
        return _tag("path", "", d=_closed(path.points), fill=color, opacity=opacity, clip_path=clip)
    dashes = " ".join(f"{path.width * dash:.3g}" for dash in path.dashes) or None
    return _tag(
        "path",
        "",
        d=_line(path.points),
        fill="none",
        stroke=color,
        stroke_width=f"{path.width:g}",
        stroke_linejoin="round",
        stroke_dasharray=dashes,
        opacity=opacity,
        clip_path=clip,
    )


def _marks(marks: Marks, paint: Painter) -> str:
    color, size = paint(marks.color), marks.size
    opacity = None if marks.opacity == 1 else f"{marks.opacity:g}"
    if marks.shape == "o":  # a line of no length with round ends
        dots = "".join(f"M{_at(x, y)}h0" for x, y in marks.points)
        below = paint(palette.PAPER) if marks.is_outlined else None
        rings = [(below, size + 2)] if below else []
        return "".join(
            _tag(
                *("path", ""),
                d=dots,
                stroke=stroke,
                stroke_width=f"{width:g}",
                stroke_linecap="round",
                opacity=opacity,
            )
            for stroke, width in (*rings, (color, size))
        )
    corners = "".join(_closed(outline(marks.shape, x, y, size)) for x, y in marks.points)
    edge = paint(palette.PAPER) if marks.is_outlined else None
    return _tag("path", "", d=corners, fill=color, stroke=edge, opacity=opacity)


def _text(text: Text, paint: Painter) -> str:
    halo = paint(palette.PAPER) if text.has_halo else None
    return _tag(
        "text",
        escape(plain(text.text, _LONGEST_TEXT), quote=False),
        x=f"{text.x:.1f}",
        y=f"{text.y:.1f}",
        font_size=f"{text.size:g}",
        font_weight="bold" if text.is_bold else None,
        fill=paint(text.color),
        text_anchor=None if text.anchor == "start" else text.anchor,
        stroke=halo,
        stroke_width="3" if halo else None,
        paint_order="stroke" if halo else None,
    )


def _tag(name: str, content: str, **attributes: str | None) -> str:
    """An element of content that is markup. Values of `html.element` are cut; these are not."""
    given = "".join(
        f' {key.replace("_", "-")}="{escape(value, quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def _at(x: float, y: float) -> str:
    return f"{x:.1f} {y:.1f}"


def _line(points: Points) -> str:
    return "M" + "L".join(_at(x, y) for x, y in points)


def _closed(points: Points) -> str:
    return f"{_line(points)}Z"
