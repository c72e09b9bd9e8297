"""Results side by side: effects, what differs, and why something is missing."""

from __future__ import annotations

import pytest

from rsctl.bench.compare import Comparison, compare, comparison_table
from rsctl.bench.differences import Difference
from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.formats.markdown import comparison_markdown
from rsctl.bench.results import CellRuns, Results, Series

ONE, TWO = {"workers.count": 1}, {"workers.count": 2}


def side(label: str, *series: Series, fixed: str = "4 x n1", shown: str = "2.8") -> Results:
    cells = list({str(s.cell): s.cell for s in series}.values())
    return Results(
        label=label,
        kind="bench",
        made=f"made {label}",
        fingerprint=Fingerprint(
            [CellPrint(cell, {"workers": fixed}) for cell in cells],
            {s.name: {"aggregate": "median"} for s in series},
            {"torch": shown},
        ),
        series=list(series),
        cells=[CellRuns(cell=cell) for cell in cells],
    )


def speed(
    values: list[float | None], cell: dict[str, object] | None = None, *reasons: str
) -> Series:
    cell = {} if cell is None else cell
    return Series(
        name="speed", unit="/s", goal="max", cell=cell, values=values, reasons=list(reasons)
    )


def remarks(comparison: Comparison) -> list[str | None]:
    return [metric.remark for metric in comparison.metrics]


def test_the_last_side_is_compared_with_the_first() -> None:
    found = compare([side("a", speed([100.0, 102.0])), side("b"), side("c", speed([90.0, 90.0]))])
    assert [(about.label, about.kind, about.made) for about in found.sides] == [
        *(("a", "bench", "made a"), ("b", "bench", "made b"), ("c", "bench", "made c")),
    ]
    [metric] = found.metrics
    assert (metric.name, metric.unit, metric.goal, metric.cell, metric.where) == (
        *("speed", "/s", "max", {}, ""),
    )
    assert [(s.n, s.value, s.values) for s in metric.sides] == [
        (2, 101.0, [100.0, 102.0]),
        (0, None, []),
        (2, 90.0, [90.0, 90.0]),
    ]
    assert metric.effect == pytest.approx(-11 / 101)
    assert metric.p == pytest.approx(1 / 3)
    assert metric.interval is None  # two runs a side bound nothing
    assert metric.remark is None
    assert found.remarks == []


def test_each_side_without_data_has_its_own_reason() -> None:
    diverged = speed([None], None, "10 of 10 values are not finite")
    silent = speed([None], None, "the log has no value")
    [metric] = compare([side("a", diverged), side("b", silent)]).metrics
    assert metric.remark == (
        "no data in a: 10 of 10 values are not finite; no data in b: the log has no value"
    )
    [metric] = compare([side("a", diverged), side("b")]).metrics
    assert metric.remark == (
        "no data in a: 10 of 10 values are not finite; no data in b: not measured"
    )


def test_a_baseline_is_the_first_side_wherever_it_is_given() -> None:
    baseline = side("stored", speed([100.0, 102.0, 101.0]))
    baseline.kind = "baseline"
    bench = side("now", speed([80.0, 81.0, 79.0]))
    for sides in ([baseline, bench], [bench, baseline]):
        found = compare(sides)
        assert [about.label for about in found.sides] == ["stored", "now"]
        assert found.metrics[0].effect == pytest.approx(-21 / 101)


def test_values_are_medians_as_the_effect_is() -> None:
    found = compare([side("a", speed([100.0, 101.0, 30.0])), side("b", speed([80.0, 81.0, 79.0]))])
    assert [each.value for each in found.metrics[0].sides] == [100.0, 80.0]
    assert "| a, median | b, median |" in comparison_markdown(found)


def test_the_interval_holds_the_effect() -> None:
    before, after = [100.0, 101.0, 99.0, 102.0], [90.0, 91.0, 89.5, 90.5]
    [metric] = compare([side("a", speed([*before])), side("b", speed([*after]))]).metrics
    assert metric.effect is not None
    assert metric.interval is not None
    assert -0.13 < metric.interval[0] < metric.effect < metric.interval[1] < -0.07
    text = comparison_markdown(compare([side("a", speed([*before])), side("b", speed([*after]))]))
    low, high = (f"{100 * end:+.3g}" for end in metric.interval)
    assert f" | {low} … {high} % | {metric.p:.2g} |" in text


