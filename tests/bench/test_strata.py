"""Gates of runs on machines of several generations."""

from __future__ import annotations

import math
from itertools import combinations, product
from random import Random

import pytest

from rsctl.bench.baseline import decode_baseline, encode_baseline, make_baseline
from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.gate import Gate, confirm, evaluate
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.sides import Sides
from rsctl.bench.stats import CellSides, change, interval, p_lower
from rsctl.bench.strata import (
    smallest_stratified_p,
    stratified_effect,
    stratified_interval,
    stratified_p,
)
from rsctl.bench.verdict import Floor

OLD, NEW = "Xeon Skylake, 8 cores", "Xeon Ice Lake, 8 cores"
NOISE = (0.0, 0.4, -0.4, 0.2, -0.2, 0.3, -0.3, 0.1, -0.1, 0.05)


def side(machines: str, factor: float = 1.0, label: str = "now") -> Results:
    """Runs on these machines, `o` or `n`; an old one is 8 % slower."""
    values = [
        factor * (100 if machine == "n" else 92) + noise
        for machine, noise in zip(machines, NOISE, strict=False)
    ]
    names = [{"o": OLD, "n": NEW, "?": None}[machine] for machine in machines]
    kinds = " | ".join(sorted({name for name in names if name}))
    return Results(
        label=label,
        kind="bench",
        fingerprint=Fingerprint([CellPrint({}, {"machine": kinds}, names)]),
        series=[Series(name="throughput", unit="x/s", goal="max", values=list(values))],
        cells=[CellRuns()],
    )


def judged(baseline: str, candidate: str, factor: float = 1.0, floor: float = 0.05) -> Gate:
    return evaluate(side(baseline), side(candidate, factor), {"throughput": Floor(floor)})


@pytest.mark.parametrize(
    ("baseline", "candidate", "factor", "verdict"),
    [
        ("nnnnonnnno", "ooooonooon", 1.0, "pass"),
        ("ooooonooon", "nnnnonnnno", 1.0, "pass"),
        ("nnnnonnnno", "ooooonooon", 0.9, "regressed"),
        ("ooooonooon", "nnnnonnnno", 0.9, "regressed"),
        ("nno", "oon", 0.9, "inconclusive"),
        ("nnnnn", "ooooo", 1.0, "no-data"),
        ("nnnnn", "nnnno", 1.0, "no-data"),
        ("nnnnn", "nnnnn", 0.9, "regressed"),
    ],
)
def test_only_equal_machines_are_compared(
    baseline: str, candidate: str, factor: float, verdict: str
) -> None:
    gate = judged(baseline, candidate, factor)
    assert [check.verdict.value for check in gate.checks] == [verdict]
    if "o" in baseline and "o" in candidate:
        [check] = gate.checks
        assert check.effect == pytest.approx(factor - 1, abs=0.006)
        assert check.machines == 2
        assert (check.detectable is None) is (len(baseline) == 3)  # they are too few
        assert 0.05 < (check.detectable or 0.06) < 0.08


def test_few_runs_say_on_how_many_kinds_of_machines_they_were() -> None:
    [check] = judged("nno", "oon", 0.9).checks
    assert check.reason == (
        "3+3 runs on 2 kinds of machines are too few to show a difference: increase the number of "
        "runs"
    )


def test_runs_on_machines_that_the_other_side_lacks_do_not_count() -> None:
    before, after = side("nnnnoooo"), side("nnnnoooo")
    after.series[0].values[4:] = [None] * 4
    after.series[0].reasons = ["lost"]
    [check] = evaluate(before, after, {"throughput": Floor(0.05)}).checks
    assert check.runs == (4, 4)
    before.series[0].values[:4] = [None] * 4
    [check] = evaluate(before, after, {"throughput": Floor(0.05)}).checks
    assert check.reason == "no kind of machine has runs with data of both sides"


