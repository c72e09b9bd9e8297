"""The gate's verdicts: planted effects, and what is broken on either side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.gate import Gate, confirm, evaluate
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.verdict import ALPHA, Floor
from rsctl.findings import ExitCode, RsctlError

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5]
FIVE_PERCENT = {"throughput": Floor(0.05)}


def scaled(factor: float, values: Sequence[float] = STEADY) -> list[float]:
    """The values times a factor."""
    return [factor * value for value in values]


def results(
    values: Sequence[float | None] | dict[str, Sequence[float | None]],
    label: str = "bench",
    goal: str | None = "max",
    fixed: dict[str, Any] | None = None,
    shown: dict[str, Any] | None = None,
    definition: dict[str, Any] | None = None,
    reasons: Sequence[str] = (),
) -> Results:
    """Results of one metric, of one cell or of several by the number of their workers."""
    by_cell = values if isinstance(values, dict) else {"": values}
    cells = [{"workers.count": int(key)} if key else {} for key in by_cell]
    return Results(
        label=label,
        kind="bench",
        fingerprint=Fingerprint(
            [CellPrint(cell, fixed or {"target": "process"}) for cell in cells],
            {"throughput": definition or {"aggregate": "median"}},
            shown or {},
        ),
        series=[
            Series(
                name="throughput",
                goal=goal,
                cell=cell,
                values=list(given),
                reasons=list(reasons),
            )
            for cell, given in zip(cells, by_cell.values(), strict=True)
        ],
        cells=[CellRuns(cell=cell) for cell in cells],
    )


def verdicts(gate: Gate) -> list[str]:
    """The checks' verdicts."""
    return [check.verdict.value for check in gate.checks]


@pytest.mark.parametrize(
    ("factor", "goal", "verdict", "exit_code"),
    [
        (1.0, "max", "pass", 0),
        (0.98, "max", "pass", 0),
        (0.90, "max", "regressed", 7),
        (1.20, "max", "pass", 0),
        (1.10, "min", "regressed", 7),
        (0.80, "min", "pass", 0),
    ],
)
def test_effects(factor: float, goal: str, verdict: str, exit_code: int) -> None:
    gate = evaluate(results(STEADY, goal=goal), results(scaled(factor), goal=goal), FIVE_PERCENT)
    assert (gate.verdict.value, gate.exit_code) == (verdict, exit_code)


@pytest.mark.parametrize(
    ("before", "after", "goal", "floor"),
    [
        (100.0, 95.0, "max", Floor(0.05)),
        (0.1, 0.11, "min", Floor(0.1)),
        (0.1, 0.3, "min", Floor(0.2, is_relative=False)),
        (100.0, 99.8, "max", Floor(0.2, is_relative=False)),
    ],
)
def test_the_limit_itself_is_allowed(before: float, after: float, goal: str, floor: Floor) -> None:
    """Rounded values, of which the difference of two floats is a little larger than the limit."""
    sides = results([before] * 5, goal=goal), results([after] * 5, goal=goal)
    assert verdicts(evaluate(*sides, {"throughput": floor})) != ["regressed"]


def test_many_runs_find_a_regression_by_any_level() -> None:
    """With more than 26 runs, draws stand for all exchanges: as many as the level needs."""
    random = Random(1)
    sides = [
        results(
            {
                str(cell): [
                    random.gauss(70 if (side, cell) == (1, 1) else 100, 1) for _ in range(14)
                ]
                for cell in (1, 2)
            }
        )
        for side in range(2)
    ]
    gate = evaluate(*sides, FIVE_PERCENT, ALPHA / 1000)
    assert verdicts(gate)[:2] == ["regressed", "pass"], gate.checks


def test_what_a_check_tells() -> None:
    check = evaluate(results(STEADY), results(scaled(0.9)), FIVE_PERCENT).checks[0]
    assert check.effect == pytest.approx(-0.1)
    assert check.p == pytest.approx(1 / 252)
    assert check.interval is not None
    assert check.interval[0] < -0.1 < check.interval[1] < -0.08
    assert (check.baseline, check.value, check.runs) == (100.0, pytest.approx(90.0), (5, 5))
    assert check.detectable == pytest.approx(0.05, abs=0.01)
    assert check.reason is None


def test_an_effect_within_the_noise_is_inconclusive() -> None:
    noisy = [80.0, 120.0, 95.0, 105.0, 100.0]
    gate = evaluate(results(noisy), results(scaled(0.93, noisy)), FIVE_PERCENT)
    assert (gate.verdict.value, gate.exit_code) == ("inconclusive", 8)
    assert gate.checks[0].reason == (
        "exceeds the allowed regression, but 5+5 runs may differ this much by chance"
    )


