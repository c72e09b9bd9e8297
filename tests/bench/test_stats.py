"""The statistics, by what is known of them, and the gate's operating curve by its own program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from random import Random
from statistics import fmean, pstdev

import pytest

from benchmarks.gate import NOISES, Design, coverage, power, rates
from rsctl.bench.scores import all_scores, several_apart, winsorised
from rsctl.bench.sides import Sides
from rsctl.bench.stats import (
    CellSides,
    Fresh,
    by_both,
    change,
    combine,
    detectable,
    effect,
    holm,
    interval,
    mean,
    noise,
    p_lower,
    p_two_sided,
    smallest_p,
    spread,
    student_t,
)
from rsctl.bench.verdict import Floor, Verdict, decide, shares, weigh


def by_hand(before: list[float], after: list[float]) -> float:
    """The p of the test, by its definition and all exchanges."""
    total, chosen = len(before) + len(after), len(after)
    scores = [
        (
            [value - fmean(values) for value in values],
            pstdev(values) * math.sqrt(chosen * (total - chosen) / (total - 1)),
            deduction,
        )
        for values, deduction in all_scores(Sides(before, after))
    ]

    def statistic(candidate: Sequence[int]) -> float:
        return max(
            -sum(values[index] for index in candidate) / error - deduction
            for values, error, deduction in scores
        )

    observed = statistic(range(len(before), total))
    found = [statistic(candidate) for candidate in combinations(range(total), chosen)]
    return sum(each >= observed - 1e-9 for each in found) / len(found)


@pytest.mark.parametrize(("before", "after"), [(3, 3), (4, 6), (5, 5), (7, 3), (1, 4)])
def test_the_permutation_test_is_exact(before: int, after: int) -> None:
    random = Random(before * 10 + after)
    for slow in (0, 1, 2, 3) * 5:  # so many runs are three times slow
        one = [random.gauss(1, 0.1) for _ in range(before)]
        two = [random.gauss(0.95, 0.1) for _ in range(after)]
        for _ in range(slow):
            random.choice([one, two])[0] /= 3
        assert p_lower(Sides(one, two)) == pytest.approx(by_hand(one, two))


def test_draws_stand_for_all_exchanges_of_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(3)
    for shift in (1.0, 0.97, 0.93):
        one, two = ([random.gauss(1, 0.05) for _ in range(8)] for _ in range(2))
        sides = Sides([*one, 0.3], [0.32, *(shift * value for value in two)])
        exact = p_lower(sides)
        with monkeypatch.context() as patch:
            patch.setattr("rsctl.bench.exchanges._LARGEST_HALF", 3)
            assert p_lower(sides) == pytest.approx(exact, rel=0.15)


def test_slow_runs_of_the_baseline_do_not_hide_a_change() -> None:
    """Two runs a third as fast, of 5 runs each: the others differ completely."""
    baseline, candidate = [100.0, 101.0, 99.0, 33.0, 100.5], [80.0, 27.0, 81.0, 79.0, 80.5]
    assert p_lower(Sides(baseline, candidate)) == 3 / 252


def test_smallest_p() -> None:
    """3+3 runs reach 0.05, 4+4 0.014, 5+5 0.004."""
    assert [smallest_p((n, n)) for n in (3, 4, 5)] == [1 / 20, 1 / 70, 1 / 252]
    assert p_lower(Sides([5, 6, 7, 8, 9], [0, 1, 2, 3, 4])) == 1 / 252


def test_equal_runs_show_nothing() -> None:
    assert p_lower(Sides([0.1] * 5, [0.1] * 5)) == 1.0


@pytest.mark.parametrize("size", [1.0, 1e300, 1e-300])
def test_rounding_shows_nothing(size: float) -> None:
    """Values that differ by what a float can hold."""
    one, other = [(0.1 + 0.2) * size] * 5, [0.3 * size] * 5
    assert one != other
    assert p_lower(Sides(one, other)) == p_lower(Sides(other, one)) == 1.0
    noisy = Sides([*one, 0.4 * size], [*other, 0.4 * size])
    assert p_lower(noisy) > 0.7  # the outlier is of either side
    assert p_lower(Sides([1.0] * 5, [1 - 1e-11] * 5)) == 1 / 252


def test_zeros_show_nothing() -> None:
    zeros = CellSides([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert p_lower(combine([zeros], by_both)) == p_lower(combine([zeros] * 2, by_both)) == 1.0
    assert effect([zeros]) is None


def test_large_samples_are_drawn_and_the_same_every_time() -> None:
    many = Sides([float(n) for n in range(40)], [float(n) for n in range(40)])
    assert p_lower(many) == p_lower(many) == pytest.approx(0.7, abs=0.05)


def test_two_sided() -> None:
    low, high = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]
    assert p_two_sided(Sides(low, high)) == p_two_sided(Sides(high, low)) == 2 / 70


def test_a_low_outlier_counts_as_the_nearest_other_run() -> None:
    sides = Sides([100.0, 101.0, 99.0, 33.0, 100.5], [90.0, 91.0, 89.0, 90.5, 300.0])
    assert winsorised(sides) == ([100.0, 101.0, 99.0, 89.0, 100.5], [90.0, 91.0, 89.0, 90.5, 300.0])


def test_what_slow_runs_have_left_of_a_side_is_no_outlier() -> None:
    """A regression of 60 % beside runs that took three times as long on both sides."""
    sides = Sides([33.0, 34.0, 98.0, 99.0, 100.0], [13.0, 39.0, 40.0, 41.0, 40.5])
    assert winsorised(sides).baseline == sides.baseline
    assert p_lower(sides) < 0.05


@pytest.mark.parametrize("candidates", [1, 3, 5, 10, 30])
def test_a_side_that_differs_as_a_whole_is_not_made_of_outliers(candidates: int) -> None:
    before = [100.0, 101.0, 99.0, 100.5, 99.5]
    sides = Sides(before, [50.0 + 0.1 * n for n in range(candidates)])
    assert winsorised(sides) == sides
    assert p_lower(sides) == pytest.approx(smallest_p((5, candidates)), abs=5e-5)


def test_values_that_are_all_alike_but_one() -> None:
    sides = Sides([100.0] * 5, [100.0, 100.0, 100.0, 100.0, 50.0])
    assert winsorised(sides) == sides


@pytest.mark.parametrize(
    ("candidate", "baseline", "apart"),
    [
        ((2, 4), (1, 12), 2),  # a half beside a twelfth
        ((2, 12), (1, 4), 0),
        ((1, 4), (0, 12), 0),  # one alone
        ((2, 5), (2, 5), 0),
    ],
)
def test_slow_runs_in_proportion_to_those_of_the_other_side(
    candidate: tuple[int, int], baseline: tuple[int, int], apart: int
) -> None:
    """`(2, 4)`: two slow runs of four."""
    sides = Sides(
        *(
            [33.0] * slow + [100.0 + n for n in range(of - slow)]
            for slow, of in (candidate, baseline)
        )
    )
    assert several_apart([sides]) == apart


def test_a_repetition_is_one_value_of_all_its_cells() -> None:
    cells = [CellSides([1.0, 2.0, None], [3.0, 5.0]), CellSides([10.0, 20.0, 30.0], [30.0, 10.0])]
    assert combine(cells, None) == ([5.5, 11.0], [16.5, 7.5])
    assert combine(cells, by_both) == (
        [pytest.approx((1 / 2.75 + 10 / 20) / 2), pytest.approx((2 / 2.75 + 20 / 20) / 2)],
        [pytest.approx((3 / 2.75 + 30 / 20) / 2), pytest.approx((5 / 2.75 + 10 / 20) / 2)],
    )


def test_cells_that_share_each_disturbance_show_no_more_than_one_of_them() -> None:
    one = CellSides([0.99, 1.02, 1.0, 1.03], [0.97, 0.98, 1.01, 0.96])
    assert p_lower(combine([one] * 6, by_both)) == p_lower(one.known)


def test_no_repetition_with_all_cells() -> None:
    cells = [CellSides([1.0, None], [1.0]), CellSides([None, 1.0], [1.0])]
    assert combine(cells, None) == ([], [1.0])
    assert (effect(cells), interval(cells), p_lower(combine(cells, None))) == (None, None, 1.0)


def test_the_effect_is_the_median_of_all_pairs_of_runs() -> None:
    assert change(Sides([10.0, 20.0, 30.0], [11.0, 22.0, 300.0])) == 2.0
    assert effect([CellSides([10.0, 20.0, 30.0], [11.0, 22.0, 300.0])]) == pytest.approx(0.1)


def test_the_interval_has_two_differences_as_its_ends() -> None:
    """For 5+5 runs the fifth smallest and the fifth largest: P(U <= 4) is 12/252."""
    cell = CellSides([1.0, 2.0, 3.0, 4.0, 5.0], [1.1, 2.2, 3.3, 4.4, 5.5])
    differences = sorted(after - before for after in cell[1] for before in cell[0])
    assert interval([cell], is_relative=False) == (differences[4], differences[-5])


@pytest.mark.parametrize(
    ("before", "after", "can_be_told"),
    [(1, 1, False), (1, 9, False), (2, 2, False), (2, 4, False), (2, 5, True), (3, 3, True)],
)
def test_an_interval_needs_runs(before: int, after: int, can_be_told: bool) -> None:
    cell = CellSides([1.0 + n for n in range(before)], [1.5 + n for n in range(after)])
    assert (interval([cell]) is not None) is can_be_told


@pytest.mark.parametrize("draw", ["normal", "lognormal", "one run in five three times slow"])
@pytest.mark.parametrize("runs", [3, 5])
def test_the_interval_has_the_true_effect_in_nine_of_ten_cases(draw: str, runs: int) -> None:
    assert coverage(Design(0.03, 0.0, runs=runs, draw=draw), 800, seed=1) >= 0.88


def test_values_at_the_ends_of_what_a_float_can_hold() -> None:
    cell = CellSides([1e308, 1.01e308, 0.99e308], [0.9e308, 0.91e308, 0.89e308])
    assert effect([cell]) == pytest.approx(-0.1)
    assert p_lower(cell.known) == 1 / 20
    assert mean(cell.known.baseline) == pytest.approx(1e308)
    assert noise([cell.known.baseline]) == pytest.approx(0.01)
    assert spread([cell], is_relative=False) == pytest.approx(1e306)
    assert change(Sides([-1.7e308], [1.7e308])) is None


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_effect_of_negative_and_zero_values() -> None:
    assert effect([CellSides([-100.0], [-110.0])]) == pytest.approx(-0.1)
    assert effect([CellSides([0.0], [1.0])]) is None
    assert effect([CellSides([5e-324], [1e308])]) is None


def test_noise_is_pooled_over_cells() -> None:
    assert noise([[99.0, 101.0], [990.0, 1010.0]]) == pytest.approx(0.01 * math.sqrt(2))
    assert noise([[1.0], [0.0, 0.0]]) is None


def test_student_t() -> None:
    """Tables of Student's t."""
    found = [student_t(0.95, n) for n in (1, 2, 4, 8, 30)]
    assert found == pytest.approx([6.314, 2.920, 2.132, 1.860, 1.697], rel=0.015)


