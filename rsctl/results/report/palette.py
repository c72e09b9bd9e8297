"""Colours of a report, for light and dark pages; lines are distinguishable without color vision.

After Okabe and Ito, "Color Universal Design" (2008), darkened on white and lightened on black for
a contrast of at least 3 : 1. Heat maps use cividis (Nuñez et al., PLOS ONE 2018), which readers
with and without colour vision deficiency see alike.
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
    Color("c2", "#c84f00", "#ff9a5c"),
    Color("c3", "#00805d", "#3fd0a4"),
    Color("c4", "#a8497f", "#e8a0ca"),
    Color("c5", "#806000", "#e6c229"),
    Color("c6", "#4d5560", "#c3c9d2"),
)
DASHES = ((), (4, 2), (1, 1.5), (6, 2, 1, 2), (3, 1), (1, 3))
"""The dash pattern of each colour of `SERIES`; a second round takes the next one."""

KINDS = {
    "queued": Color("queued", "#9aa3af", "#7b8491"),
    "queue": Color("queued", "#9aa3af", "#7b8491"),
    "starting": Color("starting", "#c49a00", "#e6c229"),
    "start": Color("starting", "#c49a00", "#e6c229"),
    "to the first metric": Color("c4", "#a8497f", "#e8a0ca"),
    "running": Color("c1", "#0072b2", "#56b4e9"),
    "training": Color("c1", "#0072b2", "#56b4e9"),
    "cancelling": Color("c6", "#4d5560", "#c3c9d2"),
    "first metric": Color("c3", "#00805d", "#3fd0a4"),
    "succeeded": Color("c3", "#00805d", "#3fd0a4"),
    "failed": Color("c2", "#c84f00", "#ff9a5c"),
    "expired": Color("c2", "#c84f00", "#ff9a5c"),
    "cancelled": Color("c6", "#4d5560", "#c3c9d2"),
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
    """For each kind of a timeline the class that gives a text its colour, as CSS."""
    names = dict.fromkeys(color.name for color in (*KINDS.values(), FAINT))
    return "".join(f".in-{name}{{color:var(--{name})}}" for name in names)