def test_no_change_in_the_noise_is_not_passed() -> None:
    noisy = [80.0, 120.0, 95.0, 105.0, 100.0]
    check = evaluate(results(noisy), results(noisy), FIVE_PERCENT).checks[0]
    assert check.verdict.value == "inconclusive"
    assert check.reason == "5+5 runs do not exclude a regression of more than 5 %"


def test_a_remark_says_why_several_slow_runs_do_not_pass() -> None:
    slow = [100.2, 33.0, 101.1, 34.0, 99.3]
    gate = evaluate(results(STEADY), results(slow), FIVE_PERCENT)
    assert (gate.verdict.value, gate.exit_code) == ("inconclusive", 8)
    assert gate.checks[0].reason == (
        "2 of 5 runs of the candidate are far worse than the others, and more than the baseline has"
    )


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs_show_nothing(runs: int) -> None:
    check = evaluate(results(STEADY[:runs]), results(scaled(0.5)[:runs]), FIVE_PERCENT).checks[0]
    assert check.verdict.value == "inconclusive"
    assert check.reason is not None
    assert "increase the number of runs" in check.reason


def test_another_machine_is_refused_with_the_difference() -> None:
    gate = evaluate(
        results(STEADY, fixed={"target": "process", "machine": "EPYC, 2 cores"}),
        results(STEADY, fixed={"target": "process", "machine": "Xeon, 8 cores"}),
        FIVE_PERCENT,
    )
    assert (gate.verdict.value, gate.exit_code) == ("no-data", 8)
    assert [str(d) for d in gate.refused] == ["machine: EPYC, 2 cores -> Xeon, 8 cores"]
    assert gate.checks[0].reason == (
        "the baseline was measured under other conditions: machine: EPYC, 2 cores -> Xeon, 8 cores"
    )


def test_a_machine_that_one_side_does_not_tell_is_no_difference() -> None:
    gate = evaluate(
        results(STEADY),
        results(STEADY, fixed={"target": "process", "machine": "Xeon, 8 cores"}),
        FIVE_PERCENT,
    )
    assert (gate.verdict.value, gate.refused) == ("pass", [])


def test_another_definition_of_the_metric_is_refused() -> None:
    gate = evaluate(
        results(STEADY, definition={"aggregate": "median"}),
        results(STEADY, definition={"aggregate": "max"}),
        FIVE_PERCENT,
    )
    assert gate.verdict.value == "no-data"
    assert [str(d) for d in gate.refused] == ["metrics.throughput.aggregate: median -> max"]


def test_what_may_differ_is_shown() -> None:
    gate = evaluate(
        results(STEADY, shown={"torch": "2.8.0"}),
        results(STEADY, shown={"torch": "2.9.0"}),
        FIVE_PERCENT,
    )
    assert gate.verdict.value == "pass"
    assert [str(d) for d in gate.differences] == ["torch: 2.8.0 -> 2.9.0"]


@pytest.mark.parametrize(
    ("candidate", "verdict", "reason"),
    [
        ([None] * 5, "no-data", "no data: job-1 failed"),
        ([], "no-data", "no data: job-1 failed"),
        ([math.nan] * 5, "no-data", "no data: job-1 failed"),
        ([math.inf, *STEADY[1:]], "no-data", "1 of 5 runs have no data: job-1 failed"),
        ([None, *STEADY[1:]], "no-data", "1 of 5 runs have no data: job-1 failed"),
        ([None, *scaled(0.5)[1:]], "regressed", None),
    ],
)
def test_runs_without_data(candidate: list[float | None], verdict: str, reason: str | None) -> None:
    gate = evaluate(results(STEADY), results(candidate, reasons=["job-1 failed"]), FIVE_PERCENT)
    assert (gate.checks[0].verdict.value, gate.checks[0].reason) == (verdict, reason)


def diverged(count: int, of: int = 5) -> Results:
    """A steady throughput, and a loss that ends in NaN in so many runs."""
    side = results(STEADY[:of])
    losses = [None if index < count else 0.1 for index in range(of)]
    why = ["2 of 4 values are not finite"] if count else []
    loss = Series(name="loss", goal="min", values=losses, reasons=why, diverged=count)
    side.series.append(loss)
    return side