def test_what_few_runs_cannot_detect() -> None:
    assert detectable(0.01, (2, 2), 0.05, 0.05) is None


@pytest.mark.parametrize("spread_of_a_run", [0.01, 0.03, 0.05])
@pytest.mark.parametrize("confirm", [False, True])
def test_eight_of_ten_regressions_of_the_detectable_size_are_found(
    spread_of_a_run: float, confirm: bool
) -> None:
    """With a confirmation both the first and the fresh runs have to show it."""
    fresh, alpha = (Fresh(0, 5), 0.01) if confirm else (None, 0.05)
    size = detectable(spread_of_a_run, (5, 5), 0.05, alpha, fresh)
    assert size is not None
    found = rates(Design(spread_of_a_run, -size, confirm=confirm), 500, seed=1)
    assert 0.75 <= found[Verdict.REGRESSED] <= 0.86


@pytest.mark.parametrize(("runs", "alpha"), [((4, 4), 0.025), ((5, 5), 0.01), ((8, 4), 0.01)])
def test_the_detectable_size_is_by_the_p_that_so_few_exchanges_can_have(
    runs: tuple[int, int], alpha: float
) -> None:
    """Here the limit and the test must both be passed: each alone is in more cases."""
    random, floor, found = Random(1), Floor(0.05), 0
    size = detectable(0.03, runs, floor.amount, alpha) or 0.0
    for _ in range(500):
        before, after = ([random.gauss(1, 0.03) for _ in range(count)] for count in runs)
        evidence = weigh([CellSides(before, [value - size for value in after])], floor)
        found += decide(evidence, evidence.p, floor, alpha) is Verdict.REGRESSED
    assert 0.72 <= found / 500 <= 0.86