def test_one_side_alone_is_shown_without_an_effect() -> None:
    found = compare([side("a", speed([100.0]))])
    [metric] = found.metrics
    assert (metric.effect, metric.p, metric.remark, found.differences) == (None, None, None, [])


def test_with_one_run_a_side_there_is_an_effect_and_no_test() -> None:
    found = compare([side("a", speed([100.0, 101.0])), side("b", speed([90.0]))])
    [metric] = found.metrics
    assert metric.effect == pytest.approx(-0.104, abs=1e-3)
    assert (metric.interval, metric.p) == (None, None)
    assert remarks(found) == ["one run per side allows no conclusion"]
    cells = [
        side("a", speed([1.0], ONE), speed([2.0], TWO)),
        side("b", speed([1.0], ONE), speed([2.0], TWO)),
    ]
    assert compare(cells).remarks == ["one run per side allows no conclusion"]  # once


def test_a_zero_median_has_no_percentage() -> None:
    found = compare([side("a", speed([0.0, 0.0])), side("b", speed([1.0, 1.0]))])
    assert found.metrics[0].effect is None
    assert found.metrics[0].p is not None
    assert found.remarks == ["speed: the first side's median is zero, so there is no percentage"]


def test_sides_without_data_are_named_with_the_reason() -> None:
    lost = speed([None, None], {}, "job-1 failed: it crashed")
    found = compare([side("a", speed([1.0, 2.0])), side("b", lost)])
    assert found.remarks == ["speed: no data in b: job-1 failed: it crashed"]
    found = compare([side("a", lost), side("b", speed([1.0])), side("c")])
    assert found.remarks == [
        "speed: no data in a: job-1 failed: it crashed; no data in c: not measured"
    ]
    found = compare([side("a", speed([1.0])), side("b")])
    assert found.remarks == ["speed: no data in b: not measured"]
    nan = speed([float("nan")])
    assert compare([side("a", nan), side("b", nan)]).remarks == [
        "speed: no data in a, b: not measured"
    ]
    assert compare([side("a", speed([])), side("b", speed([]))]).metrics == []


def test_a_cell_that_a_side_does_not_have_is_named_once() -> None:
    def run_time(cell: dict[str, object]) -> Series:
        return Series(name="run.time", cell=cell, values=[1.0, 2.0])

    one, two = side("a", speed([1.0, 2.0], ONE), run_time(ONE)), side("b", speed([1.0, 2.0], TWO))
    assert compare([one, two]).remarks == [
        "workers.count=1: no data in b: it does not have this cell",
        "workers.count=2: no data in a: it does not have this cell",
    ]
    both = side("a", speed([1.0]), run_time({})), side("b", speed([1.0], ONE), run_time(ONE))
    assert compare(both).remarks == [
        "without a matrix: no data in b: it does not have this cell",
        "workers.count=1: no data in a: it does not have this cell",
    ]


def test_cells_and_all_of_them_together() -> None:
    before = side("a", speed([100.0, 102.0, 98.0], ONE), speed([50.0, 51.0, 49.0], TWO))
    after = side("b", speed([90.0, 92.0, 88.0], ONE), speed([45.0, None, 44.0], TWO))
    found = compare([before, after])
    assert [metric.where for metric in found.metrics] == [
        "workers.count=1",
        "workers.count=2",
        "all",
    ]
    assert [[s.n for s in metric.sides] for metric in found.metrics] == [[3, 3], [3, 2], [3, 2]]
    across = found.metrics[2]
    assert (across.cell, across.unit, across.goal) == (None, "/s", "max")
    assert across.effect == pytest.approx(-0.1, abs=0.02)
    assert [(s.value, s.values) for s in across.sides] == [(None, []), (None, [])]
    middle = side("m", speed([95.0, 96.0], ONE), speed([47.0, None], TWO))
    beside = compare([before, middle, after]).metrics
    assert [[s.n for s in metric.sides] for metric in beside] == [[3, 2, 3], [3, 1, 2], [3, 1, 2]]
    assert beside[2].effect == across.effect
    partly = side("b", speed([90.0, 92.0, 88.0], ONE), speed([None], TWO, "lost"))
    assert [metric.where for metric in compare([before, partly]).metrics] == [
        *("workers.count=1", "workers.count=2"),
    ]
    assert compare([before, partly]).remarks == ["speed (workers.count=2): no data in b: lost"]
    apart = side("b", speed([None, 1.0], ONE), speed([1.0, None], TWO))
    assert len(compare([before, apart]).metrics) == 2  # no repetition has data in all cells


