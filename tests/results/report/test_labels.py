"""What is written beside and below a drawing: ticks, names, titles."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    ChartLine,
    HeatMap,
    HistoryChart,
    LineChart,
)
from rsctl.results.report.drawing import file_bytes
from rsctl.results.report.page import Page
from tests.results.report.made_charts import (
    evenly,
    history,
    many_lines,
    one_line,
    row_charts,
    texts,
    two_lines,
)


@pytest.mark.parametrize(
    ("xs", "labels"),
    [
        # few whole numbers that are apart have a tick each
        ([100, 102, 130], "100 102 130"),
        ([0, 2, 31], "0 10 20 30"),
        (evenly(7, 8), "0 7 14 21 28 35 42 49"),
        (evenly(7, 9), "0 20 40"),
        ([7, 7, 7, *evenly(7, 8), *[49] * 53], "0 7 14 21 28 35 42 49"),
        ([7, 7, 7, *evenly(7, 8), *[49] * 54], "0 10 20 30 40 50"),
        ([3], "2 3 4"),
        ([5000], "4,996 4,998 5,000 5,002 5,004"),
        ([0, 0.25, 1], "0 0.2 0.4 0.6 0.8 1"),
        ([1, 2, 3.5], "1 1.5 2 2.5 3 3.5"),
        ([1e6, 1.25e6], "1,000,000 1,250,000"),
        ([-3, 100], "-3 100"),
        (evenly(0.001, 11), "0 0.002 0.004 0.006 0.008 0.01"),
    ],
)
def test_the_ticks_below_a_line(xs: list[float], labels: str) -> None:
    assert " ".join(texts(one_line(xs, [1.0] * len(xs)), "middle")) == f"{labels} x"


@pytest.mark.parametrize(
    ("ys", "from_zero", "labels"),
    [
        ([0, 1], False, "0 0.25 0.5 0.75 1"),
        ([1000, 1000.5], False, "1,000 1,000.2 1,000.4"),
        ([1, 999], False, "0 250 500 750 1,000"),
        ([1, 1000], False, "1 10 100 1,000"),
        ([0.001, 10], False, "0.001 0.01 0.1 1 10"),
        ([1e-3, 1e6], False, "0.001 0.1 10 1,000 100,000"),
        ([1e-3, 1.1e6], False, "0 250,000 500,000 750,000 1,000,000"),
        ([0, 1e6], False, "0 250,000 500,000 750,000 1,000,000"),
        ([1, 1000], True, "0 250 500 750 1,000"),
        ([0, 0], True, "0 0.2 0.4 0.6 0.8 1"),
        ([5, 5], True, "0 2 4"),
        ([-5, -1], True, "-4 -2 0"),
        ([5, 5], False, "4.6 4.8 5 5.2 5.4"),
        ([0, 0], False, "-1 -0.5 0 0.5 1"),
        ([1e-7, 3e-7], False, "1e-07 1.5e-07 2e-07 2.5e-07 3e-07"),
        ([12_345_678, 12_346_315], False, "12,345,800 12,346,000 12,346,200"),
        ([0.999999, 0.9999995], False, "0.999999 0.9999992 0.9999994"),
        ([1e12, 1.001e12], False, "1e+12 1.00025e+12 1.0005e+12 1.00075e+12 1.001e+12"),
        ([0, 8e-5], False, "0 0.00002 0.00004 0.00006 0.00008"),
    ],
)
def test_the_ticks_beside_a_line(ys: list[float], from_zero: bool, labels: str) -> None:
    chart = replace(one_line([0, 1], ys), from_zero=from_zero)
    assert " ".join(texts(chart, "end")) == labels


@pytest.mark.parametrize("points", [12, 13])
def test_few_points_of_a_line_are_marked(points: int) -> None:
    chart = one_line(evenly(1, points), evenly(1, points))
    assert ('stroke-linecap="round"' in file_bytes(chart, "svg").decode()) is (points == 12)


@pytest.mark.parametrize(
    ("chart", "below", "beside"),
    [
        (history([100.0] * 5), "c0 c1 c2 c3 c4 commits", "100 101 102"),
        (history([0.0] * 6), "c0 c1 c2 c4 c5 commits", "0 0.1 0.2"),
        # a size is not written over another one
        (history([1.0] * 5, [(1, 1), (2, 2)]), "1 % 2 % c0 c1 c2 c3 c4 commits", ""),
        (history([1.0] * 20, [(2, 3), (4, 6), (5, 7)]), "2 % 5 % c0 c5 c10 c14 c19 commits", ""),
    ],
)
def test_the_labels_of_a_history(chart: HistoryChart, below: str, beside: str) -> None:
    assert " ".join(texts(chart, "middle")) == below
    if beside:
        assert " ".join(texts(chart, "end")) == beside


@pytest.mark.parametrize(
    ("values", "labels"),
    [([3.0], "0 1 2 3 s"), ([-2.0], "-2 -1 0 1 2 s"), ([-2.0, 1.0], "-2 -1 0 1 2 s")],
)
def test_the_ticks_below_bars(values: list[float], labels: str) -> None:
    """A job's log may have a duration below zero."""
    chart = BarChart("t", "s", [Bar("a", value) for value in values])
    assert " ".join(texts(chart, "middle")) == labels


