"""The table behind each chart, and the sentence for readers who do not see it."""

from __future__ import annotations

from math import nan

import pytest

from rsctl.results.report.chart_tables import data_table
from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    ChartLine,
    DotChart,
    HeatMap,
    HistoryChart,
    IntervalChart,
    LineChart,
    Timeline,
    TimelineRow,
)
from rsctl.results.report.descriptions import describe
from rsctl.results.report.page import Page
from tests.results.report.made_charts import BARS, ROWS, evenly, history, many_lines, one_line


@pytest.mark.parametrize(
    ("chart", "table"),
    [
        (one_line([0, 1], [2, 3]), (("x", "y"), [("0", "2"), ("1", "3")], 2)),
        (
            LineChart("t", "x", "y", [ChartLine("a", [(0, 2)]), ChartLine("b", [(0, 4)])]),
            (("x", "a", "b"), [("0", "2", "4")], 1),
        ),
        (
            LineChart("t", "x", "y", [ChartLine("a", [(0, 2)]), ChartLine("b", [(1, 4)])]),
            (("", "x", "y"), [("a", "0", "2"), ("b", "1", "4")], 2),
        ),
        (
            BarChart("t", "x", [Bar("a", 2.0), Bar("b", None)]),
            (("", "x"), [("a", "2"), ("b", "no data")], 2),
        ),
        (
            IntervalChart("t", "x", [Bar("a", 2.0, 1.0, 3.0), Bar("b", 4.0)]),
            (
                ("", "x", "low", "high"),
                [("a", "2", "1", "3"), ("b", "4", "no data", "no data")],
                2,
            ),
        ),
        (DotChart("t", "x", [("a", [1.0, 2.5])]), (("", "x"), [("a", "1 2.5")], 1)),
        (
            Timeline("t", ROWS),
            (
                ("", "state", "from (s)", "to (s)"),
                [("r0", "running", "0.0", "0.2"), ("r1", "running", "1.0", "1.2"),
                 ("r0", "failed", "0.5", ""), ("r1", "failed", "1.5", "")],
                4,
            ),
        ),
        (
            HeatMap("t", "s", "lr", ["1"], "batch", ["a", "b"], [[1.0, None]]),
            (("lr \\ batch", "a", "b"), [("1", "1", "no data")], 1),
        ),
        (
            HistoryChart("t", "commits", "s", ["c"], [[float(n) for n in range(21)]]),
            (("commit", "median of s", "runs"),
             [("c", "10", " ".join(map(str, range(20))))], 1),
        ),
    ],
)  # fmt: skip
def test_the_table_behind_a_chart(chart: Chart, table: tuple[object, ...]) -> None:
    assert data_table(chart) == table


@pytest.mark.parametrize(
    ("chart", "shown", "total"),
    [
        (one_line(evenly(1, 40), evenly(1, 40)), 40, 40),
        (one_line(evenly(1, 41), evenly(1, 41)), 40, 41),
        (history(evenly(1, 41)), 40, 41),
        (Timeline("t", ROWS * 40), 160, 160),
        (Timeline("t", ROWS * 41), 160, 164),
        (many_lines("a", [(n, 1.0) for n in range(100)]), 40, 40),
        (
            LineChart("t", "x", "y", [
                ChartLine(str(n), [(x + n, 1.0) for x in range(30)]) for n in range(8)
            ]),
            48, 240,
        ),
        (
            LineChart("t", "x", "y", [
                ChartLine(str(n), [(x + n, 1.0) for x in range(30)]) for n in range(2)
            ]),
            40, 60,
        ),
    ],
)  # fmt: skip
def test_a_long_table_is_evenly_spread_and_says_how_many_rows_there_are(
    chart: Chart, shown: int, total: int
) -> None:
    _, rows, every = data_table(chart)
    assert (len(rows), every) == (shown, total)
    title = f"Data as a table, {shown} of {total:,} rows<"
    assert (title in (Page().figures([chart]) or "")) is (shown < total)


def test_rows_of_a_table_have_even_distances() -> None:
    _, rows, _ = data_table(one_line(evenly(1, 79), evenly(2, 79)))
    assert rows == [(str(x), str(2 * x)) for x in range(0, 79, 2)]


@pytest.mark.parametrize(
    ("chart", "text"),
    [
        (
            LineChart("t", "x", "y", [ChartLine(f"l{n}", [(0, n), (1, -n), (2, nan)])
                                      for n in range(4)]),
            "Line chart: t. y over x. l0: from 0 to 0, lowest 0, highest 0; "
            "l1: from 1 to -1, lowest -1, highest 1; l2: from 2 to -2, lowest -2, highest 2; "
            "l3: from 3 to -3, lowest -3, highest 3.",
        ),
        (
            LineChart("t", "x", "y", [ChartLine("a", [(0, 1.0)])] + [ChartLine("b", [])] * 4,
                      others=[ChartLine("c", [])]),
            "Line chart: t. y over x. a: from 1 to 1, lowest 1, highest 1; 5 more lines.",
        ),
        (BarChart("t", "s", BARS[:6]),
         "Bar chart: t. b0 0, b1 1, b2 2, b3 3, b4 4, b5 5. In s."),
        (BarChart("t", "s", BARS),
         "Bar chart: t. b0 0, b1 1, b2 2, b3 3, b4 4, b5 5 and 1 more. In s."),
        (IntervalChart("t", "%", [Bar("a", None), Bar("b", -2.5, -3, -2)]),
         "Interval chart: t. b -2.5. In %."),
        (IntervalChart("t", "%", [Bar("a", None)]), "Interval chart: t. No data."),
        (DotChart("t", "x", [("a", [3.0, 1.0, 2.0]), ("b", [])]), "Dot chart: t. a 1 to 3."),
        (Timeline("t", ROWS), "Timeline: t. 2 rows: running, failed."),
        (Timeline("t", [TimelineRow("a", [])]), "Timeline: t. 1 row: nothing."),
        (HeatMap("t", "", "r", ["a"], "c", ["b", "d"], [[2.0, None]]),
         "Heat map: t. r by c: 2 to 2."),
        (HeatMap("t", "", "r", ["a"], "c", ["b"], [[None]]), "Heat map: t. r by c: no data."),
        (history([1.0]), "Chart of a history: t. s of 1 commit; no step."),
        (history([1.0] * 3, [(1, 1), (2, 2)]),
         "Chart of a history: t. s of 3 commits; steps: 1 % at c1, 2 % at c2."),
    ],
)  # fmt: skip
def test_a_chart_in_a_sentence(chart: Chart, text: str) -> None:
    assert describe(chart) == text
