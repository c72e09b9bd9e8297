"""Colours of a report, for light and dark pages; lines are distinguishable without color vision.

After Okabe and Ito, "Color Universal Design" (2008), darkened on white and lightened on black for
a contrast of at least 3 : 1, and of 4.5 : 1 for texts. Heat maps use cividis (Nuñez et al., PLOS
ONE 2018), which readers with and without colour vision deficiency see alike.
"""

from __future__ import annotations

from typing import NamedTuple


class Color(NamedTuple):
    """One colour: the CSS variable that stands for it, on a light page and on a dark one."""

    name: str
    light: str
    dark: str


INK = Color("ink", "#1b1f24", "#e8eaed")
FAINT = Color("faint", "#5b6471", "#a2abb8")
GRID = Color("grid", "#dde1e7", "#353b44")
PAPER = Color("paper", "#fffffe", "#14171b")
SERIES = (
    Color("c1", "#0072b2", "#56b4e9"),
    Color("c2", "#b84800", "#ff9a5c"),
    Color("c3", "#007a58", "#3fd0a4"),
    Color("c4", "#a8497f", "#e8a0ca"),
    Color("c5", "#806000", "#e6c229"),
    Color("c6", "#4d5560", "#c3c9d2"),
)
DASHES = ((), (4, 2), (1, 1.5), (6, 2, 1, 2), (3, 1), (1, 3))
"""The dash pattern of each colour of `SERIES`; a second round takes the next one."""

_QUEUED = Color("queued", "#868f9c", "#7b8491")
_STARTING = Color("starting", "#ab8600", "#e6c229")
KINDS = {
    "queued": _QUEUED,
    "queue": _QUEUED,
    "starting": _STARTING,
    "start": _STARTING,
    "to the first metric": SERIES[3],
    "running": SERIES[0],
    "training": SERIES[0],
    "cancelling": SERIES[5],
    "first metric": SERIES[2],
    "succeeded": SERIES[2],
    "failed": SERIES[1],
    "expired": SERIES[1],
    "cancelled": SERIES[5],
}
MARKERS = {
    "first metric": ("v", "▼"),
    "succeeded": ("o", "●"),
    "failed": ("X", "✖"),
    "expired": ("X", "✖"),
    "cancelled": ("s", "■"),
}
ALL = {color.light: color for color in (INK, FAINT, GRID, PAPER, *SERIES, *KINDS.values())}


def series(index: int) -> tuple[Color, tuple[float, ...]]:
    """The colour and the dash pattern of the line of an index."""
    turn, number = divmod(index, len(SERIES))
    return SERIES[number], DASHES[(number + turn) % len(DASHES)]


def css(is_dark: bool) -> str:
    """The colours as declarations of CSS variables."""
    colors = {color.name: color.dark if is_dark else color.light for color in ALL.values()}
    return ";".join(f"--{name}:{value}" for name, value in colors.items())


def classes() -> str:
    """For each colour that a text may have its class, as CSS."""
    return "".join(f".in-{color.name}{{color:var(--{color.name})}}" for color in (*SERIES, FAINT))
