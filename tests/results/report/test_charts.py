"""What of many rows, points and lines is drawn: limits, scales, bands, legends."""

from __future__ import annotations

import re
from dataclasses import replace
from math import nan

import pytest

from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    ChartLine,
    DotChart,
    HeatMap,
    IntervalChart,
    LineChart,
    Timeline,
    TimelineRow,
    band,
    extremes,
    legend,
    thinned,
    time_unit,
)
from rsctl.results.report.drawing import file_bytes
from rsctl.results.report.page import Page
from rsctl.results.report.scales import beyond_note, scale_of
from tests.results.report.made_charts import (
    BARS,
    ROWS,
    evenly,
    many_lines,
    one_line,
    row_charts,
    texts,
    two_lines,
)


@pytest.mark.parametrize(("label", "most"), [("row {:>10}", 130), ("row {:>11}", 60)])
def test_of_too_many_rows_the_first_are_drawn(label: str, most: int) -> None:
    """More with short labels than with long ones, which stand above their rows."""
    for number in (most, most + 1, most + 1200):
        names = [label.format(n).replace("  ", "__") for n in range(number)]
        values = [[float(n)] for n in range(number)]
        heat = HeatMap("t", "", "r", [name[-9:] for name in names], "c", ["x"], values)
        for chart in [*row_charts(names), *([heat] if most == 130 else [])]:
            left = number - most
            note = f"Not drawn: {left:,} more row{'s' if left > 1 else ''}."
            html = Page().figures([chart]) or ""
            drawing = re.findall(r"<svg.*?</svg>", html)[-1]
            tail = names[most - 1][-9:]
            assert f"{tail}</text>" in drawing
            assert (note in html) is (left > 0)
            assert ("Not drawn" in html) is (left > 0)
            if left:
                assert f"{names[most][-9:]}</text>" not in drawing


NO_VALUES: list[Chart] = [
    LineChart("t", "x", "y", [ChartLine("a", [(0, nan)])], others=[ChartLine("b", [])]),
    BarChart("t", "x", [Bar("a", None)]),
    IntervalChart("t", "x", [Bar("a", None)]),
    DotChart("t", "x", [("a", [])]),
    Timeline("t", [TimelineRow("a", [])]),
    HeatMap("t", "", "r", ["a"], "c", ["b"], [[None]]),
]


def test_a_chart_without_any_value_is_left_out_but_can_be_drawn() -> None:
    page = Page()
    assert page.figures(NO_VALUES) is None
    assert page.charts == []
    for chart in NO_VALUES:
        assert file_bytes(chart, "svg").startswith(b"<svg ")
    assert texts(NO_VALUES[0], "middle") == ["0", "0.2", "0.4", "0.6", "0.8", "1", "x"]
    assert texts(NO_VALUES[0], "end") == ["0", "0.25", "0.5", "0.75", "1"]


@pytest.mark.parametrize(
    ("most", "kept"),
    [
        (9, "0 1 2 3 4 5 6 7 8"),
        (8, "0 1 2 3 4 6 7 8"),
        (7, "0 1 2 4 6 8"),
        (6, "0 1 2 4 6 8"),
        (2, "0 1 4 8"),
    ],
)
def test_of_many_points_each_stretch_keeps_its_lowest_and_its_highest(most: int, kept: str) -> None:
    ys = [5.0, 1.0, 4.0, 3.0, 9.0, 6.0, 2.0, 7.0, 5.0]
    points = list(enumerate(ys))
    assert " ".join(str(x) for x, _ in thinned(points, most)) == kept


def test_a_band_has_the_lowest_the_median_and_the_highest_of_each_stretch() -> None:
    lines = [ChartLine("a", [(10, 4.0), (20, 8.0), (30, nan)]), ChartLine("b", [(10, 1.0)]),
             ChartLine("c", [(14, 2.0), (15, 3.0)])]  # fmt: skip
    assert band(lines, 2) == [(12.5, 1.0, 2.0, 4.0), (17.5, 3.0, 5.5, 8.0)]
    assert band([ChartLine("a", [(7, 1.0), (7, 3.0)])], 2) == [(7.5, 1.0, 2.0, 3.0)]
    assert band([ChartLine("a", [])]) == []
    assert len(band([ChartLine("a", [(n, 1.0) for n in range(100)])])) == 60


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [(180.0, (1.0, "s")), (180.1, (60.0, "min")), (10800.0, (60.0, "min")),
     (10800.1, (3600.0, "h"))],
)  # fmt: skip
def test_the_unit_of_an_axis_of_time(seconds: float, unit: tuple[float, str]) -> None:
    assert time_unit(seconds) == unit


