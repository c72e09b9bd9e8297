"""Charts of several runs and of benches as data, and the limits of what is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import unescape
from math import nan
from typing import Any

import pytest

from rsctl.bench.records import BenchRecord, Cell, Trial
from rsctl.bench.samples import Sample
from rsctl.findings import JobState
from rsctl.results.report.bench_charts import (
    BenchData,
    dots_chart,
    effect_charts,
    matrix_charts,
    phase_row,
    scaling_charts,
)
from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    ChartLine,
    DotChart,
    HeatMap,
    HistoryChart,
    HistoryStep,
    IntervalChart,
    LineChart,
    Point,
    Span,
    Timeline,
    TimelineRow,
)
from rsctl.results.report.drawing import file_bytes
from rsctl.results.report.overlay_charts import RunCurves, overlay_charts
from rsctl.results.report.page import Page
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.stream.metrics import MetricSpec
from tests.cli.conftest import at

SPEED = MetricSpec("speed=(.*)", goal="max", unit="samples/s")


def curves(
    label: str,
    metrics: Mapping[str, Sequence[float]],
    samples: Mapping[str, Sample] | None = None,
    declared: Mapping[str, MetricSpec] | None = None,
    is_stepped: bool = True,
    **fields: Any,
) -> RunCurves:
    """A run that was submitted at second 0 and has logged a value of each metric every second."""
    run = RunRecord(
        run=label, name="job", target="process", url="process://x", state=JobState.SUCCEEDED,
        metrics_spec=dict(declared or {}), **{"created": at(0), "plan": {}, **fields},
    )  # fmt: skip
    headlines = {
        name: [
            MetricEvent(
                time=f"2026-01-31T12:{second // 60:02}:{second % 60:02}.000000Z",
                replica="worker-0",
                name=name,
                value=value,
                step=10 * second if is_stepped else None,
            )
            for second, value in enumerate(values)
        ]
        for name, values in metrics.items()
    }  # fmt: skip
    return RunCurves(label, run, samples or {}, headlines)


def line_chart(title: str, x: str, y: str, *lines: tuple[str, list[Point]]) -> LineChart:
    return LineChart(title, x, y, [ChartLine(*line) for line in lines], others=[])


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


def bench(
    cells: Sequence[Cell],
    values: Sequence[Sequence[float | None]],
    goal: str | None = "max",
    unit: str | None = "samples/s",
    plans: Sequence[Mapping[str, object]] = (),
) -> BenchData:
    """A bench whose runs of each cell have these samples of `speed`."""
    trials, found = [], {}
    for cell, of_cell in enumerate(values):
        for repetition, value in enumerate(of_cell):
            name = f"run-{cell}-{repetition}"
            sample = Sample(value=value, unit=unit, goal=goal)
            plan = dict(plans[cell]) if plans else {}
            found[name] = curves(name, {}, {"speed": sample}, plan=plan)
            trial = Trial(cell=cell, repetition=repetition, run=name, state=JobState.SUCCEEDED)
            trials.append(trial)
    record = BenchRecord(
        bench="job-bench-a", name="job", target="process", definition="x", created=at(0),
        state=JobState.SUCCEEDED, repeat=3, cells=list(cells), trials=trials, spec={},
    )  # fmt: skip
    return BenchData(record, found)


MATRIX: list[Cell] = [
    {"a": a, "b": b, "c": c, "d": "x"} for a in (1, 2) for b in (1, 2, 3) for c in ("u", "v")
]


def test_a_heat_map_for_each_combination_of_the_other_keys() -> None:
    """The keys with most values are the rows and the columns; a key with one value is none."""
    values = [[float(n), 10.0 * n, 20.0 * n] for n in range(len(MATRIX))]
    values[-1] = []
    first, second = matrix_charts(bench(MATRIX, values), "speed")
    about: dict[str, Any] = {
        "unit": "samples/s",
        "row_key": "b",
        "rows": ["1", "2", "3"],
        "column_key": "a",
        "columns": ["1", "2"],
        "note": "Median of the runs of a cell; brighter is more; more is better.",
    }
    assert first == HeatMap(
        title="speed (samples/s), c=u", values=[[0.0, 60.0], [20.0, 80.0], [40.0, 100.0]], **about
    )
    assert second == HeatMap(
        title="speed (samples/s), c=v", values=[[10.0, 70.0], [30.0, 90.0], [50.0, None]], **about
    )


@pytest.mark.parametrize(
    ("goal", "note"),
    [("min", "; less is better"), (None, "")],
)
def test_a_heat_map_of_two_keys_lacks_the_cells_that_do_not_exist(
    goal: str | None, note: str
) -> None:
    cells: list[Cell] = [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    assert list(matrix_charts(bench(cells, [[1.0], [2.0]], goal, None), "speed")) == [
        HeatMap("speed", "", "a", ["1", "2"], "b", ["1", "2"], [[1.0, None], [None, 2.0]],
                f"Median of the runs of a cell; brighter is more{note}.")
    ]  # fmt: skip


def test_of_many_combinations_six_have_a_heat_map() -> None:
    cells: list[Cell] = [
        {"a": a, "b": b, "c": c} for a in range(7) for b in range(8) for c in range(7)
    ]
    found = list(matrix_charts(bench(cells, [[1.0]] * len(cells)), "speed"))
    assert [chart.title for chart in found] == [f"speed (samples/s), c={c}" for c in range(6)]
    one: list[Cell] = [{"a": a, "b": 1} for a in (1, 2)]
    assert list(matrix_charts(bench(one, [[1.0]] * 2), "speed")) == []


def test_the_cells_of_a_bench_beside_each_other() -> None:
    cells: list[Cell] = [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}]
    data = bench(cells, [[100.0] * 4, [150.0, None, 150.0, 150.0, 150.0], [None], [50.0]])
    rows = [("a=1", [100.0] * 4), ("a=2", [150.0] * 4), ("a=3", []), ("a=4", [50.0])]
    note = "Each dot is a run, each stroke a median."
    assert dots_chart(data, "speed") == DotChart("speed", "speed (samples/s)", rows, note)
    [effects] = effect_charts(data, ["speed"])
    assert effects == IntervalChart(
        "speed against a=1",
        "% of the first cell's median, 90 % interval",
        [
            Bar("a=2", 50.0, 50.0, 50.0),
            Bar("a=3", None),
            Bar("a=4", -50.0),
        ],
    )
    single = bench(cells[:2], [[100.0], [150.0, 120.0]], unit=None)
    assert list(effect_charts(single, ["speed"])) == []
    assert dots_chart(single, "speed").x == "speed"


def test_throughput_and_efficiency_by_ranks() -> None:
    """A line for the cells that differ in their workers only, if they have two numbers of ranks."""
    sizes = [(4, "a"), (1, "a"), (2, "b"), (4, "b"), (8, "c")]
    cells: list[Cell] = [{"workers.count": workers, "kind": kind} for workers, kind in sizes]
    values = [[300.0, 200.0, 280.0], [100.0], [0.0], [20.0], [9.0]]
    plans = [{"world_size": workers} for workers, _ in sizes]
    throughput, efficiency = scaling_charts(bench(cells, values, plans=plans), "speed")
    assert throughput == LineChart(
        "speed by ranks", "ranks", "speed (samples/s)",
        [ChartLine("kind=a", [(1.0, 100.0), (4.0, 280.0)]),
         ChartLine("kind=b", [(2.0, 0.0), (4.0, 20.0)])],
        from_zero=True,
    )  # fmt: skip
    assert efficiency == LineChart(
        "Scaling efficiency of speed", "ranks", "% of the efficiency with the fewest ranks",
        [ChartLine("kind=a", [(1.0, 100.0), (4.0, 70.0)])],
        from_zero=True,
        reference=ChartLine("ideal", [(1.0, 100.0), (2.0, 100.0), (4.0, 100.0)]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("goal", "unit", "sizes", "labels"),
    [
        ("max", "samples/s", [1, 2], ["speed"]),
        ("min", "samples/s", [1, 2], None),
        ("max", "samples", [1, 2], None),
        ("max", "samples/s", [2, 2], None),
        ("max", "samples/s", [None, 2], None),
    ],
)
def test_only_throughput_of_several_numbers_of_ranks_scales(
    goal: str, unit: str, sizes: list[int | None], labels: list[str] | None
) -> None:
    cells: list[Cell] = [{"workers.count": 1}, {"workers.count": 2}]
    data = bench(cells, [[1.0], [2.0]], goal, unit, [{"world_size": size} for size in sizes])
    found = list(scaling_charts(data, "speed"))
    assert [chart.labels for chart in found if isinstance(chart, LineChart)] == (
        [labels, labels] if labels else []
    )


def test_a_bench_shows_six_metrics_of_its_job_and_what_every_run_has() -> None:
    names = [f"m{n}" for n in range(7)]
    found = {name: Sample(value=1.0) for name in [*names, "run.cost", "run.queue", "run.time"]}
    data = bench([{}], [[1.0]])
    data = BenchData(data.bench, {"run-0-0": curves("x", {}, {**found, "run.step": Sample()})})
    assert data.names() == [*names[:6], "run.time", "run.cost"]
    assert data.about("m0") == ("", None)
    assert data.about("nothing") == ("", None)


@pytest.mark.parametrize(
    ("found", "spans"),
    [
        ({}, []),
        ({"time": 5}, [Span(0.0, 5.0, "training")]),
        (
            {"queue": 2, "start": 3, "first_step": 4, "time": 10},
            [Span(0.0, 2.0, "queue"), Span(2.0, 5.0, "start"),
             Span(5.0, 9.0, "to the first metric"), Span(9.0, 15.0, "training")],
        ),
        ({"queue": 0, "start": 3, "first_step": 4, "time": 4},
         [Span(0.0, 3.0, "start"), Span(3.0, 7.0, "to the first metric")]),
        ({"queue": 2, "start": None}, [Span(0.0, 2.0, "queue")]),
    ],
)  # fmt: skip
def test_the_phases_of_a_run_follow_each_other(
    found: dict[str, float | None], spans: list[Span]
) -> None:
    samples = {f"run.{name}": Sample(value=value) for name, value in found.items()}
    assert phase_row("a", samples) == TimelineRow("a", spans)
    ended = curves("a", {}, started=at(5), ended=at(9)).run
    assert phase_row("a", samples, ended) == TimelineRow("a", spans)
    waiting = curves("a", {}).run
    assert phase_row("a", samples, waiting) == TimelineRow("a", spans)


def row_charts(names: Sequence[str]) -> list[Chart]:
    bars = [Bar(name, 1.0, 0.5, 1.5) for name in names]
    timeline = [TimelineRow(name, [Span(0, 9, "running")]) for name in names]
    return [
        BarChart("t", "x", bars),
        DotChart("t", "x", [(name, [1.0, 2.0]) for name in names]),
        IntervalChart("t", "x", bars),
        Timeline("t", timeline),
    ]


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


def one_line(xs: Sequence[float], ys: Sequence[float], x: str = "x", y: str = "y") -> LineChart:
    return LineChart("t", x, y, [ChartLine("a", list(zip(xs, ys, strict=True)))])


def texts(chart: Chart, place: str = "") -> list[str]:
    """The texts of a drawing; of the places `middle`, below it, or `end`, at its left."""
    svg = file_bytes(chart, "svg").decode()
    end = f' text-anchor="{place}"' if place else ""
    return [unescape(text) for text in re.findall(rf"<text [^>]*{end}[^>]*>([^<]*)</text>", svg)]


def evenly(step: float, count: int) -> list[float]:
    return [step * n for n in range(count)]


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
        ([1e6, 1.25e6], "1e+06 1.25e+06"),
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
        ([1e-3, 1.1e6], False, "0 250,000 500,000 750,000 1e+06"),
        ([0, 1e6], False, "0 250,000 500,000 750,000 1e+06"),
        ([1, 1000], True, "0 250 500 750 1,000"),
        ([0, 0], True, "0 0.2 0.4 0.6 0.8 1"),
        ([5, 5], True, "0 2 4"),
        ([-5, -1], True, "-4 -2 0"),
        ([5, 5], False, "4.6 4.8 5 5.2 5.4"),
        ([0, 0], False, "-1 -0.5 0 0.5 1"),
        ([1e-7, 3e-7], False, "1e-07 1.5e-07 2e-07 2.5e-07 3e-07"),
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


def history(medians: Sequence[float], steps: Sequence[tuple[int, int]] = ()) -> HistoryChart:
    runs, commits = [[value] for value in medians], [f"c{n}" for n in range(len(medians))]
    found = [HistoryStep(first, last, f"{first} %") for first, last in steps]
    return HistoryChart("t", "commits", "s", commits, runs, steps=found)


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


def heat_map(
    row_key: str = "r", rows: Sequence[str] = ("a",), key: str = "c", columns: Sequence[str] = "b"
) -> HeatMap:
    return HeatMap("t", "", row_key, rows, key, columns, [[1.0] * len(columns)] * len(rows))


def two_lines(name: str) -> LineChart:
    return LineChart("t", "x", "y", [ChartLine(name, [(0, 1), (1, 2)]), ChartLine("", [(0, 1)])])


def many_lines(name: str, points: Sequence[Point]) -> LineChart:
    others = [ChartLine(str(n), points) for n in range(8)]
    return LineChart("t", "x", "y", [ChartLine(name, [(x, y + 1) for x, y in points]), *others])


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
