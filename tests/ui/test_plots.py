"""Charts as the data that the page draws, whole."""

from __future__ import annotations

import math

import pytest

from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    ChartLine,
    ChartMark,
    DotChart,
    HeatMap,
    IntervalChart,
    LineChart,
    Span,
    Timeline,
    TimelineRow,
)
from rsctl.ui.plots import plot_of

LINES = LineChart(
    "loss",
    "step",
    "nats",
    [ChartLine("a", [(0, 1.0), (1, 3.0)]), ChartLine("b\x07", [(0, 2.0), (1, math.nan)])],
    reference=ChartLine("ideal", [(0, 1.0)]),
)
HEAT = HeatMap("Loss", "", "lr", ["1", "2"], "batch", ["a", "b"], [[1.0, None], [2.5, math.inf]])
STATES = Timeline(
    "States",
    [
        TimelineRow(
            "worker-0",
            [Span(0, 120, "queued"), Span(120, 7200, "running")],
            [ChartMark(240, "warning")],
        )
    ],
)
LONG = "a" * 30 + "z" * 30
ROW = "a" * 90 + "z" * 90
BAND = LineChart(
    "t", "x", "y", [ChartLine(str(n), [(0, float(n)), (60, 2.0 * n)]) for n in range(9)]
)
OTHERS = LineChart(
    "t",
    LONG,
    LONG,
    [ChartLine(LONG, [(0, 1.0)]), ChartLine("b", [(0, 2000.1234567)])],
    others=[ChartLine("o", [(1 / 3, 5.0)])],
)
FAR = LineChart("t", "x", "y", [ChartLine("a", [*((n, float(n)) for n in range(11)), (11, 1e5)])])
ENDS = Timeline("t", [TimelineRow(ROW, [Span(0, 9, "odd")], [ChartMark(10801, "failed")])] * 61)
MANY = HeatMap("t", "", LONG, [LONG] * 131, LONG, [LONG], [[1.0]] * 131)
FEW = [Bar("a", 1.5, 1.0, 2.0), Bar("b", None)]


@pytest.mark.parametrize(
    ("chart", "plot"),
    [
        (
            LINES,
            {
                "title": "Line chart: loss. nats over step. a: from 1 to 3, lowest 1, highest 3; "
                "b\\x07: from 2 to 2, lowest 2, highest 2.",
                "kind": "line",
                "x": "step",
                "y": "nats",
                "low": 0.9,
                "high": 3.1,
                "log": False,
                "lines": [
                    {"label": "a", "color": "c1", "dashes": [], "points": [[0.0, 1.0], [1.0, 3.0]]},
                    {
                        "label": "b\\x07",
                        "color": "c2",
                        "dashes": [6.4, 3.2],
                        "points": [[0.0, 2.0]],
                    },
                ],
                "others": [],
                "reference": [[0.0, 1.0]],
            },
        ),
        (
            HEAT,
            {
                "title": "Heat map: Loss. lr by batch: 1 to inf.",
                "kind": "heat",
                "dense": False,
                "x": "batch",
                "y": "lr",
                "columns": ["a", "b"],
                "rows": ["1", "2"],
                "values": [[1.0, None], [2.5, None]],
                "texts": [["1", ""], ["2.5", "inf"]],
            },
        ),
        (
            STATES,
            {
                "title": "Timeline: States. 1 row: queued, running, warning.",
                "kind": "timeline",
                "dense": False,
                "x": "time since the submission (min)",
                "rows": [
                    {
                        "label": "worker-0",
                        "spans": [[0.0, 2.0, "queued", "queued"], [2.0, 120.0, "c1", "running"]],
                        "marks": [[4.0, "faint", "●", "warning"]],
                    }
                ],
            },
        ),
        (
            BarChart("Steps", "s", FEW),
            {
                "title": "Bar chart: Steps. a 1.5. In s.",
                "kind": "rows",
                "dense": False,
                "x": "s",
                "bars": True,
                "rows": [
                    {"label": "a", "value": 1.5, "low": 1.0, "high": 2.0, "text": "1.5"},
                    {"label": "b", "value": None, "low": None, "high": None, "text": "no data"},
                ],
            },
        ),
        (
            DotChart("Steps", "s", [("a", [3.0, 1.0, math.nan]), ("b", [])]),
            {
                "title": "Dot chart: Steps. a 1 to 3.",
                "kind": "rows",
                "dense": False,
                "dots": True,
                "x": "s",
                "rows": [
                    {"label": "a", "dots": [3.0, 1.0], "median": 2.0, "text": "2"},
                    {"label": "b", "dots": [], "median": None, "text": "no data"},
                ],
            },
        ),
    ],
    ids=["lines", "heat map", "timeline", "bars", "dots"],
)
def test_a_chart_as_data(chart: Chart, plot: dict[str, object]) -> None:
    assert plot_of(chart) == plot


