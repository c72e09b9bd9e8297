"""Steps in series: planted ones are found, and none where none is, under noises of many kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest

from benchmarks.history import NOISES, STEPS, judged, planted
from rsctl.bench.steps import SHORTEST, find_steps, limited_to_level, middle, running_median

NORMAL = NOISES["normal 3 %"]


def positions(values: Sequence[float]) -> list[int]:
    return [step.position for step in find_steps(values)]


@pytest.mark.parametrize("noise", NOISES)
def test_none_where_none_is(noise: str) -> None:
    random = Random(11)
    found = [judged(planted(NOISES[noise], (), random, 3), ())[1] for _ in range(12)]
    assert sum(map(bool, found)) <= 1


@pytest.mark.parametrize("steps", ["-10 % at 30", "-10 % at 50", "-10 % at 20, back at 40"])
@pytest.mark.parametrize(
    "noise",
    [
        "normal 3 %",
        "lognormal 5 %",
        "1 run in 5 three times slow, 2 %",
        "Student's t with 2 degrees, 2 %",
        "integers with ties",
        "zero variance",
    ],
)
def test_planted_steps(noise: str, steps: str) -> None:
    random, where = Random(5), STEPS[steps]
    hits = [judged(planted(NOISES[noise], where, random, 3), where)[0] for _ in range(6)]
    assert sum(hits) >= 0.8 * 6 * len(where)


@pytest.mark.parametrize(
    "noise", ["AR(1) 0.8, 3 %, run by run", "bimodal (8 % apart), commit by commit"]
)
def test_a_step_in_noise_that_is_not_independent(noise: str) -> None:
    random, where = Random(6), STEPS["-10 % at 30"]
    hits = [judged(planted(NOISES[noise], where, random, 3), where)[0] for _ in range(8)]
    assert sum(hits) >= 5


def test_what_a_step_says() -> None:
    values = planted(NORMAL, STEPS["-10 % at 30"], Random(3), 3)
    [step] = find_steps(values)
    assert step.position == 30
    assert step.first <= 30 <= step.last
    assert step.size == pytest.approx(-0.1, abs=0.02)
    assert step.before == middle(values[:30])
    assert step.after == middle(values[30:])
    assert step.confidence > 0.999


def test_units_and_order_do_not_matter() -> None:
    values = planted(NORMAL, STEPS["-10 % at 20, back at 40"], Random(3), 3)
    assert positions(values) == positions([1e-9 * v for v in values])
    assert positions(values) == positions([1e9 * v for v in values])
    backwards = [len(values) - at for at in positions(values[::-1])]
    assert sorted(backwards) == positions(values)


def test_steps_of_metrics_without_noise() -> None:
    assert positions([5.0] * 30 + [6.0] * 30) == [30]
    assert positions([5.0] * 30 + [5.001] * 30) == [30]
    assert positions([0.0] * 30 + [7.0] * 30) == [30]
    assert positions([-5.0] * 20 + [-6.0] * 20) == [20]
    [step] = find_steps([0.0] * 30 + [7.0] * 30)
    assert step.size is None
    [step] = find_steps([-5.0] * 20 + [-6.0] * 20)
    assert step.size == pytest.approx(-0.2)


def test_rounding_is_not_a_step() -> None:
    assert positions([0.1 + 0.2] * 30 + [0.3] * 30) == []


@pytest.mark.parametrize("where", [0, 1, 25, 58, 59])
def test_one_commit_is_not_a_step(where: int) -> None:
    values = [100.0] * 60
    values[where] = 300.0
    assert positions(values) == []


def test_two_commits_at_the_end_may_be_outliers() -> None:
    values = planted(NORMAL, (), Random(1), 3)
    assert positions([*values, 0.5, 0.5]) == []
    assert positions([*values, *[0.5] * 6]) == [60]


def test_too_few_values() -> None:
    assert find_steps([]) == []
    assert find_steps([1.0] * (SHORTEST // 2 - 1) + [2.0] * (SHORTEST // 2)) == []


@pytest.mark.parametrize("size", [1e308, 1.7e308, 5e-324, -1e308])
def test_the_largest_and_smallest_numbers(size: float) -> None:
    steps = find_steps([size] * 15 + [size / 2] * 15)
    assert all(math.isfinite(step.before) and math.isfinite(step.after) for step in steps)
    assert find_steps([size, -size] * 20) == []


def test_many_values_are_searched_in_time() -> None:
    random = Random(1)
    values = [random.gauss(1.0 if index < 400 else 0.9, 0.02) for index in range(600)]
    found = positions(values)
    assert any(abs(at - 400) <= 2 for at in found)


def test_the_running_median_has_as_many_values_at_the_ends() -> None:
    values = [float(n) for n in range(20)]
    found = running_median(values)
    assert found[0] == found[7] == 7.0
    assert found[19] == found[12] == 12.0
    assert running_median([1.0, 9.0, 2.0]) == [2.0, 2.0, 2.0]


def test_limited_values_keep_what_is_usual() -> None:
    values = [1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.35, 50.0]
    found = limited_to_level(values, [1.0] * 11)
    assert found[:9] == values[:9]
    assert 1.2 < found[9] < 1.3
    assert found[10] == 1.0  # far away and alone
    short_level = [1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1, 0.9, *[50.0] * 5]
    assert min(limited_to_level(short_level, [1.0] * 17)[12:]) > 1.1
