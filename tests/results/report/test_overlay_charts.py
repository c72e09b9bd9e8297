"""Several runs in common charts: what is drawn of each metric, and what has a colour."""

from __future__ import annotations

import pytest

from rsctl.bench.samples import Sample
from rsctl.results.report.charts import ChartLine, LineChart, Point
from rsctl.results.report.overlay_charts import overlay_charts
from rsctl.runs.stream.metrics import MetricSpec
from tests.results.report.made_charts import curves


def line_chart(title: str, x: str, y: str, *lines: tuple[str, list[Point]]) -> LineChart:
    return LineChart(title, x, y, [ChartLine(*line) for line in lines], others=[])


SPEED = MetricSpec("speed=(.*)", goal="max", unit="samples/s")
SINCE = "time since the start of each run"


def test_several_runs_over_steps_and_over_time() -> None:
    """Declared metrics are first, then the most common; the unit is the declared one."""
    found = overlay_charts([
        curves("a", {"rare": [1.0], "loss": [3.0, 2.0]}),
        curves("b", {"common": [4.0], "speed": [5.0], "loss": [1.0]}, declared={"speed": SPEED}),
        curves("c", {"common": [6.0], "loss": []}, is_stepped=False,
               started="2026-01-31T11:56:00.000000Z"),
    ])  # fmt: skip
    assert list(found) == [
        line_chart("speed over steps", "step", "speed (samples/s)", ("b", [(0.0, 5.0)])),
        line_chart("speed over time", f"{SINCE} (s)", "speed (samples/s)", ("b", [(0.0, 5.0)])),
        line_chart(
            "loss over steps", "step", "loss", ("a", [(0.0, 3.0), (10.0, 2.0)]), ("b", [(0.0, 1.0)])
        ),
        line_chart(
            "loss over time",
            f"{SINCE} (s)",
            "loss",
            ("a", [(0.0, 3.0), (1.0, 2.0)]),
            ("b", [(0.0, 1.0)]),
        ),
        line_chart("common over steps", "step", "common", ("b", [(0.0, 4.0)])),
        line_chart(
            "common over time",
            f"{SINCE} (min)",
            "common",
            ("b", [(0.0, 4.0)]),
            ("c", [(4.0, 6.0)]),
        ),
        line_chart("rare over steps", "step", "rare", ("a", [(0.0, 1.0)])),
        line_chart("rare over time", f"{SINCE} (s)", "rare", ("a", [(0.0, 1.0)])),
    ]


def test_a_run_whose_clock_is_broken_has_no_line_over_time() -> None:
    over_steps, over_time = overlay_charts([curves("a", {"loss": [1.0]}, created="soon")])
    assert over_steps == line_chart("loss over steps", "step", "loss", ("a", [(0.0, 1.0)]))
    assert over_time == line_chart("loss over time", f"{SINCE} (s)", "loss")


def test_a_metric_without_steps_is_drawn_over_time_alone() -> None:
    [chart] = overlay_charts([curves("a", {"loss": [1.0]}, is_stepped=False)])
    assert chart == line_chart("loss over time", f"{SINCE} (s)", "loss", ("a", [(0.0, 1.0)]))


@pytest.mark.parametrize(
    ("runs", "values", "drawn"),
    # 2400 points in all, but between 40 and 200 for each run; 2 more than a whole number of
    # stretches with a lowest and a highest value each
    [(1, 200, 200), (1, 201, 200), (12, 201, 200), (13, 184, 184), (13, 185, 184), (49, 48, 48),
     (49, 49, 48), (60, 41, 40), (61, 40, 40), (100, 40, 40), (100, 41, 40)],
)  # fmt: skip
def test_the_points_of_a_chart_are_shared_by_its_runs(runs: int, values: int, drawn: int) -> None:
    logged = [float(n * 37 % 101) for n in range(values)]
    for chart in overlay_charts([curves(str(n), {"loss": logged}) for n in range(runs)]):
        assert isinstance(chart, LineChart)
        lines = [*chart.lines, *chart.others]
        assert {len(line.points) for line in lines} == {drawn}
        assert len(lines) == runs


@pytest.mark.parametrize(("runs", "metrics"), [(1, 8), (20, 8), (21, 4)])
def test_of_many_runs_fewer_metrics_are_drawn(runs: int, metrics: int) -> None:
    logged = {f"m{n}": [1.0] for n in range(9)}
    found = [chart.title for chart in overlay_charts([curves("a", logged)] * runs)]
    assert found == [f"m{n} over {axis}" for n in range(metrics) for axis in ("steps", "time")]


@pytest.mark.parametrize(
    ("count", "goal", "colored", "note"),
    [
        (8, "min", "01234567", ""),
        (9, None, "0123456", "The first 7 of 9 are in color; all others are grey."),
        (9, "min", "8043127", "The best 7 of 9 are in color; all others are grey."),
        (9, "max", "6572134", "The best 7 of 9 are in color; all others are grey."),
    ],
)
def test_of_more_than_eight_labels_the_best_have_a_colour(
    count: int, goal: str | None, colored: str, note: str
) -> None:
    """By the median of a label's samples; a run without a sample is never among them."""
    medians = [2.0, 5.0, 6.0, 4.0, 3.0, 8.0, 9.0, 7.0, 1.0]
    runs = [
        curves(
            str(number),
            {"loss": [1.0]},
            {"loss": Sample(value=value, goal=goal)},
        )
        for number, median in enumerate(medians[:count])
        for value in (median - 1, median, median + 20)
    ]
    runs += [curves("0", {"loss": [1.0]}, {"loss": Sample(goal=goal)}), curves("0", {"x": [1.0]})]
    chart = next(overlay_charts(runs))
    assert isinstance(chart, LineChart)
    assert "".join(chart.labels) == colored
    assert chart.note == note
    assert {line.label for line in chart.others} == {str(n) for n in range(count)} - {*colored}