def test_very_many_lines_are_a_band_and_a_median() -> None:
    plot = plot_of(BAND)
    assert plot["band"] == [[0.5, 0.0, 4.0, 8.0], [59.5, 0.0, 8.0, 16.0]]
    points = [[0.5, 4.0], [59.5, 8.0]]
    assert plot["lines"] == [{"label": "median", "color": "c1", "dashes": [], "points": points}]
    assert (plot["low"], plot["high"], plot["others"]) == (-0.8, 16.8, [])


def test_lines_in_the_background_and_long_names() -> None:
    plot = plot_of(OTHERS)
    assert (plot["log"], plot["low"], plot["high"]) == (True, 1.0, 2000.1234567)
    assert plot["others"] == [[[0.333333333, 5.0]]]
    assert plot["lines"][1]["points"] == [[0.0, 2000.12346]]
    short = f"{'a' * 21}…{'z' * 22}"
    assert (plot["x"], plot["y"], plot["lines"][0]["label"]) == (
        short,
        f"{'a' * 25}…{'z' * 26}",
        short,
    )


def test_a_value_far_away_is_beyond_the_axis() -> None:
    plot = plot_of(FAR)
    assert (plot["low"], plot["high"], plot["log"]) == (-0.6, 10.6, False)
    assert plot["lines"][0]["points"][-1] == [11.0, 100000.0]


def test_long_names_and_many_rows_are_cut() -> None:
    name = f"{'a' * 59}…{'z' * 60}"
    plot = plot_of(ENDS)
    assert plot["x"] == "time since the submission (h)"
    row = {
        "label": name,
        "spans": [[0.0, 0.0025, "faint", "odd"]],
        "marks": [[3.00027778, "c2", "✖", "failed"]],
    }
    assert plot["rows"] == [row] * 60
    bars = plot_of(BarChart("t", LONG, [Bar(ROW, math.inf, -math.inf, math.nan)] * 61))
    bar = {"label": name, "value": None, "low": None, "high": None, "text": "inf"}
    assert bars["rows"] == [bar] * 60
    dots = plot_of(DotChart("t", LONG, [(ROW, [1.0])] * 61))
    assert dots["rows"] == [{"label": name, "dots": [1.0], "median": 1.0, "text": "1"}] * 60
    dense = plot_of(DotChart("t", LONG, [("a", [1.0])] * 131))
    assert (dense["dense"], len(dense["rows"])) == (True, 130)
    heat = plot_of(MANY)
    assert (heat["rows"], heat["columns"]) == (
        [f"{'a' * 6}…{'z' * 7}"] * 130,
        [f"{'a' * 5}…{'z' * 6}"],
    )
    axis = f"{'a' * 21}…{'z' * 22}"
    assert {plot["x"] for plot in (bars, dots, heat)} | {heat["y"]} == {axis}


def test_an_interval_has_no_bar() -> None:
    plot = plot_of(IntervalChart("Effect", "%", FEW))
    assert (plot["kind"], plot["bars"]) == ("rows", False)


@pytest.mark.parametrize(
    ("values", "from_zero", "ends"),
    [
        ([2.0, 4.0], False, (1.9, 4.1)),
        ([2.0, 4.0], True, (0.0, 4.24)),
        ([5.0, 5.0], False, (4.5, 5.5)),
        ([0.0, 0.0], False, (-1.0, 1.0)),
        ([0.0, 0.0], True, (0.0, 1.0)),
    ],
)
def test_the_axis_has_space_around_the_values(
    values: list[float], from_zero: bool, ends: tuple[float, float]
) -> None:
    line = ChartLine("a", list(enumerate(values)))
    plot = plot_of(LineChart("t", "x", "y", [line], from_zero=from_zero))
    assert (plot["low"], plot["high"]) == pytest.approx(ends)