@pytest.mark.parametrize(
    ("noise_of_a_run", "change", "confirm", "least_found", "most_failed"),
    [
        (0.02, -0.10, False, 0.99, 1.0),
        (0.02, 0.0, False, 0.0, 0.01),
        (0.05, 0.0, False, 0.0, 0.04),
        (0.05, 0.0, True, 0.0, 0.01),
        (0.05, -0.10, False, 0.85, 1.0),
        (0.05, -0.10, True, 0.75, 1.0),
    ],
)
def test_planted_effects(
    noise_of_a_run: float, change: float, confirm: bool, least_found: float, most_failed: float
) -> None:
    found = rates(Design(noise_of_a_run, change, confirm=confirm), 200, seed=3)
    assert least_found <= found[Verdict.REGRESSED] <= most_failed
    if change:
        assert found[Verdict.PASS] == 0


def test_with_outliers_more_runs_find_more() -> None:
    """One run in five takes three times as long."""
    found = [
        rates(Design(0.02, -0.10, runs=runs, draw="one run in five three times slow"), 100, seed=1)[
            Verdict.REGRESSED
        ]
        for runs in (3, 5, 10)
    ]
    assert found == sorted(found)
    assert found[1] > 0.65
    assert found[2] > 0.9


@pytest.mark.parametrize(
    "draw", ["normal", "lognormal", "bimodal", "stragglers", "one run in five three times slow"]
)
@pytest.mark.parametrize("confirm", [False, True])
def test_unchanged_programs_are_seldom_blamed(draw: str, confirm: bool) -> None:
    design = Design(0.08, 0.0, runs=4, draw=draw, confirm=confirm, floor=Floor(0.005))
    assert rates(design, 200, seed=1)[Verdict.REGRESSED] <= (0.02 if confirm else 0.065)