def test_a_baseline_file_has_the_machines() -> None:
    data = encode_baseline(make_baseline(side("nnnnonnnno", label="before")))
    baseline = decode_baseline(data, "baseline.json")
    gate = evaluate(baseline, side("ooooonooon"), {"throughput": Floor(0.05)})
    assert gate.verdict.value == "pass"


def test_fresh_runs_are_compared_by_machine() -> None:
    baseline, first, fresh = side("nnnnonnnno"), side("oooon", 0.9), side("onooo", 0.9)
    floors = {"throughput": Floor(0.05)}
    gate = confirm(evaluate(baseline, first, floors), baseline, first, fresh, floors)
    assert [(c.verdict.value, c.machines, c.runs) for c in gate.checks] == [
        ("regressed", 2, (10, 10))
    ]
    assert first.fingerprint.machines_of({}) == [OLD] * 4 + [NEW]


def test_the_p_is_the_part_of_all_exchanges_within_strata() -> None:
    strata = [Sides([3.0, 4.5], [2.0, 3.5, 1.0]), Sides([7.0, 9.0, 8.0], [6.5, 8.5])]
    sums = []
    for sides in strata:
        pool = [*sides.baseline, *sides.candidate]
        scale = sum(pool) / len(pool)
        chosen = combinations(pool, len(sides.candidate))
        sums.append([sum(values) / scale for values in chosen])
    mine = sum(sum(s.candidate) / (sum([*s[0], *s[1]]) / 5) for s in strata)
    all_of = [sum(parts) for parts in product(*sums)]
    expected = sum(total <= mine + 1e-9 for total in all_of) / len(all_of)
    assert stratified_p(strata) == pytest.approx(expected)
    assert smallest_stratified_p(strata) == 1 / len(all_of) == 0.01


def test_one_stratum_is_the_test_without_strata() -> None:
    sides = Sides([3.0, 4.5, 5.0, 3.5], [2.0, 3.4, 1.0, 4.0])
    cell = CellSides(*sides)
    assert stratified_p([sides]) == p_lower(sides)
    assert stratified_interval([sides], False) == interval([cell], False)
    assert stratified_effect([sides], False) == change(sides)


def test_many_strata_take_draws() -> None:
    strata = [Sides([3.0, 3.1, 3.2], [2.0, 2.1, 2.2]) for _ in range(8)]
    assert stratified_p(strata) == pytest.approx(1 / 20_001)
    assert stratified_p([Sides([1.0, 2.0], [2.0, 1.0])] * 12) > 0.3
    assert stratified_p([]) == 1.0


def test_an_unchanged_program_rarely_fails_on_a_lottery_of_machines() -> None:
    """The bound is 5 %; with 400 trials at most 8 % by chance."""
    random = Random(5)
    failed = 0
    covered = known = 0
    for _ in range(400):
        sides: dict[str, Sides] = {}
        for which in (0, 1):
            for _ in range(6):
                machine = "o" if random.random() < (0.7, 0.3)[which] else "n"
                value = (100 if machine == "n" else 92) * random.lognormvariate(0, 0.03)
                sides.setdefault(machine, Sides([], []))[which].append(value)  # type: ignore[attr-defined]
        strata = [one for one in sides.values() if all(one)]
        failed += stratified_p(strata) <= 0.05
        ends = stratified_interval(strata, True) if strata else None
        known += ends is not None
        covered += ends is not None and ends[0] <= 0 <= ends[1]
    assert failed <= 0.08 * 400
    assert known > 350
    assert covered >= 0.86 * known


def test_a_baseline_of_zero_has_no_percentage() -> None:
    assert stratified_effect([Sides([0.0, 0.0], [1.0]), Sides([1.0], [1.0])], True) is None
    assert stratified_effect([Sides([0.0, 0.0], [1.0])], False) == 1.0
    assert math.isclose(stratified_p([Sides([1e308, 1e308], [1e308, 1e308])] * 2), 1.0)