def test_of_a_band_the_lines_that_stand_out_are_named() -> None:
    means = [2.0, 3.0, 3.0, 1.0, 4.0, 3.0, 3.0, 3.0, 3.0]
    lines = [ChartLine(f"<{n}>", [(0, mean - 1), (1, mean + 1)]) for n, mean in enumerate(means)]
    chart = LineChart("t", "x", "y", [*lines, ChartLine("empty", [(0, nan)])])
    assert extremes(chart) == "On average <3> is lowest (1), <4> highest (4)."
    assert extremes(replace(chart, lines=lines[:8])) == ""
    alike = [ChartLine(str(n), [(0, 1.0), (1, 2.0)]) for n in range(9)]
    assert extremes(replace(chart, lines=alike)) == ""
    two = [*alike, ChartLine("high", [(0, 2.0)])]
    assert extremes(replace(chart, lines=two)).endswith(" highest (2).")


FAR = 1e4


@pytest.mark.parametrize(
    ("ys", "from_zero", "scale"),
    [
        # fewer than ten values, or one that is not far away: as far as the values reach
        ([*evenly(1, 8), FAR], False, (0.0, FAR, 0, False)),
        # up to 30 times the extent of the middle values on either side
        ([*evenly(1, 10), 218.0], False, (0.0, 218.0, 0, False)),
        ([*evenly(1, 10), 263.0], False, (-0.54, 9.54, 1, False)),
        ([*evenly(1, 10), 263.0], True, (0.0, 9.54, 1, False)),
        ([-263.0, *evenly(1, 10)], False, (-0.54, 9.54, 1, False)),
        ([-263.0, *evenly(1, 10)], True, (0.0, 9.54, 1, False)),
        ([5.0] * 10 + [4000.0], False, (4.7, 5.3, 1, False)),
        ([0.0] * 10 + [FAR], False, (-0.06, 0.06, 1, False)),
        # logarithmic from three decades to nine
        ([1.0, 999.0], False, (1.0, 999.0, 0, False)),
        ([1.0, 1000.0], False, (1.0, 1000.0, 0, True)),
        ([1.0, 1e9], False, (1.0, 1e9, 0, True)),
        ([1.0, 1.1e9], False, (1.0, 1.1e9, 0, False)),
        ([1.0, 1000.0], True, (1.0, 1000.0, 0, False)),
        ([0.0, 1000.0], False, (0.0, 1000.0, 0, False)),
        ([nan], False, (0.0, 1.0, 0, False)),
    ],
)
def test_the_scale_shows_most_values(
    ys: list[float], from_zero: bool, scale: tuple[float, float, int, bool]
) -> None:
    chart = replace(one_line(evenly(1, len(ys)), ys), from_zero=from_zero)
    assert scale_of(chart) == pytest.approx(scale)
    assert (beyond_note(chart) != "") is (scale[2] > 0)


def test_values_beyond_the_scale_are_counted_with_the_farthest() -> None:
    chart = one_line(evenly(1, 12), [*evenly(1, 10), FAR, -2 * FAR])
    note = "beyond the axis, marked at its end: the farthest is -20,000"
    assert beyond_note(chart) == f"2 values {note} at 11."
    other = ChartLine("other", [(7, -2 * FAR)])
    shown = ChartLine("a", [*enumerate(evenly(1, 30))])
    assert beyond_note(replace(chart, lines=[shown], others=[other])) == (
        f"1 value {note} of other at 7."
    )
    # only a reference is beyond: nothing that was measured
    assert beyond_note(replace(chart, lines=[shown], reference=other)) == ""


@pytest.mark.parametrize(
    ("chart", "entries"),
    [
        (one_line([0, 1], [0, 1]), []),
        (replace(one_line([0, 1], [0, 1]), reference=ChartLine("ideal", [])), ["a", "ideal"]),
        (replace(one_line([0, 1], [0, 1]), others=[ChartLine("b", [])]), ["a", "1 other"]),
        (
            replace(two_lines("a"), others=[ChartLine("b", [])] * 2, reference=ChartLine("i", [])),
            ["a", "", "2 others", "i"],
        ),
        (
            replace(many_lines("a", []), reference=ChartLine("i", [])),
            ["median of 9", "lowest to highest", "i"],
        ),
        (Timeline("t", ROWS), ["running", "failed"]),
        (BarChart("t", "x", BARS), []),
    ],
)
def test_the_legend_of_a_chart(chart: Chart, entries: list[str]) -> None:
    assert legend(chart) == entries
