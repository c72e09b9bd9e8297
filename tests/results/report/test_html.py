"""Elements of a page, whole: what is escaped, cut, broken into lines and left out."""

from __future__ import annotations

import pytest

from rsctl.bench.samples import Sample
from rsctl.results.report.documents import text_document
from rsctl.results.report.html import (
    Markup,
    details,
    element,
    facts,
    items,
    plain,
    preformatted,
    section,
    table,
)
from rsctl.results.report.result_section import best_of, card, cost_text, sample_text, with_unit
from rsctl.runs.stream.events import MetricEvent
from tests.cli.conftest import at


@pytest.mark.parametrize(
    ("text", "longest", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abc … (4 characters)"),
        ("x" * 1000, 1000, "x" * 1000),
        ("x" * 1001, 1000, "x" * 1000 + " … (1,001 characters)"),
        (17, 3, "17"),
        ("a\ufdd0\ufdef\uffffb", 9, "a\ufffd\ufffd\ufffdb"),
        # what is cut is cleaned first: control characters take no room
        ("\x1b[1m" * 2 + "abcd", 3, "abc … (12 characters)"),
    ],
)
def test_a_line_of_any_text(text: object, longest: int, shown: str) -> None:
    assert plain(text, longest) == shown


def test_elements_escape_all_that_is_not_markup() -> None:
    made = element(
        "div", "<b>", None, Markup("<i>x</i>"), class_="a&\"'", aria_label="l", title=None
    )
    assert made == ('<div class="a&amp;&quot;&#x27;" aria-label="l">&lt;b&gt;<i>x</i></div>')
    assert element("br") + element("meta", charset="utf-8") == '<br><meta charset="utf-8">'
    assert section("<a>", "b") == "<section><h3>&lt;a&gt;</h3>b</section>"
    assert section("a", level=4) == "<section><h4>a</h4></section>"
    assert details("s", "b") == "<details><summary>s</summary>b</details>"
    assert items(["a", None]) == "<ul><li>a</li><li></li></ul>"


def test_a_table_marks_long_cells_and_empty_ones() -> None:
    long, short = "w" * 49, "w" * 48
    assert f'<th scope="col" class="long">{long}</th>' in table((long,), [(1,)])
    assert table(("a", "<b>"), [(short, None), (long, short), (1, long), ("", Markup(long))]) == (
        '<div class="scroll" tabindex="0"><table class="data">'
        '<thead><tr><th scope="col">a</th><th scope="col">&lt;b&gt;</th></tr></thead><tbody>'
        f'<tr><th scope="row">{short}</th><td>\u2013</td></tr>'
        f'<tr><th scope="row" class="long">{long}</th><td>{short}</td></tr>'
        f'<tr><th scope="row">1</th><td class="long">{long}</td></tr>'
        f'<tr><th scope="row"></th><td>{long}</td></tr></tbody></table></div>'
    )
    assert facts([("a", None), ("b", 0)]) == (
        '<div class="scroll" tabindex="0"><table class="facts"><tbody>'
        '<tr><th scope="row">b</th><td>0</td></tr></tbody></table></div>'
    )


def test_lines_of_a_log_and_of_a_document_are_cut_and_that_is_stated() -> None:
    assert preformatted(["a<", "x" * 400, "x" * 401]) == (
        f'<pre tabindex="0">a&lt;\n{"x" * 400}\n{"x" * 400} … (401 characters)</pre>'
    )
    lines = ["x"] * 399 + ["y" * 2000]
    assert text_document("\n".join(lines)).endswith(f"x\n{'y' * 2000}</pre>")
    assert text_document("\n".join([*lines, "z"])).endswith(f"{'y' * 2000}\n… 1 more line</pre>")
    assert text_document("y" * 2001).endswith(" … (2,001 characters)</pre>")


def test_a_result_with_its_unit_and_remark() -> None:
    faint = '<p class="faint">'
    assert card("loss", with_unit(12.5, "<s>"), "why") == (
        f'<div class="card">{faint}loss</p><p class="value">12.5'
        f'<span class="unit"> &lt;s&gt;</span></p>{faint}why</p></div>'
    )
    assert with_unit(12.5, None) == with_unit(12.5, "") == "12.5"
    assert card("a", "b", None) == f'<div class="card">{faint}a</p><p class="value">b</p></div>'


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        (None, "no data"),
        (Sample(), "no data"),
        (Sample(reason="no value"), "no data: no value"),
        (Sample(value=0.5), "0.5"),
        (Sample(value=0.5, unit="s"), "0.5 s"),
        (Sample(value=75e6, unit="B"), "75 MB"),
    ],
)
def test_a_sample_as_text(sample: Sample | None, text: str) -> None:
    assert sample_text(sample) == text


def test_a_cost_is_known_or_why_not() -> None:
    assert cost_text((1234.5, None)) == "1,234.50 USD, from the catalogue's prices"
    assert cost_text((0.00022, None)) == "0.00022 USD, from the catalogue's prices"
    assert cost_text((0.0, None)) == "0.00 USD, from the catalogue's prices"
    assert cost_text((None, "no price")) == "unknown: no price"


@pytest.mark.parametrize(("goal", "step"), [("min", 2), ("max", 1), (None, None), ("other", None)])
def test_the_best_value_is_finite_and_the_first_of_equals(
    goal: str | None, step: int | None
) -> None:
    values = [float("nan"), 3.0, 1.0, 1.0, 3.0, float("-inf"), float("inf")]
    events = [
        MetricEvent(time=at(n), replica="worker-0", name="loss", value=value, step=n)
        for n, value in enumerate(values)
    ]
    best = best_of(goal, events)
    assert (best.step if best else None) == step
    assert best_of("min", events[:1]) is None