@pytest.mark.parametrize(
    ("count", "of", "verdict", "reason", "text"),
    [
        (5, 5, "regressed", "the last value of loss is not finite in any run", "5 of 5"),
        (1, 1, "regressed", "the last value of loss is not finite in any run", "1 of 1"),
        (1, 5, "no-data", "1 of 5 runs have no data: 2 of 4 values are not finite", "1 of 5"),
    ],
)
def test_a_metric_that_diverged(count: int, of: int, verdict: str, reason: str, text: str) -> None:
    gate = evaluate(diverged(0), diverged(count, of), {"loss": Floor(0.05)})
    [check] = gate.checks
    assert (check.verdict.value, check.reason) == (verdict, reason)
    assert gate.headline.endswith(f"; diverged: loss in {text} runs")
    assert not gate.is_tolerable
    assert (gate.moved, gate.lacks_steps) == ([], False)


def test_a_metric_without_a_check_that_diverged() -> None:
    """The verdict is about the throughput, and the headline tells what it is worth."""
    gate = evaluate(diverged(0), diverged(5), FIVE_PERCENT)
    assert gate.headline == (
        "bench against bench: no regression beyond the allowed limits; "
        "diverged: loss in 5 of 5 runs"
    )


def test_a_metric_that_diverges_on_both_sides() -> None:
    gate = evaluate(diverged(5), diverged(5), {"loss": Floor(0.05)})
    assert (gate.verdict.value, gate.diverged) == ("no-data", [])


def test_a_metric_that_diverged_under_other_conditions() -> None:
    candidate = diverged(5)
    candidate.fingerprint.cells = [CellPrint({}, {"target": "compose"})]
    gate = evaluate(diverged(0), candidate, {"loss": Floor(0.05)})
    assert (gate.verdict.value, gate.diverged) == ("no-data", [])


def test_fresh_runs_that_all_diverge_confirm_a_suspicion() -> None:
    floors = {"loss": Floor(0.05)}
    candidate = diverged(0)
    candidate.series[1].values = [0.2] * 5
    first = evaluate(diverged(0), candidate, floors)
    gate = confirm(first, diverged(0), candidate, diverged(5), floors)
    assert (gate.verdict.value, gate.diverged) == ("regressed", ["loss in 5 of 5 runs"])


def logged(*counts: int | None) -> Results:
    """A cell for each count of values that its runs logged."""
    side = results({str(index + 1): STEADY for index in range(len(counts))})
    for series, count in zip(side.series, counts, strict=True):
        series.logged = count
    return side


def test_a_training_that_ended_early_with_success() -> None:
    """Its throughput is that of the baseline."""
    gate = evaluate(logged(100), logged(50), FIVE_PERCENT)
    assert gate.headline == (
        "bench against bench: no regression beyond the allowed limits; "
        "fewer values were logged: throughput (workers.count=1) 50 instead of 100"
    )
    assert gate.exit_code == 0


@pytest.mark.parametrize(
    ("before", "after"), [(100, 51), (50, 100), (None, 1), (100, None)], ids=str
)
def test_a_training_that_logs_as_often(before: int | None, after: int | None) -> None:
    assert evaluate(logged(before), logged(after), FIVE_PERCENT).shortened == []


def test_a_training_that_logs_less_often_under_other_conditions() -> None:
    candidate = logged(1)
    candidate.fingerprint.cells = [CellPrint({"workers.count": 1}, {"target": "compose"})]
    assert evaluate(logged(100), candidate, FIVE_PERCENT).shortened == []


def test_fresh_runs_that_end_early() -> None:
    candidate = logged(100)
    candidate.series[0].values = scaled(0.8)
    first = evaluate(logged(100), candidate, FIVE_PERCENT)
    gate = confirm(first, logged(100), candidate, logged(10), FIVE_PERCENT)
    assert gate.shortened == ["throughput (workers.count=1) 10 instead of 100"]


def test_many_cells_that_end_early() -> None:
    """The headline stays one line."""
    gate = evaluate(logged(*[100] * 6), logged(*[10] * 6), FIVE_PERCENT)
    assert len(gate.shortened) == 6
    assert gate.headline.endswith("throughput (workers.count=4) 10 instead of 100 and 2 more")


def test_a_metric_that_vanished() -> None:
    candidate = results(STEADY)
    candidate.series = []
    check = evaluate(results(STEADY), candidate, FIVE_PERCENT).checks[0]
    assert (check.verdict.value, check.reason) == ("no-data", "no data: there is no run of it")


