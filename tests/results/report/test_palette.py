"""The contrast of colours, as WCAG 2.2 computes it."""

from __future__ import annotations

import re

import pytest

from rsctl.results.report import palette
from rsctl.results.report.charts import HeatMap
from rsctl.results.report.drawing import file_bytes

TEXT, SHAPE = 4.5, 3.0


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(color: str, part: float, other: str) -> str:
    pairs = [(int(color[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part * a + (1 - part) * b):02x}" for a, b in pairs)


@pytest.mark.parametrize("side", ["light", "dark"])
def test_texts_and_shapes_stand_out(side: str) -> None:
    paper, grid = getattr(palette.PAPER, side), getattr(palette.GRID, side)
    log = mixed(grid, 0.3, paper)  # as in ui.css
    pointed = mixed(grid, 0.3, log)
    for color in (palette.INK, palette.FAINT, *palette.SERIES):
        own = getattr(color, side)
        behind = (paper, log, pointed, mixed(own, 0.1, paper))
        assert min(contrast(own, each) for each in behind) >= TEXT, color.name
    for kind, color in palette.KINDS.items():
        assert contrast(getattr(color, side), paper) >= SHAPE, kind


def test_numbers_of_a_heat_map_can_be_read() -> None:
    values = [float(n) for n in range(101)]
    chart = HeatMap("t", "", "r", ["a"], "c", [str(n) for n in range(101)], [values])
    text = file_bytes(chart, "svg").decode()
    fields = re.findall(r'<path d="[^"]+" fill="(#[0-9a-f]{6})"/>', text)
    inks = re.findall(r'<text [^>]*fill="(#0{6}|#f{6})"', text)
    assert len(fields) == len(inks) == 101
    assert min(map(contrast, fields, inks)) >= TEXT
