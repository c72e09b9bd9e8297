"""A gate on whole curves: planted divergences that a last value hides, and what has no curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random

import pytest

from rsctl.bench.baseline import decode_baseline, encode_baseline, make_baseline
from rsctl.bench.calibrate import calibrate
from rsctl.bench.curves import Curve, CurveReader, curve_parts
from rsctl.bench.exchanges import p_of_any
from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.gate import Gate, confirm, evaluate
from rsctl.bench.history_gate import improvements
from rsctl.bench.paired_gate import evaluate_pairs
from rsctl.bench.paired_results import PairedResults
from rsctl.bench.records import Against
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.sides import Sides
from rsctl.bench.verdict import Floor, Verdict
from rsctl.findings import ExitCode, RsctlError

FLOORS = {"curve.loss": Floor(0.05)}
STEPS = 320  # 10 parts of 32 steps
Rule = Callable[[int], float]


def falling(step: int) -> float:
    """A loss without noise."""
    return 0.2 + 2 * math.exp(-step / 80)


def bump(step: int) -> float:
    """A factor: it diverges from step 160 on and has come back at step 224."""
    return 1.3 if 160 <= step < 192 else 1.1 if 192 <= step < 224 else 1.0


def read(values: Sequence[float], first: int = 0) -> Curve | None:
    """The curve of these values."""
    reader = CurveReader()
    for step, value in enumerate(values, first):
        reader.add(step, value)
    return reader.curve()


def side(
    seed: int, runs: int = 5, rule: Rule = lambda _: 1.0, steps: int = STEPS, first: int = 0
) -> Results:
    """Runs with 1 % of noise a run; the noise of steps is the same for all."""
    random = Random(seed)
    made = []
    for _ in range(runs):
        level = random.gauss(1, 0.01)
        made.append([falling(step) * rule(step) * level for step in range(steps)])
    series = Series(
        name="loss",
        goal="min",
        values=[values[-1] for values in made],
        curves=[read(values, first) for values in made],
    )
    fixed = Fingerprint([CellPrint({}, {"target": "process"})], {"loss": {"aggregate": "last"}})
    cells = [CellRuns(wanted=runs)]
    return Results(
        label=f"seed-{seed}", kind="bench", fingerprint=fixed, series=[series], cells=cells
    )


def reason(baseline: Results, candidate: Results) -> str:
    """Why there is no data to decide by."""
    gate = evaluate(baseline, candidate, FLOORS)
    assert gate.verdict is Verdict.NO_DATA
    assert gate.exit_code == ExitCode.INCONCLUSIVE
    return str(gate.checks[0].reason)


@pytest.mark.parametrize(
    ("count", "parts"),
    [(1, (1, 1)), (16, (1, 16)), (17, (2, 9)), (400, (32, 13)), (100_000, (8192, 13))],
)
def test_a_curve_has_at_most_sixteen_parts(count: int, parts: tuple[int, int]) -> None:
    curve = read([2.0] * count)
    assert curve is not None
    assert (curve.steps, len(curve.means)) == parts
    assert curve.means == [2.0] * len(curve.means)


def test_a_part_has_the_mean_of_its_values() -> None:
    reader = CurveReader()
    for step in range(10, 50, 5):
        reader.add(step, step, is_counted=step >= 20)
    reader.add(None, 1000)  # a value without a step
    reader.add(3, 1000)  # an attempt that begins before the first
    means = [None, None, 20.0, 25.0, None, 30.0, 35.0, 40.0, 45.0]
    assert reader.curve() == Curve(10, 4, means)


def test_a_curve_without_steps_is_none() -> None:
    reader = CurveReader()
    reader.add(None, 1.0)
    assert reader.curve() is None


def test_a_divergence_that_the_last_value_hides() -> None:
    gate = evaluate(side(1), side(2, rule=bump), FLOORS)
    [check] = gate.checks
    assert gate.verdict is Verdict.REGRESSED
    assert check.title == "curve.loss (worst in steps 160 to 191)"
    assert check.effect == pytest.approx(0.3, abs=0.03)
    assert check.baseline == pytest.approx(0.41, abs=0.03)
    assert check.p == pytest.approx(1 / 252)  # one exchange of all: 16 parts are one test
    assert check.runs == (5, 5)
    last = evaluate(side(1), side(2, rule=bump), {"loss": Floor(0.05)})
    assert last.verdict is Verdict.PASS


def test_an_unchanged_training_passes() -> None:
    assert evaluate(side(1), side(2), FLOORS).verdict is Verdict.PASS


def test_a_baseline_is_outdated_if_the_whole_curve_is_better() -> None:
    for better, expected in ((lambda _: 0.8, ["curve.loss"]), (lambda s: 1 / bump(s), [])):
        sides = side(1), side(2, rule=better)
        found = improvements(*sides, FLOORS, evaluate(*sides, FLOORS))
        assert [check.metric for check in found] == expected


def test_a_loss_that_falls_later_has_regressed() -> None:
    late = evaluate(side(1), side(2, rule=lambda step: falling(step - 30) / falling(step)), FLOORS)
    assert late.verdict is Verdict.REGRESSED


def test_an_amount_in_the_units_of_the_metric() -> None:
    assert evaluate(side(1), side(2, rule=bump), {"curve.loss": Floor(0.05, False)}).verdict is (
        Verdict.REGRESSED
    )
    assert evaluate(side(1), side(2, rule=bump), {"curve.loss": Floor(0.3, False)}).verdict is (
        Verdict.PASS
    )


def test_a_suspicion_is_confirmed_by_the_curves_of_fresh_runs() -> None:
    baseline, first = side(1), side(2, 4, rule=bump)
    for rule, verdict in ((bump, Verdict.REGRESSED), (lambda _: 1.0, Verdict.INCONCLUSIVE)):
        fresh = side(3, rule=rule)
        gate = confirm(evaluate(baseline, first, FLOORS), baseline, first, fresh, FLOORS)
        assert gate.verdict is verdict, gate.checks


def test_runs_in_turn_are_compared_by_their_curves() -> None:
    def gate(rule: Rule) -> Gate:
        blocks = {"": [0, 0, 1, 1]}
        before, after = side(1, 4), side(2, 4, rule)
        return evaluate_pairs(
            PairedResults(Against(given="main", file="job.yaml"), before, after, blocks, {}), FLOORS
        )

    [check] = gate(bump).checks
    assert (check.verdict, check.pairs) == (Verdict.REGRESSED, 4)
    assert check.title == "curve.loss (worst in steps 160 to 191)"
    assert gate(lambda _: 1.0).verdict is Verdict.PASS


def test_only_equal_machines_are_compared() -> None:
    """The other machine logs a loss that is a third lower."""

    def mixed(seed: int, machines: str, rule: Rule = lambda _: 1.0) -> Results:
        made = side(seed, len(machines), rule)
        slow = side(seed, len(machines), lambda step: rule(step) / 1.5)
        made.series[0].curves = [
            (made if name == "A" else slow).series[0].curves[run]
            for run, name in enumerate(machines)
        ]
        made.fingerprint.cells[0] = CellPrint({}, {"target": "process"}, list(machines))
        return made

    same = evaluate(mixed(1, "AAAAAB"), mixed(2, "AABBBB"), FLOORS)
    assert same.checks[0].machines == 2
    assert same.verdict is not Verdict.REGRESSED
    assert evaluate(mixed(1, "AAABBB"), mixed(2, "AAABBB", bump), FLOORS).verdict is (
        Verdict.REGRESSED
    )


def test_what_has_no_curve() -> None:
    good = side(1)
    assert reason(good, side(2, steps=100)) == (
        "the runs have different numbers of steps: about 128 and 320"
    )
    assert reason(good, side(2, first=1000)) == "the runs begin at different steps: 0 and 1000"
    without = side(2)
    without.series[0].curves = [None] * 5
    assert reason(good, without) == (
        "no data: the curve of loss needs steps: give its regex a group `step`"
    )
    assert reason(without, good) == (
        "the baseline has no data for it: the curve of loss needs steps: give its regex a group "
        "`step`"
    )
    without.series[0].curves = []
    assert reason(without, good) == (
        "the baseline has no data for it: it has no curves: measure it with max_regression of "
        "curve.loss"
    )


def test_runs_of_half_as_many_steps_are_compared() -> None:
    check = evaluate(side(1), side(2, steps=STEPS // 2), FLOORS).checks[0]
    assert [part.steps for part in check.parts] == [(n, n + 31) for n in range(0, 160, 32)]


def test_runs_that_all_diverged_have_regressed() -> None:
    broken = side(2)
    [series] = broken.series
    series.curves = [read([*[1.0] * 200, *[math.nan] * 120])] * 5
    series.values, series.diverged = [None] * 5, 5
    gate = evaluate(side(1), broken, FLOORS)
    assert (gate.verdict, gate.checks[0].reason) == (
        Verdict.REGRESSED,
        "the last value of loss is not finite in any run",
    )


def test_a_run_that_diverged_for_good_never_passes() -> None:
    broken = side(2)
    broken.series[0].curves[3] = read([*[1.0] * 200, *[math.nan] * 120])
    assert reason(side(1), broken) == "1 of 5 runs have no data"


def test_runs_that_end_early_are_compared_over_the_steps_of_all() -> None:
    short = side(2, rule=bump)
    short.series[0].curves[3] = side(3, 1, bump, steps=230).series[0].curves[0]
    gate = evaluate(side(1), short, FLOORS)
    assert gate.checks[0].title == "curve.loss (worst in steps 160 to 191)"
    assert gate.verdict is Verdict.REGRESSED


def test_coarser_parts_are_those_of_the_longest_run() -> None:
    [first, *_, last] = curve_parts([read([1.0] * 512)], [read([2.0] * 540)])
    assert (first.steps, last.steps) == ((0, 63), (448, 511))
    assert (last.baseline, last.candidate) == ([1.0], [2.0])


def test_a_baseline_file_has_the_curves_that_a_gate_compares() -> None:
    before = side(1)
    kept = decode_baseline(encode_baseline(make_baseline(before, ["curve.loss"])), "b.json")
    assert kept.series[0].curves == before.series[0].curves
    assert evaluate(kept, side(2, rule=bump), FLOORS).verdict is Verdict.REGRESSED
    plain = encode_baseline(make_baseline(before, ["loss"]))
    assert b"curves" not in plain
    before.series[0].curves[0] = None
    with pytest.raises(RsctlError, match=r"no data for curve\.loss: the curve of loss needs steps"):
        make_baseline(before, ["curve.loss"])


def test_a_calibrated_floor_is_of_the_curve() -> None:
    [found] = calibrate(side(1, steps=4), ["curve.loss"], 5)
    assert found.runs == 5
    assert found.floor is not None
    assert 0.01 < found.floor < 0.06


def test_the_p_of_several_measurements_is_exact() -> None:
    """Each exchange of the runs, with all that was measured of them, has its part of all p."""
    random = Random(4)
    measured = [[random.gauss(0, 1) for _ in range(6)] for _ in range(5)]
    found = []
    for chosen in combinations(range(6), 3):
        others = [run for run in range(6) if run not in chosen]
        sides = [Sides([v[i] for i in others], [v[i] for i in chosen]) for v in measured]
        found.append(p_of_any([[each] for each in sides]))
    for rank, p in enumerate(sorted(found), 1):
        assert p >= rank / 20 - 1e-9
    assert min(found) == pytest.approx(1 / 20)
    assert p_of_any([[Sides([1.0], [2.0])], [Sides([], [])]]) == 1.0