def test_a_metric_that_nobody_knows() -> None:
    gate = evaluate(results(STEADY), results(STEADY), {"speed": Floor(0.05)})
    assert (gate.verdict.value, gate.exit_code) == ("no-data", 8)


def test_a_gate_without_checks_does_not_pass() -> None:
    assert evaluate(results(STEADY), results(STEADY), {}).exit_code == 8


def test_cells_that_came_and_went() -> None:
    gate = evaluate(
        results({"2": STEADY, "4": STEADY}), results({"2": STEADY, "8": STEADY}), FIVE_PERCENT
    )
    assert [(c.cell, c.verdict.value, c.reason) for c in gate.checks] == [
        ({"workers.count": 2}, "pass", None),
        (
            {"workers.count": 8},
            "no-data",
            "the candidate has this cell, but the baseline does not",
        ),
        (
            {"workers.count": 4},
            "no-data",
            "the baseline has this cell, but the candidate does not",
        ),
    ]


def test_one_cell_that_regressed_among_others() -> None:
    cells = {str(n): STEADY for n in (2, 4, 8)}
    gate = evaluate(results(cells), results({**cells, "4": scaled(0.85)}), FIVE_PERCENT)
    assert verdicts(gate) == ["pass", "regressed", "pass", "inconclusive"]
    assert gate.checks[-1].cell is None
    assert gate.verdict.value == "regressed"


def test_a_regression_of_all_cells_that_no_single_one_shows() -> None:
    noisy = [92.0, 108.0, 97.0, 103.0, 100.0]
    cells = {str(n): noisy[n % 5 :] + noisy[: n % 5] for n in range(2, 13)}
    gate = evaluate(
        results(cells), results({n: scaled(0.93, v) for n, v in cells.items()}), FIVE_PERCENT
    )
    assert set(verdicts(gate)[:-1]) == {"inconclusive"}
    assert (gate.checks[-1].cell, gate.checks[-1].verdict.value) == (None, "regressed")


def test_one_disturbance_of_all_cells_is_no_regression_of_all() -> None:
    noisy = [92.0, 108.0, 97.0, 103.0, 100.0]
    cells = {str(n): noisy for n in range(2, 14)}
    gate = evaluate(
        results(cells), results({n: scaled(0.93, v) for n, v in cells.items()}), FIVE_PERCENT
    )
    assert set(verdicts(gate)) == {"inconclusive"}
    assert gate.checks[-1].runs == (5, 5)


def test_a_lost_run_of_one_cell_is_not_a_reason_for_more_runs_across_cells() -> None:
    three = STEADY[:3]
    lost = {"2": three, "4": [*three[:2], None]}
    gate = evaluate(results({"2": three, "4": three}), results(lost), FIVE_PERCENT)
    assert [(check.verdict.value, check.reason) for check in gate.checks] == [
        ("pass", None),
        ("no-data", "1 of 3 runs have no data"),
        ("no-data", "1 of 3 runs have no data"),
    ]


def test_repetitions_of_which_each_lacks_a_cell_are_no_data_across_cells() -> None:
    cells = {"2": [*STEADY, None, None], "4": [None, None, *STEADY]}
    apart = {"2": [*STEADY, *[None] * 5], "4": [*[None] * 5, *STEADY]}
    gate = evaluate(results(cells), results(apart), FIVE_PERCENT)
    assert (gate.checks[-1].cell, gate.checks[-1].verdict.value, gate.checks[-1].reason) == (
        *(None, "no-data"),
        "no repetition has data in all cells",
    )


def failed(*codes: int, runs: int = 5) -> CellRuns:
    """Runs of which the first have failed, with these exit codes."""
    return CellRuns(runs=[f"job-{n}" for n in range(runs)], failures=list(codes))


