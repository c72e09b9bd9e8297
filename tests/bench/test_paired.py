"""Statistics of pairs, against counting by hand of all exchanges, and against simulated noise."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product
from random import Random
from statistics import fmean, median, pvariance

import pytest

from rsctl.bench.exchanges import p_within
from rsctl.bench.paired import (
    PairedCell,
    block_numbers,
    combine_pairs,
    effect,
    for_test,
    interval,
    smallest_p,
    smallest_p_of,
    spread,
)
from rsctl.bench.paired_gate import weigh_pairs
from rsctl.bench.schedule import paired_slots
from rsctl.bench.scores import all_scores
from rsctl.bench.sides import Sides
from rsctl.bench.verdict import Floor


def cell(baseline: list[float | None], candidate: list[float | None]) -> PairedCell:
    return PairedCell(baseline, candidate, block_numbers(len(baseline)))


def brute_force(blocks: list[Sides]) -> float:
    """The p of the test, by its definition and all exchanges within blocks."""
    before = [value for block in blocks for value in block.baseline]
    after = [value for block in blocks for value in block.candidate]
    count = len(before)
    runs, at = [], 0  # by block: which runs it has, the candidate's last
    for block in blocks:
        mine = range(at, at + len(block.baseline))
        runs.append([*mine, *(count + index for index in mine)])
        at += len(block.baseline)
    ways = [list(combinations(block, len(block) // 2)) for block in runs]
    found = [-math.inf] * math.prod(map(len, ways))
    for values, deduction in all_scores(Sides(before, after)):
        sums = [[sum(values[i] for i in chosen) for chosen in block] for block in ways]
        error = math.sqrt(sum(pvariance(block) for block in sums))
        middle = sum(map(fmean, sums))
        if error > 1e-12:
            by_exchange = [(middle - sum(parts)) / error - deduction for parts in product(*sums)]
            found = list(map(max, found, by_exchange))
    return sum(each >= found[-1] - 1e-9 for each in found) / len(found)


@pytest.mark.parametrize("repetitions", range(1, 8))
def test_p_is_the_part_of_all_exchanges(repetitions: int) -> None:
    random = Random(repetitions)
    for draw in range(12):
        scale = 3 if draw % 4 == 0 else 1  # with an outlier, and with ties
        before = [round(random.gauss(100, 3), draw % 3) for _ in range(repetitions)]
        after = [round(random.gauss(98, 3), draw % 3) for _ in range(repetitions)]
        after[0] /= scale
        blocks = for_test([cell(list(before), list(after))], is_relative=True)
        assert p_within(blocks) == pytest.approx(brute_force(blocks), abs=1e-12)
        assert p_within(blocks) >= smallest_p(blocks) == pytest.approx(smallest_p_of(repetitions))


def test_blocks_of_two_repetitions_and_an_odd_last_one() -> None:
    assert [block_numbers(n) for n in (0, 1, 2, 3, 4, 5)] == [
        [],
        [0],
        [0, 0],
        [0, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 1, 1, 1],
    ]
    assert [round(1 / smallest_p_of(n)) for n in range(1, 8)] == [2, 6, 20, 36, 120, 216, 720]


def test_each_two_repetitions_are_mirrored() -> None:
    order = "".join("AB"[side] for side, _ in paired_slots(2, 8))
    assert order == "ABBABAABBAABABBA"
    cells = "".join("aAbB"[number] for number, _ in paired_slots(4, 2))
    assert cells == "aAbBBbAa"


def test_effect_and_interval() -> None:
    one = cell([100, 102, 98, 100], [90, 92, 88, 90])
    differences = [
        (after - before) / 100
        for b, c in (((100, 102), (90, 92)), ((98, 100), (88, 90)))
        for after in c
        for before in b
    ]
    assert effect([one]) == pytest.approx(median(differences)) == pytest.approx(-0.10)
    assert effect([one], is_relative=False) == pytest.approx(-10)
    # Of 36 exchanges one has U = 0: its part is 2.8 %, and with the next two it is above 5 %.
    assert interval([one]) == pytest.approx((-0.12, -0.08))
    assert interval([cell([100, 101], [90, 91])]) is None
    assert effect([cell([0, 0], [1, 1])]) is None
    assert effect([cell([None], [1])]) is None


def test_what_drifts_does_not_count_as_noise() -> None:
    steady = cell([100, 101, 100, 101], [100, 101, 100, 101])
    drifting = cell([100, 101, 200, 201], [100, 101, 200, 201])
    assert spread([steady], False) == pytest.approx(math.sqrt(0.5))
    assert spread([drifting], False) == pytest.approx(math.sqrt(0.5))


def test_a_repetition_without_both_values_does_not_count() -> None:
    one = PairedCell([100, 100, 100, None], [90, None, 90, 90], [0, 0, 1, 1])
    assert combine_pairs([one], None) == [([100], [90]), ([100], [90])]
    assert p_within(for_test([one], True)) == 0.25
    assert p_within([]) == 1.0


def test_cells_of_a_repetition_are_exchanged_together() -> None:
    one, other = cell([100, 102, 98], [90, 92, 88]), cell([10, 10.2, None], [9.0, 9.2, 9.4])
    [(before, after)] = combine_pairs([one, other], lambda sides: sides.baseline[0])
    assert before == pytest.approx([1.0, 1.02])
    assert after == pytest.approx([0.9, 0.92])
    assert weigh_pairs([one, other], Floor(0.05)).p == pytest.approx(1 / 6)


def test_blocks_are_apart_where_their_names_differ() -> None:
    one = PairedCell([100, 100], [90, 90], [(0, "EPYC"), (0, "Xeon")])
    assert p_within(for_test([one], True)) == 0.25


def test_huge_values() -> None:
    one = cell([1e308, 1.01e308, 1e308], [0.9e308, 0.91e308, 0.9e308])
    found = weigh_pairs([one], Floor(0.05))
    assert found.effect == pytest.approx(-0.10, abs=0.01)
    assert found.p == pytest.approx(0.05)


def test_many_repetitions_are_drawn() -> None:
    random = Random(5)
    before = [random.gauss(100, 3) for _ in range(40)]
    found = p_within(for_test([cell(list(before), [0.9 * v for v in before])], True))
    assert found == pytest.approx(1 / 20_001)


def _false_regressed(noise: str, repetitions: int, trials: int, floor: float) -> float:
    """How often an unchanged program is significantly worse than a floor, by runs in turn."""
    counts: Counter[bool] = Counter()
    random = Random(f"{noise} {repetitions}")
    for _ in range(trials):
        level, values = random.gauss(0, 0.03), []
        for number in range(2 * repetitions):
            one = {"drift": -0.005 * number, "AR(1)": level, "normal": 0.0}[noise]
            values.append(100 * (1 + one + (0 if noise == "AR(1)" else random.gauss(0, 0.01))))
            level = 0.8 * level + random.gauss(0, 0.018)
        sides: list[list[float | None]] = [[None] * repetitions, [None] * repetitions]
        for value, (side, repetition) in zip(values, paired_slots(2, repetitions), strict=True):
            sides[side][repetition] = value
        found = weigh_pairs([cell(*sides)], Floor(floor))
        counts[found.is_beyond(Floor(floor)) and found.p <= 0.05] += 1
    return counts[True] / trials


@pytest.mark.parametrize("noise", ["normal", "drift", "AR(1)"])
@pytest.mark.parametrize("repetitions", [5, 6])
def test_an_unchanged_program_rarely_fails_whatever_drifts(noise: str, repetitions: int) -> None:
    assert _false_regressed(noise, repetitions, 300, floor=0.0) <= 0.085  # 5 %, and 3 errors of it