def heat_map(
    row_key: str = "r", rows: Sequence[str] = ("a",), key: str = "c", columns: Sequence[str] = "b"
) -> HeatMap:
    return HeatMap("t", "", row_key, rows, key, columns, [[1.0] * len(columns)] * len(rows))


PLACES: dict[str, tuple[int, Callable[[str], Chart]]] = {
    "row": (56, lambda name: row_charts([name])[0]),
    "axis of rows": (52, lambda name: BarChart("t", name, [Bar("a", 1.0)])),
    "axis below lines": (44, lambda name: one_line([0, 1], [0, 1], x=name)),
    "axis beside lines": (52, lambda name: one_line([0, 1], [0, 1], y=name)),
    "axis below a history": (60, lambda name: replace(history([1.0]), x=name)),
    "axis beside a history": (52, lambda name: replace(history([1.0]), y=name)),
    "rows' key": (52, lambda name: heat_map(row_key=name)),
    "columns' key": (44, lambda name: heat_map(key=name)),
    "row of a heat map": (16, lambda name: heat_map(rows=[name])),
    "one column": (48, lambda name: heat_map(columns=[name])),
    "one of 3 columns": (16, lambda name: heat_map(columns=["a", name, "b"])),
    "one of 9 columns": (6, lambda name: heat_map(columns=[*"abcdefgh", name])),
    "legend": (30, two_lines),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_name_is_shortened_only_where_it_is_longer_than_its_place(place: str) -> None:
    longest, chart_of = PLACES[place]
    name = "".join(chr(ord("A") + n % 26) for n in range(longest + 1))
    shortened = f"{name[: longest // 2 - 1]}…{name[-(longest // 2) :]}"
    assert name[:-1] in texts(chart_of(name[:-1]))
    drawn = texts(chart_of(name))
    assert name not in drawn
    assert shortened in drawn


@pytest.mark.parametrize(
    ("longest", "chart_of"),
    [
        (80, two_lines),
        (60, lambda name: many_lines(name, [(0, 1), (1, 1)])),
        (60, lambda name: one_line([0], [1])),
    ],
    ids=["legend", "highest", "one value"],
)
def test_a_name_beside_a_drawing_is_cut_and_its_length_stated(
    longest: int, chart_of: Callable[[str], LineChart]
) -> None:
    for length in (longest, longest + 1):
        chart = chart_of("n" * length)
        if len(chart.lines[0].points) == 1:
            chart = replace(chart, lines=[ChartLine("n" * length, chart.lines[0].points)])
        html = re.sub("<(svg|table).*?</(svg|table)>", "", Page().figures([chart]) or "")
        cut = f"{'n' * longest} … ({length} characters)"
        assert (cut in html) is (length > longest)
        assert ("n" * length in html) is (length == longest)


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("W" * 60, ["W" * 60]),
        ("W" * 61 + " <b>", ["W" * 60, "W <b>"]),
        ("W" * 201, ["W" * 60] * 3 + ["W" * 20 + " … (201 characters)"]),
    ],
)
def test_the_title_of_a_file_is_wrapped_above_its_drawing(title: str, lines: list[str]) -> None:
    chart = replace(one_line([0, 1], [0, 1]), title=title)
    svg = file_bytes(chart, "svg").decode()
    found = re.findall(r'<text x="8.0" y="([0-9.]+)" font-size="11" font-weight="bold"', svg)
    assert [float(y) for y in found] == [18.0 + 14 * n for n in range(len(lines))]
    assert texts(chart)[-len(lines) :] == lines
    height = 194 + 8 + 14 * len(lines)
    assert f'viewBox="0 0 388.0 {height}.0"' in svg
