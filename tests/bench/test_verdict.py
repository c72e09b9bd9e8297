"""The rule of a gate at its edges: shares of alpha, floors and confirmations."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.bench.paired import PairedCell, block_numbers
from rsctl.bench.paired_gate import weigh_pairs
from rsctl.bench.sides import Sides
from rsctl.bench.stats import CellSides
from rsctl.bench.verdict import (
    ALPHA,
    NO_EVIDENCE,
    Evidence,
    Floor,
    Verdict,
    across_part,
    adjusted,
    decide,
    decide_confirmed,
    oriented,
    shares,
    weigh,
    weigh_strata,
)

FIVE = Floor(0.05)
WORSE = Evidence(-0.06, 0.01, 1.0)
P = st.lists(st.floats(1e-6, 1), min_size=1, max_size=6)


@given(P, P, st.sampled_from([1 / 252, 1 / 20, 1e-9]))
def test_adjusted_values_are_probabilities_no_smaller_than_before(
    cells: list[float], across: list[float], smallest: float
) -> None:
    of_cells, of_all = adjusted(cells, across, smallest)
    for before, after in ((cells, of_cells), (across, of_all)):
        assert len(before) == len(after)
        for raw, value in zip(before, after, strict=True):
            assert raw - 1e-12 <= value <= 1.0
    alone, nothing = adjusted(cells, [], smallest)
    assert nothing == []
    assert alone[0] <= of_cells[0] + 1e-12


@given(st.integers(1, 50), st.integers(0, 5), st.floats(1e-9, 0.2))
def test_both_kinds_of_checks_share_alpha(cells: int, across: int, smallest: float) -> None:
    part = across_part(cells, across, smallest)
    assert 0.0 <= part <= 1.0 + 1e-6 or across * smallest > ALPHA
    of_cell, of_all = shares(cells, across, smallest)
    assert cells * of_cell + across * of_all <= ALPHA * (1 + 1e-6)
    if not across:
        assert (part, of_cell) == (0.0, ALPHA / cells)
    elif cells * smallest > ALPHA:
        assert part == 1.0  # the single cells can show nothing
    elif part > 0:
        assert of_all >= smallest
        assert of_cell >= smallest


@pytest.mark.parametrize(
    ("cells", "smallest", "part"),
    [(2, 0.001, 0.1), (2, 0.01, 0.2), (2, 0.017, 0.0), (2, 0.025, 0.0), (2, 0.026, 1.0)],
)
def test_with_few_repetitions_one_kind_has_all_of_alpha(
    cells: int, smallest: float, part: float
) -> None:
    assert across_part(cells, 1, smallest) == pytest.approx(part, abs=1e-6)


@pytest.mark.parametrize(
    ("evidence", "p", "verdict"),
    [
        (WORSE, ALPHA, Verdict.REGRESSED),
        (WORSE, ALPHA + 1e-9, Verdict.INCONCLUSIVE),
        (WORSE._replace(effect=-0.05), 0.001, Verdict.INCONCLUSIVE),  # the floor is allowed
        (WORSE._replace(effect=None), 0.001, Verdict.INCONCLUSIVE),
        (Evidence(0.0, 1.0, ALPHA), 1.0, Verdict.PASS),
        (Evidence(0.0, 1.0, ALPHA + 1e-9), 1.0, Verdict.INCONCLUSIVE),
        (Evidence(None, 1.0, 0.0), 1.0, Verdict.INCONCLUSIVE),
        (Evidence(-0.06, 1.0, 0.001), 1.0, Verdict.INCONCLUSIVE),  # nothing beyond it passes
        (NO_EVIDENCE, 1.0, Verdict.INCONCLUSIVE),
    ],
)
def test_a_verdict_at_its_edges(evidence: Evidence, p: float, verdict: Verdict) -> None:
    assert decide(evidence, p, FIVE) is verdict


@pytest.mark.parametrize(
    ("fresh", "pooled", "p", "verdict"),
    [
        (-0.06, -0.06, 0.01, Verdict.REGRESSED),
        (-0.06, -0.06, 0.0101, Verdict.INCONCLUSIVE),
        (-0.05, -0.06, 0.001, Verdict.INCONCLUSIVE),
        (-0.06, -0.05, 0.001, Verdict.INCONCLUSIVE),
        (None, -0.06, 0.001, Verdict.INCONCLUSIVE),
    ],
)
def test_a_confirmed_regression_shows_in_fresh_runs_and_in_all(
    fresh: float | None, pooled: float, p: float, verdict: Verdict
) -> None:
    found = decide_confirmed(Evidence(fresh, 0, 1), Evidence(pooled, 0, 1), p, FIVE)
    assert found is verdict
    passes = decide_confirmed(Evidence(fresh, 0, 1), Evidence(-0.05, 0, 0.01), 1.0, FIVE)
    assert passes is Verdict.PASS


def test_floors_in_words_and_values_with_a_sign() -> None:
    assert (str(Floor(0.025)), str(Floor(0.2, False))) == ("2.5 %", "0.2")
    assert oriented([1.0, None, -2.0], "min") == [-1.0, None, 2.0]
    assert oriented([1.0, None], "max") == [1.0, None]


@pytest.mark.parametrize("is_relative", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_program_that_is_no_worse_than_the_floor_is_not_beyond_it(
    is_relative: bool, sign: int
) -> None:
    """Also where the values are negative, as those of a metric whose goal is `min`."""
    before: list[float | None] = [sign * value for value in (100.0, 101.0, 99.0, 100.5, 99.5)]
    floor = Floor(0.05) if is_relative else Floor(5.0, False)

    def evidence(loss: float) -> Evidence:
        return weigh([CellSides(before, [(v or 0) - loss for v in before])], floor)

    assert evidence(0.0).p_excluded == pytest.approx(1 / 252)
    assert evidence(0.0).p > 0.4
    assert evidence(10.0).p == pytest.approx(1 / 252)
    assert evidence(10.0).is_beyond(floor)
    assert evidence(10.0).p_excluded == pytest.approx(1.0)
    assert not evidence(4.0).is_beyond(floor)
    assert evidence(4.0).p < 0.01


@pytest.mark.parametrize("goal", ["max", "min"])
@pytest.mark.parametrize("size", [1.5, 7.0, 20.0, 0.3, 1e300, -7.0])
def test_a_regression_of_the_floor_itself_is_allowed(goal: str, size: float) -> None:
    """Without noise, rounding must not decide."""
    worse = 0.95 if (goal == "max") is (size > 0) else 1.05
    after = float(f"{size * worse:.6g}")  # as a program prints it
    cell = CellSides(*(oriented([value] * 5, goal) for value in (size, after)))
    evidence = weigh([cell], Floor(0.05))
    assert decide(evidence, evidence.p, Floor(0.05)) is Verdict.PASS


@pytest.mark.parametrize("floor", [Floor(0.0), Floor(0.0, False)])
def test_values_without_noise_pass_if_no_regression_is_allowed(floor: Floor) -> None:
    """As a loss of a fixed seed, or a number of bytes: more runs could not decide more."""
    same, enough, few = [2.5] * 5, [2.5] * 4, [2.5] * 2

    def verdict(evidence: Evidence) -> Verdict:
        return decide(evidence, evidence.p, floor)

    assert verdict(weigh([CellSides(same, same)], floor)) is Verdict.PASS
    assert verdict(weigh([CellSides(few, few)], floor)) is Verdict.INCONCLUSIVE
    assert verdict(weigh([CellSides(same, [*enough, 2.4])], floor)) is Verdict.INCONCLUSIVE
    assert verdict(weigh([CellSides(same, [2.4] * 5)], floor)) is Verdict.REGRESSED
    assert verdict(weigh_pairs([PairedCell(same, same, block_numbers(5))], floor)) is Verdict.PASS
    kinds = [Sides(few, few), Sides([9.0] * 3, [9.0] * 3)]
    assert verdict(weigh_strata(kinds, floor)) is Verdict.PASS


FAST = [100.0, 101.0, 99.0, 100.5, 99.5]
TWO_SLOW = [100.2, 33.0, 101.1, 34.0, 99.3]
ONE_SLOW = [100.2, 33.0, 101.1, 100.1, 99.3]


@pytest.mark.parametrize("goal", ["max", "min"])
@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (FAST, TWO_SLOW, Verdict.INCONCLUSIVE),
        (FAST, [100.0, 90.0, 101.0, 90.5, 99.0], Verdict.INCONCLUSIVE),
        (FAST, [33.0, 34.0, 101.0, 35.0, 100.0], Verdict.INCONCLUSIVE),
        (FAST * 2, [33.0, 34.0, 35.0, 33.5, 100.2, 101.1, 99.3, 100.1, 100.4, 99.8], None),
        (FAST * 2, [33.0, 34.0, 100.0, 100.6, 100.2, 101.1, 99.3, 100.1, 100.4, 99.8], None),
        (FAST, ONE_SLOW, Verdict.PASS),
        (ONE_SLOW, TWO_SLOW, Verdict.PASS),  # at most one more than the baseline has
        (TWO_SLOW, TWO_SLOW, Verdict.INCONCLUSIVE),  # three fast runs of each side are too few
        (TWO_SLOW * 2, TWO_SLOW * 2, Verdict.PASS),
        (FAST, FAST, Verdict.PASS),
    ],
)
def test_several_runs_that_are_far_worse_never_pass(
    before: list[float], after: list[float], verdict: Verdict | None, goal: str
) -> None:
    if goal == "min":
        before, after = ([1 / value for value in side] for side in (before, after))
    cell = CellSides(*(oriented(side, goal) for side in (before, after)))
    evidence = weigh([cell], FIVE)
    assert decide(evidence, evidence.p, FIVE) is (verdict or Verdict.INCONCLUSIVE)


def test_several_pairs_and_machines_that_are_far_worse_never_pass() -> None:
    slow = [*TWO_SLOW, *TWO_SLOW]
    for after, verdict in ((slow, Verdict.INCONCLUSIVE), (FAST * 2, Verdict.PASS)):
        pairs = weigh_pairs([PairedCell(FAST * 2, after, block_numbers(10))], FIVE)
        assert decide(pairs, pairs.p, FIVE) is verdict
        strata = weigh_strata([Sides(FAST, after[:5]), Sides(FAST, after[5:])], FIVE)
        assert decide(strata, strata.p, FIVE) is verdict


@pytest.mark.parametrize(("part", "most"), [(0.3, 0.62), (0.5, 0.25)])
def test_a_candidate_that_is_often_slow_seldom_passes(part: float, most: float) -> None:
    """At half the speed in that part of the runs: by its binomial distribution, at most one is slow
    in 53 % and in 19 % of cases.
    """
    random, passed = Random(1), 0
    for _ in range(200):
        before = [random.gauss(1, 0.01) for _ in range(5)]
        after = [random.gauss(1, 0.01) / (2 if random.random() < part else 1) for _ in range(5)]
        evidence = weigh([CellSides(before, after)], FIVE)
        passed += decide(evidence, evidence.p, FIVE) is Verdict.PASS
    assert passed / 200 <= most