def test_what_was_measured_otherwise_is_not_compared() -> None:
    before, after = side("a", speed([1.0, 2.0])), side("b", speed([3.0, 4.0]))
    after.fingerprint.metrics["speed"] = {"aggregate": "mean"}
    found = compare([before, after])
    [metric] = found.metrics
    assert (metric.effect, metric.interval, metric.p) == (None, None, None)
    assert metric.remark == (
        "measured under different conditions: metrics.speed.aggregate: median -> mean"
    )


def test_each_side_has_its_own_unit_and_a_middle_side_is_named() -> None:
    """A side in other units stood beside the first as if it had the first one's unit."""
    first, middle, last = (side(label, speed([value, value])) for label, value in (
        ("a", 2.0), ("b", 2000.0), ("c", 3.0)))  # fmt: skip
    middle.series[0].unit = "m/s"
    for one in (first, middle, last):
        one.fingerprint.metrics["speed"] = {"unit": one.series[0].unit}
    found = compare([first, middle, last])
    assert comparison_table(found)[1][2:5] == ["2 /s (n=2)", "2000 m/s (n=2)", "3 /s (n=2)"]
    assert "| 2 /s (n=2) | 2000 m/s (n=2) | 3 /s (n=2) |" in comparison_markdown(found)
    [metric] = found.metrics
    assert metric.effect == 0.5
    assert metric.remark == (
        "b was measured under different conditions: metrics.speed.unit: /s -> m/s"
    )


def test_all_that_differs_is_listed_once() -> None:
    before = side("a", speed([1.0], ONE), speed([1.0], TWO))
    after = side("b", speed([1.0], ONE), speed([1.0], TWO), fixed="8 x n1", shown="2.9")
    after.fingerprint.metrics["speed"] = {"aggregate": "mean"}
    assert compare([before, after]).differences == [
        Difference("workers", "4 x n1", "8 x n1"),
        Difference("metrics.speed.aggregate", "median", "mean"),
        Difference("torch", "2.8", "2.9"),
    ]


def test_metrics_of_the_run_itself_are_shown_where_all_sides_have_them() -> None:
    def run(name: str, value: float | None = 1.0) -> Series:
        return Series(name=name, values=[value])

    before = side("a", run("loss"), run("run.time"), run("run.cost"), run("run.queue"))
    after = side("b", run("run.time"), run("run.queue", None), run("f1"))
    assert [m.name for m in compare([before, after]).metrics] == ["loss", "run.time", "f1"]
    asked = compare([before, after], ["run.cost", "f1", "none"])
    assert [m.name for m in asked.metrics] == ["run.cost", "f1"]


TABLE = """\
Differences:

- torch: 2.8 -\\> 2.9

| metric | cell | a\\|b, median | c, median | effect | 90 % interval | p |
|---|---|---|---|---|---|---|
| speed | workers.count=1 | 101 /s (n=2) | 90 /s (n=2) | -10.9 % |  | 0.33 |
| speed | workers.count=2 | 1 /s (n=1) | - |  |  |  |


- speed (workers.count=2): no data in c: \\*lost\\* again
"""


def test_a_comparison_in_markdown() -> None:
    before = side("a|b", speed([100.0, 102.0], ONE), speed([1.0], TWO))
    after = side("c", speed([90.0, 90.0], ONE), speed([None], TWO, "*lost*\nagain"), shown="2.9")
    assert comparison_markdown(compare([before, after])) == TABLE
    assert comparison_markdown(compare([before])) == (
        "| metric | cell | a\\|b, median |\n|---|---|---|\n"
        "| speed | workers.count=1 | 101 /s (n=2) |\n| speed | workers.count=2 | 1 /s (n=1) |\n\n"
    )
