"""The charts of a bench as data: heat maps, dots, effects, scaling, phases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from rsctl.bench.records import BenchRecord, Cell, Trial
from rsctl.bench.samples import Sample
from rsctl.findings import JobState
from rsctl.results.report.bench_charts import (
    BenchData,
    dots_chart,
    effect_charts,
    learning_curves,
    matrix_charts,
    phase_row,
    scaling_charts,
)
from rsctl.results.report.bench_section import add_bench
from rsctl.results.report.build import make_report
from rsctl.results.report.charts import (
    Bar,
    ChartLine,
    DotChart,
    HeatMap,
    IntervalChart,
    LineChart,
    Span,
    TimelineRow,
)
from rsctl.results.report.page import Page
from rsctl.runs.folder import RunFolder
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure, StateEvent
from tests.cli.conftest import at
from tests.results.report.made_charts import curves


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
    assert len(list(effect_charts(bench(cells[:2], [[1.0, 2.0], [1.0]]), ["speed"]))) == 1
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


def test_other_machines_have_a_line_of_their_own() -> None:
    """The efficiency of one kind of machine is not relative to another kind."""
    kinds = [(1, "slow"), (2, "slow"), (1, "fast"), (2, "fast")]
    cells: list[Cell] = [{"workers.count": n, "workers.machine": kind} for n, kind in kinds]
    plans = [{"world_size": n} for n, _ in kinds]
    values = [[10.0], [20.0], [100.0], [150.0]]
    _, efficiency = scaling_charts(bench(cells, values, plans=plans), "speed")
    assert isinstance(efficiency, LineChart)
    assert efficiency.lines == [
        ChartLine("workers.machine=slow", [(1.0, 100.0), (2.0, 100.0)]),
        ChartLine("workers.machine=fast", [(1.0, 100.0), (2.0, 75.0)]),
    ]


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
    rest = {name: Sample(value=1.0) for name in ("run.gradient_bytes", "run.step")}
    assert BenchData(data.bench, {"run-0-0": curves("x", {}, rest)}).names() == [*reversed(rest)]
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


def test_the_learning_curves_of_a_bench_have_a_label_for_each_cell() -> None:
    """Of runs that are still in the store."""
    cells: list[Cell] = [{"a": 1}, {"a": 2}]
    data = bench(cells, [[1.0, 1.0], [1.0, 1.0]])
    kept = {name: curves(name, {"speed": [1.0, 2.0]}) for name in ("run-0-0", "run-1-0", "run-1-1")}
    for chart in learning_curves(BenchData(data.bench, kept)):
        assert isinstance(chart, LineChart)
        assert [line.label for line in chart.lines] == ["a=1", "a=2", "a=2"]
        assert chart.labels == ["a=1", "a=2"]


@pytest.mark.parametrize("failed", [10, 11])
def test_of_many_failed_runs_ten_are_shown_with_their_last_lines(failed: int) -> None:
    data = bench([{"a": 1}], [[1.0] * (failed + 2)])
    lines = [f"line {n}" for n in range(9)]
    failure = Failure(replica="worker-0", time=at(8), exit_code=1, lines=lines, causes=[])
    trials = [
        structs.replace(trial, state=JobState.FAILED, reason=f"why {number}" if number else None)
        for number, trial in enumerate(data.bench.trials[:failed])
    ]
    trials += [
        structs.replace(data.bench.trials[failed], state=JobState.RUNNING),
        data.bench.trials[failed + 1],
    ]
    name = data.bench.trials[1].run
    kept = {name: curves(name, {}, first_failure=failure)}
    page = Page()
    add_bench(page, BenchData(structs.replace(data.bench, trials=trials), kept))
    [section] = page.sections
    assert f"<h3>Failed runs: {failed}</h3>" in section
    shown = re.findall(r'<div class="failure"><p><strong>([^<]*)</strong>([^<]*)</p>', section)
    assert shown == [
        (f"run-0-{n} (a=1 #{n + 1}): ", f"why {n}" if n else "failed") for n in range(10)
    ]
    assert re.findall(r"<pre[^>]*>([^<]*)</pre>", section)[0] == "\n".join(lines[1:])
    assert ('<p class="faint">1 more run not shown here</p>' in section) is (failed == 11)
    assert ("not shown here" in section) is (failed == 11)


def cards(data: BenchData) -> list[str]:
    page = Page()
    add_bench(page, data)
    found = re.search(r'<div class="cards">(.*?)</div></div>', page.sections[0])
    assert found
    parts = re.split('<div class="card">', found[1])
    return [" | ".join(re.findall(r">([^<>]+)<", part)) for part in parts[1:]]


def test_the_cost_of_a_bench_includes_the_runs_that_were_repeated() -> None:
    """Two runs of 20 seconds at 360 USD an hour, of which the first was preempted."""
    store = Store()
    states = {"run-a": JobState.FAILED, "run-b": JobState.SUCCEEDED}
    for name, state in states.items():
        plan = {"cost": {"per_hour": 360.0, "seconds": 60.0, "spot": True}}
        store.add(RunRecord(run=name, name="job", target="vertex", url=f"vertex://{name}",
                            state=JobState.QUEUED, created=at(0), plan=plan))  # fmt: skip
        RunFolder(name).path.mkdir(parents=True)
        store.record(name, StateEvent(time=at(10), state=JobState.RUNNING))
        store.record(name, StateEvent(time=at(30), state=state, exit_code=0))
    record = BenchRecord(
        bench="job-bench-a", name="job", target="vertex", definition="x", created=at(0), spec={},
        state=JobState.SUCCEEDED, cells=[{}], trials=[
            Trial(cell=0, repetition=0, attempt=number, run=name, state=state)
            for number, (name, state) in enumerate(states.items())
        ],
    )  # fmt: skip
    page = make_report(store, [record], {}).html
    assert re.findall(r">([0-9.,]+ USD)<", page)[0] == "4.00 USD"


@pytest.mark.parametrize(
    ("goal", "costs", "best", "cost"),
    [
        ("max", [1000.0, 0.5], "best speed | 3 |  samples/s | a=3",
         ["cost | 1,000.50 USD | from the catalogue's prices"]),
        ("min", [1.0, None], "best speed | 1 |  samples/s | a=1",
         ["cost | 1.00 USD | from the catalogue's prices; the cost of 1 run is unknown"]),
        (None, [None, None], None, ["cost | unknown | no price"]),
        ("max", [], "best speed | 3 |  samples/s | a=3", []),
    ],
)  # fmt: skip
def test_a_bench_opens_with_its_state_its_cost_and_its_best_cell(
    goal: str | None, costs: list[float | None], best: str | None, cost: list[str]
) -> None:
    """The first of its runs are in a cloud; a bench on own machines has no cost."""
    cells: list[Cell] = [{"a": n} for n in (1, 2, 3)]
    data = bench(cells, [[1.0, 1.0, 9.0], [2.0], [3.0]], goal)
    kept = {
        name: one._replace(
            run=structs.replace(one.run, target="vertex"),
            samples={**one.samples, "run.cost": Sample(value=value, reason="no price", goal="min")},
        )
        for (name, one), value in zip(data.curves.items(), costs, strict=False)
    }
    expected = [
        "state | succeeded",
        "runs | 5 of 9 | succeeded, in 3 cells",
        *cost,
        *([best] if best else []),
    ]
    assert cards(BenchData(data.bench, {**data.curves, **kept})) == expected
    left = structs.replace(data.bench, state=JobState.RUNNING)
    assert cards(BenchData(left, {}))[0] == "state | incomplete"