@pytest.mark.parametrize(
    ("values", "cell", "verdict", "exit_code", "tolerant"),
    [
        (STEADY, failed(), "pass", 0, 0),
        ([None] * 5, failed(1, 1, 1, 1, 1), "no-data", 1, 1),
        ([None] * 5, failed(6, 6, 6, 6, 6), "no-data", 6, 6),
        ([None] * 5, failed(4, 4, 4, 4, 4), "no-data", 4, 4),
        ([None] * 5, failed(3, 3, 3, 3, 3), "no-data", 3, 3),
        ([None] * 5, failed(6, 1, 6, 6, 6), "no-data", 1, 1),
        ([None], failed(5, runs=1), "no-data", 5, 5),
        ([None, *STEADY[1:]], failed(1), "no-data", 8, 8),
        ([None, *scaled(0.9)[1:]], failed(1), "regressed", 7, 7),
        ([None] * 5, failed(), "no-data", 8, 0),
        (scaled(0.9), failed(), "regressed", 7, 7),
        ([80.0, 120.0, 95.0, 105.0, 100.0], failed(), "inconclusive", 8, 0),
    ],
)
def test_exit_codes(
    values: list[float | None], cell: CellRuns, verdict: str, exit_code: int, tolerant: int
) -> None:
    candidate = results(values)
    candidate.cells = [cell]
    gate = evaluate(results(STEADY), candidate, FIVE_PERCENT)
    assert (gate.verdict.value, gate.exit_code) == (verdict, exit_code)
    assert (0 if gate.is_tolerable else gate.exit_code) == tolerant


def test_a_cell_that_failed_beside_one_that_did_not() -> None:
    candidate = results({"2": STEADY, "4": [None] * 5})
    candidate.cells[1].runs, candidate.cells[1].failures = ["a", "b"], [1, 1]
    gate = evaluate(results({"2": STEADY, "4": STEADY}), candidate, FIVE_PERCENT)
    assert (verdicts(gate), gate.exit_code) == (["pass", "no-data"], 1)
    assert gate.headline.endswith("; runs of the candidate failed: 2")


def test_a_confirmation_of_which_all_runs_fail() -> None:
    baseline, candidate = results(STEADY), results(scaled(0.9))
    first = evaluate(baseline, candidate, FIVE_PERCENT)
    crashed = results([None] * 5)
    crashed.cells = [failed(1, 1, 1, 1, 1)]
    gate = confirm(first, baseline, candidate, crashed, FIVE_PERCENT)
    assert (gate.verdict.value, gate.exit_code) == ("no-data", 1)


def test_zero_baseline() -> None:
    check = evaluate(results([0.0] * 5), results(STEADY), FIVE_PERCENT).checks[0]
    assert (check.verdict.value, check.effect) == ("inconclusive", None)
    assert check.reason == (
        "the baseline is zero, so there is no percentage: allow an amount instead"
    )


def test_zero_baseline_with_an_amount() -> None:
    floors = {"throughput": Floor(2.0, is_relative=False)}
    gate = evaluate(results([0.0] * 5, goal="min"), results([0.0] * 5, goal="min"), floors)
    assert verdicts(gate) == ["pass"]
    gate = evaluate(results([0.0] * 5, goal="min"), results([5.0] * 5, goal="min"), floors)
    assert verdicts(gate) == ["regressed"]


def test_an_amount_that_cannot_be_measured() -> None:
    floors = {"throughput": Floor(1e-9, is_relative=False)}
    check = evaluate(results(STEADY), results(STEADY), floors).checks[0]
    assert (check.verdict.value, check.reason) == (
        "inconclusive",
        "an allowed regression of 1e-09 is too small to be measured relative to these values",
    )


@pytest.mark.parametrize(
    ("factor", "goal", "verdict"),
    [
        (1.1, "max", "regressed"),
        (0.9, "max", "pass"),
        (0.9, "min", "regressed"),
        (1.1, "min", "pass"),
    ],
)
def test_negative_values(factor: float, goal: str, verdict: str) -> None:
    """-110 is less than -100: worse if more is better."""
    negative = scaled(-1)
    gate = evaluate(
        results(negative, goal=goal), results(scaled(factor, negative), goal=goal), FIVE_PERCENT
    )
    assert verdicts(gate) == [verdict]


def test_without_a_goal_nothing_is_decided() -> None:
    with pytest.raises(RsctlError) as caught:
        evaluate(results(STEADY, goal=None), results(STEADY, goal=None), FIVE_PERCENT)
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.findings[0].message == ("the goal of throughput is unknown")


def test_goals_that_disagree() -> None:
    check = evaluate(results(STEADY, goal="min"), results(STEADY, goal="max"), FIVE_PERCENT).checks[
        0
    ]
    assert (check.verdict.value, check.reason) == (
        "no-data",
        "its goal is max, but the baseline's is min",
    )


def test_units_that_disagree() -> None:
    """As in a baseline that a person has written, without the definition of the metric."""
    baseline, candidate = results(STEADY), results(STEADY)
    baseline.series[0].unit, candidate.series[0].unit = "ms", "s"
    [check] = evaluate(baseline, candidate, FIVE_PERCENT).checks
    assert (check.verdict.value, check.reason) == (
        "no-data",
        "its unit is s, but the baseline's is ms",
    )


