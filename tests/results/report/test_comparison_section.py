"""What a report says of several sides, by the text of its section."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape

import pytest
from msgspec.structs import replace

from rsctl.bench.results import Results, Series
from rsctl.bench.verdict import Floor
from rsctl.results.report.charts import Bar, Chart, IntervalChart
from rsctl.results.report.comparison_section import add_comparison
from rsctl.results.report.html import NONE
from rsctl.results.report.page import Page
from tests.bench.test_compare import ONE, TWO, side, speed

HEAD = ["metric", "cell"]
LAST = ["effect", "90 % interval", "p"]


def shown(
    sides: Sequence[Results], floors: Mapping[str, Floor] | None = None
) -> tuple[str, list[str], Sequence[Chart]]:
    """The section, the texts of its elements after the introduction, and its charts."""
    page = Page()
    add_comparison(page, sides, floors or {})
    [section] = page.sections
    plain = re.sub(r"<figure.*</figure>", "", section, flags=re.DOTALL)
    texts = [unescape(text) for text in re.split(r"<[^>]+>", plain) if text.strip()]
    assert texts[0] == "Comparison"
    assert texts[1].endswith("and a two-sided exact permutation test.")
    return section, texts[2:], page.charts


def test_two_sides_with_cells_and_a_verdict() -> None:
    before = side("a", speed([100.0] * 5, ONE), speed([200.0] * 5, TWO), shown="2.8")
    after = side("b", speed([80.0] * 5, ONE), speed([200.0] * 5, TWO), shown="2.9")
    section, texts, charts = shown([before, after], {"speed": Floor(0.05, True)})
    assert texts == [
        *("Verdict by the job file's gate, without confirmation runs", "verdict", "regressed"),
        *("check", "verdict", "allowed", "p, adjusted", "reason"),
        *("speed (workers.count=1)", "regressed", "5 %", "0.0088"),
        *("speed (workers.count=2)", "pass", "5 %", "1"),
        *("speed (all cells)", "regressed", "5 %", "0.04"),
        *(*HEAD, "bench a, median", "bench b, median", *LAST),
        *("speed", "workers.count=1", "100 /s (n=5)", "80 /s (n=5)", "-20 %", "-20 … -20 %"),
        "0.0079",
        *("speed", "workers.count=2", "200 /s (n=5)", "200 /s (n=5)", "+0 %", "+0 … +0 %", "1"),
        *("speed", "all cells", NONE, NONE, "-10 %", "-10 … -10 %", "0.0079"),
        "They differ in 1 thing besides the measurements:",
        *("first", "last", "torch", "2.8", "2.9"),
    ]
    assert charts == [
        IntervalChart(
            "Effect on speed",
            "% of the first side's median, 90 % interval",
            [
                *(
                    Bar(where, pytest.approx(size), pytest.approx(size), pytest.approx(size))
                    for where, size in (
                        ("workers.count=1", -20),
                        ("workers.count=2", 0),
                        ("all cells", -10),
                    )
                )
            ],
            "More is better.",
        )
    ]
    assert "<summary>" not in section.partition("<figure")[0]


def test_what_is_folded_away() -> None:
    """Phases of the runs, and what a side lacks."""
    series = [Series(name=f"run.{name}", goal="min", values=[5.0, 5.0]) for name in ("time", "x")]
    series.append(Series(name="loss", values=[None], reasons=["no"]))
    section, texts, _ = shown([side("a", *series), side("b", *series)])
    medians = ("bench a, median", "bench b, median")
    assert texts == [
        *("metric", *medians, "effect", "p", "run.time", "5 (n=2)", "5 (n=2)", "+0 %", "1"),
        "1 row without data on one of the compared sides",
        *("metric", "remark", "loss", "no data in a, b: no"),
        "Phases of the runs",
        *("metric", *medians, "effect", "p", "run.x", "5 (n=2)", "5 (n=2)", "+0 %", "1"),
    ]
    assert section.count("<summary>") == 3  # with the data of a chart


def test_a_verdict_of_sides_that_cannot_be_compared() -> None:
    sides = [side("a", speed([1.0] * 2)), side("b", speed([1.0] * 2), fixed="8 x n1")]
    _, texts, _ = shown(sides, {"speed": Floor(5.0, False)})
    assert texts[1:13] == [
        *("verdict", "no-data"),
        "Measured under other conditions, and therefore not comparable:",
        "workers: 4 x n1 -> 8 x n1",
        *("check", "verdict", "allowed", "p, adjusted", "reason"),
        *("speed", "no-data", "5"),
    ]


@pytest.mark.parametrize(("count", "columns"), [(6, [0, 1, 2, 3, 4, 5]), (7, [0, 6])])
def test_of_many_sides_the_first_and_the_last_have_columns(count: int, columns: list[int]) -> None:
    _, texts, _ = shown([side(f"s{n}", speed([100.0 + n] * 2)) for n in range(count)])
    head = [f"bench s{n}, median" for n in columns]
    assert texts[: len(head) + 3] == ["metric", *head, "effect", "p"]
    medians = [f"{100 + n} /s (n=2)" for n in columns]
    assert texts[len(head) + 3 :] == ["speed", *medians, f"+{count - 1} %", "0.33"]


@pytest.mark.parametrize(("things", "listed", "is_folded"), [(10, 10, 0), (11, 11, 1), (61, 60, 1)])
def test_many_differences_are_folded(things: int, listed: int, is_folded: int) -> None:
    sides = [side(name, speed([1.0] * 2)) for name in ("a", "b")]
    shown_by_last = {f"env.x{n}": str(n) for n in range(things)}
    fingerprint = replace(sides[1].fingerprint, shown=sides[1].fingerprint.shown | shown_by_last)
    section, texts, _ = shown([sides[0], replace(sides[1], fingerprint=fingerprint)])
    title = f"They differ in {things} things besides the measurements"
    assert (title if is_folded else f"{title}:") in texts
    assert [text for text in texts if text.startswith("env.x")] == [
        f"env.x{n}" for n in range(listed)
    ]
    assert f"<summary>{title}</summary>" in section or not is_folded