@pytest.mark.parametrize("confirm", [False, True])
def test_cells_that_share_their_noise_are_seldom_blamed(confirm: bool) -> None:
    design = Design(0.01, 0.0, cells=6, shared=0.03, floor=Floor(0.01), confirm=confirm)
    assert rates(design, 100, seed=1)[Verdict.REGRESSED] <= (0.02 if confirm else 0.065)


@pytest.mark.parametrize(
    ("cells", "runs", "expected"),
    [
        (6, 5, (0.9 * 0.05 / 6, 0.1 * 0.05)),  # both can reach their share
        (3, 4, (0.05 / 3, 0.0)),  # only the cells can
        (6, 3, (0.0, 0.05)),  # only all of them together can
    ],
)
def test_the_shares_of_cells_and_of_all_of_them(
    cells: int, runs: int, expected: tuple[float, float]
) -> None:
    assert shares(cells, 1, smallest_p((runs, runs))) == pytest.approx(expected)


@pytest.mark.parametrize("goal", ["max", "min"])
@pytest.mark.parametrize("draw", ["one run in five three times slow", "bimodal", "stragglers"])
def test_a_larger_regression_is_never_found_less_often(draw: str, goal: str) -> None:
    """All sizes have the same draws; 5+5 runs have so few exchanges that a few points are lost."""
    noise = NOISES[draw]({"bimodal": 0.08, "stragglers": 0.03}.get(draw, 0.02))
    for runs, least in ((4, 0.3), (5, 0.45), (7, 0.6)):
        found = [
            power(noise, size, runs, goal, 100, f"{draw} {runs}")
            for size in (-0.08, -0.15, -0.3, -0.6)
        ]
        assert all(later >= earlier - 0.06 for earlier, later in pairwise(found)), (runs, found)
        assert found[0] >= least