def test_a_confirmed_regression() -> None:
    baseline, candidate = results(STEADY), results(scaled(0.9))
    first = evaluate(baseline, candidate, FIVE_PERCENT)
    gate = confirm(first, baseline, candidate, results(scaled(0.9)), FIVE_PERCENT)
    assert (gate.verdict.value, gate.checks[0].confirmed) == ("regressed", True)
    assert gate.checks[0].runs == (5, 10)


def test_a_suspicion_that_fresh_machines_do_not_confirm() -> None:
    baseline, candidate = results(STEADY), results(scaled(0.9))
    first = evaluate(baseline, candidate, FIVE_PERCENT)
    gate = confirm(first, baseline, candidate, results(STEADY), FIVE_PERCENT)
    assert (gate.verdict.value, gate.exit_code) == ("inconclusive", 8)
    assert gate.checks[0].reason == "suspected, and fresh runs did not confirm it"


def test_a_confirmation_that_crashes() -> None:
    baseline, candidate = results(STEADY), results(scaled(0.9))
    first = evaluate(baseline, candidate, FIVE_PERCENT)
    crashed = results([None] * 5, reasons=["job-7 failed"])
    gate = confirm(first, baseline, candidate, crashed, FIVE_PERCENT)
    assert (gate.verdict.value, gate.checks[0].reason) == (
        "no-data",
        "suspected, and the fresh runs cannot confirm it: no data: job-7 failed",
    )


def test_a_failed_run_prevents_a_pass_though_fresh_runs_succeed() -> None:
    baseline, candidate = results(STEADY), results([None, *scaled(0.94)[1:]], reasons=["job-1"])
    first = evaluate(baseline, candidate, FIVE_PERCENT)
    gate = confirm(first, baseline, candidate, results(scaled(1.01) * 4), FIVE_PERCENT)
    assert verdicts(gate) == ["no-data"]
    assert gate.checks[0].reason == "1 of 25 runs have no data: job-1"


def test_only_suspects_are_repeated() -> None:
    cells = {"2": STEADY, "4": STEADY}
    baseline, candidate = results(cells), results({**cells, "4": scaled(0.8)})
    first = evaluate(baseline, candidate, FIVE_PERCENT)
    assert [check.cell for check in first.suspects] == [{"workers.count": 4}, None]
    gate = confirm(first, baseline, candidate, results({**cells, "4": scaled(0.8)}), FIVE_PERCENT)
    assert verdicts(gate) == ["pass", "regressed", "regressed"]


def test_a_cell_that_is_not_suspected_does_not_change_the_confirmation_of_another() -> None:
    """However little it may differ by chance: its own verdict stays as it was."""
    found = []
    for factor in (1.0, 0.97):
        baseline = results({"2": STEADY, "4": STEADY})
        candidate = results({"2": scaled(factor), "4": [99.2, 84.0, 85.1, 84.5, 83.8]})
        first = evaluate(baseline, candidate, FIVE_PERCENT)
        gate = confirm(first, baseline, candidate, candidate, FIVE_PERCENT)
        quiet, suspect, _ = gate.checks
        assert (quiet.confirmed, quiet.runs, suspect.runs) == (False, (5, 5), (5, 10))
        found.append((suspect.verdict, suspect.p, suspect.p_adjusted))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("loss", "verdict", "exit_code"), [(1.02, "regressed", 7), (1.0, "pass", 0)]
)
def test_a_floor_on_the_loss_beside_the_throughput(
    loss: float, verdict: str, exit_code: int
) -> None:
    """A faster job with a worse loss has regressed, such as one that sends less."""

    def both(speeds: list[float], losses: list[float]) -> Results:
        fast, good = results(speeds), results(losses, goal="min")
        good.series[0].name = "loss"
        fast.fingerprint.metrics["loss"] = {"aggregate": "last"}
        fast.series.extend(good.series)
        return fast

    losses = [0.800, 0.801, 0.799, 0.8005, 0.7995]
    floors = {"throughput": Floor(0.05), "loss": Floor(0.01)}
    gate = evaluate(both(STEADY, losses), both(scaled(10), scaled(loss, losses)), floors)
    assert dict(zip(["throughput", "loss"], verdicts(gate), strict=True)) == {
        "throughput": "pass",
        "loss": verdict,
    }
    assert (gate.verdict.value, gate.exit_code) == (verdict, exit_code)
