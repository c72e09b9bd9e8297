"""What repetitions can detect and what they cost, as it is shown before they run."""

from __future__ import annotations

import re

import pytest

from rsctl.bench.forecast import Forecast, forecast, format_cost
from rsctl.bench.results import Results, Series
from rsctl.bench.verdict import Floor

FIVE = Floor(0.05, True)
NOISY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1]
ONE = [{}]
TWO = [{"workers.count": 1}, {"workers.count": 2}]


def baseline(*series: Series) -> Results:
    return Results(label="b", kind="bench", series=list(series))


def speed(values: list[float | None], cell: dict[str, object] | None = None) -> Series:
    return Series(name="speed", cell=cell or {}, values=values)


def words(values: list[float | None], repeat: int, floor: Floor = FIVE, confirm: int = 0) -> str:
    [found] = forecast(baseline(speed(values)), {"speed": floor}, ONE, repeat, confirm)
    return found.in_words()


def test_more_runs_find_less_and_let_less_pass() -> None:
    found = [
        forecast(baseline(speed(list(NOISY))), {"speed": FIVE}, ONE, repeat)[0]
        for repeat in (4, 8, 16)
    ]
    assert [each.runs for each in found] == [(8, 4), (8, 8), (8, 16)]
    noise = found[0].noise
    assert noise is not None
    assert 0.003 < noise < 0.01
    assert [each.noise for each in found] == [noise] * 3
    for better, worse in zip(found[1:], found, strict=False):
        assert 0.05 < (better.detectable or 0) < (worse.detectable or 0)
        assert 0 < (better.passes or 0) < (worse.passes or 0)


def test_what_runs_find_in_words() -> None:
    text = words(list(NOISY), 8)
    assert text.startswith("speed: 8+8 runs per cell, noise 0.6")
    assert text.endswith(" % in 80 % of cases")
    tight = words(list(NOISY), 8, Floor(0.001, True))
    smaller = "; 0.1 % is smaller than this noise requires: increase the number of runs, or allow "
    assert smaller in tight


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_runs_that_can_show_nothing(repeat: int) -> None:
    """Of 3+3 runs the least p is 1/20; of 2+3 it is 1/10."""
    values: list[float | None] = [1.0, 1.1, 1.2]
    text = words(values, repeat)
    nothing = f"speed: 3+{repeat} runs per cell cannot show any regression: --repeat 3 could"
    assert text.startswith(nothing) is (repeat < 3)


def test_runs_to_confirm_count_in() -> None:
    alone = words([1.0, 1.1, 1.2], 1)
    least = int(alone.rpartition("--repeat ")[2].split()[0])
    text = words([1.0, 1.1, 1.2], 1, confirm=1)
    assert "1 to confirm cannot show any regression: --repeat" in text
    assert int(text.rpartition("--repeat ")[2].split()[0]) >= least - 1


def test_what_is_not_known_is_said() -> None:
    unknown = "the noise is unknown, and so is the smallest regression that they detect"
    for repeat in (1, 8):  # no number of runs of the candidate helps
        assert words([None] * 8, repeat) == "speed: the baseline has no data for it"
    assert words([100.0], 19).endswith(f"5 % allowed; {unknown}")


def test_runs_without_noise_detect_all_that_is_not_allowed() -> None:
    """As integers that a program counts: their noise is known, and zero."""
    assert words([100.0] * 8, 8) == (
        "speed: 8+8 runs per cell, noise 0 %: they detect a regression of 5 % in 80 % of cases"
    )


def test_an_amount_is_in_the_unit_of_the_metric() -> None:
    text = words([-2.0, -1.0, 0.0, 1.0, 2.0], 5, Floor(0.25, False))
    found = re.fullmatch(
        r"speed: 5\+5 runs per cell, noise 1\.6: they detect a regression of ([\d.]+) in 80 % of "
        r"cases; 0\.25 is smaller than this noise requires: increase the number of runs, or allow "
        r"([\d.]+)",
        text,
    )
    assert found
    assert 2 < float(found[1]) < 4 > float(found[2]) > 2


def test_several_cells_share_the_errors_that_are_allowed() -> None:
    cells = baseline(*(speed(list(NOISY), cell) for cell in TWO))
    [two] = forecast(cells, {"speed": FIVE}, TWO, 3)
    [one] = forecast(baseline(speed(list(NOISY))), {"speed": FIVE}, ONE, 3)
    assert two.cells == 2
    assert (two.passes or 0) > (one.passes or 0)
    assert (
        "cannot show any regression of a single cell"
        in Forecast("speed", (3, 1), FIVE, None, None, None, 4, 0, 2).in_words()
    )
    [fewest] = forecast(
        baseline(speed(list(NOISY), TWO[0]), speed([1.0, 2.0], TWO[1])), {"speed": FIVE}, TWO, 3
    )
    assert fewest.runs == (2, 3)


def test_what_the_runs_take_by_those_of_the_baseline() -> None:
    def of(name: str, *values: float) -> list[Series]:
        return [
            Series(name=name, cell=cell, values=[v]) for cell, v in zip(TWO, values, strict=False)
        ]

    whole = baseline(*of("run.time", 60.0, 120.0), *of("run.cost", 1.5, 2.5))
    assert format_cost(whole, TWO, 3) == ("6 runs, about 9:00 of sequential work, about 12 USD")
    assert format_cost(baseline(*of("run.cost", 1.5, 2.5)), TWO, 1) == "2 runs, about 4 USD"
    unknown = "the cost is unknown before the first run"
    assert format_cost(baseline(*of("run.time", 60.0)), TWO, 2) == f"4 runs, {unknown}"
    assert format_cost(baseline(), ONE, 2) == f"2 runs, {unknown}"
    means = baseline(Series(name="run.time", values=[60.0, None, 120.0]))
    assert format_cost(means, ONE, 2).startswith("2 runs, about 3:00")
