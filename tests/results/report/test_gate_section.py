"""What a report says of a gate, by the text of its section."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from msgspec.structs import replace

from rsctl.bench.decision import Decision
from rsctl.bench.differences import Difference
from rsctl.bench.gate import Gate
from rsctl.bench.verdict import Verdict
from rsctl.results.report.build import make_report
from rsctl.results.report.gate_section import add_gate
from rsctl.results.report.page import Page
from rsctl.runs.store import Store
from tests.bench.test_formats import gate_of
from tests.kit.browser import needs_browser
from tests.kit.live_browser import browser


def texts(gate: Gate) -> list[str]:
    """The texts of the section, one for each element; a drawing has none."""
    page = Page()
    add_gate(page, Decision(gate=gate, time="2026-01-31T12:00:00.000000Z"))
    main = page.html("t", (), "").partition("<main>")[2].partition("</main>")[0]
    drawn = re.sub(r"<svg.*?</svg>", "", main, flags=re.DOTALL)
    return [unescape(text) for text in re.split(r"<[^>]+>", drawn) if text.strip()]


def test_each_check_has_a_row_and_the_worst_comes_first() -> None:
    rows = [
        *("verdict", "metric", "baseline median", "median now", "effect [90 %]", "allowed"),
        *("p, adjusted", "runs", "reason"),
        *("regressed", "throughput (run.args.mode=b)", "100 samples/s", "80 samples/s"),
        *("-20 % [-20.9, -19.1]", "5 %", "0.0132", "5 and 5"),
        *("regressed", "throughput (all cells)", "-", "-"),
        *("-10 % [-10.9, -9.05]", "5 %", "0.0397", "5 and 5"),
        *("no-data", "throughput (run.args.mode=c)", "-", "-", "5 %"),
        "no data: job-1 failed: exit code 1",
        *("pass", "throughput (run.args.mode=a)", "100 samples/s", "100 samples/s"),
        *("+0 % [-1, +1]", "5 %", "1", "5 and 5"),
    ]
    gate, _ = gate_of({"a": 1.0, "b": 0.8, "c": None})
    assert texts(gate) == [
        "Gate: regressed",
        "job-bench-1 against job-bench-1: regressed (2 regressed, 1 no-data, 1 pass)",
        *("baseline", "job-bench-1", "candidate", "bench job-bench-1", "ran", "apart"),
        *("confirmed by", "no further runs", "decided", "2026-01-31 12:00:00 UTC"),
        *rows,
    ]


@needs_browser
def test_a_reason_is_beside_its_check_on_a_desktop(tmp_path: Path) -> None:
    """The table of a job with a matrix was wider than its page, and cut the reasons."""
    gate, _ = gate_of({"a": 1.0})
    reason = "exceeds the allowed regression, but 3+3 runs may differ this much by chance"
    check = replace(gate.checks[0], verdict=Verdict.INCONCLUSIVE, unit="samples/s", reason=reason)
    page = make_report(Store(), [], {}, gate=replace(gate, checks=[check])).html
    (tmp_path / "r.html").write_text(page)
    with browser(tmp_path / "profile") as tab:
        tab.look(1280)
        tab.open((tmp_path / "r.html").as_uri())
        table = "document.querySelector('.scroll:has(.long)')"
        assert tab.until(f"{table}?.clientWidth") >= tab.value(f"{table}.scrollWidth")


def test_the_report_of_a_gate_that_has_refused_to_run_is_about_the_gate() -> None:
    gate, _ = gate_of({"a": 1.0})
    page = make_report(Store(), [], {}, gate=gate).html
    assert "<title>rsctl report: job-bench-1</title>" in page
    assert "Gate: pass" in page


def test_of_very_many_checks_the_worst_are_shown() -> None:
    few, _ = gate_of({f"c{number}": 1.0 for number in range(119)})
    many, _ = gate_of({f"c{number}": 1.0 for number in range(121)})
    assert (texts(few).count("pass"), texts(many).count("pass")) == (120, 120)
    assert not any(text.endswith("not shown.") for text in texts(few))
    assert "2 more checks not shown." in texts(many)


def test_what_differs_between_the_sides() -> None:
    """Few things in the section, many below a title, of very many the first."""
    things = [Difference(name=f"thing-{n}", baseline="1", candidate="2") for n in range(61)]
    gate, _ = gate_of({"a": 1.0})
    found = {count: texts(replace(gate, differences=things[:count])) for count in (0, 10, 11, 61)}
    assert not any("differ" in text for text in found[0])
    shown = [f"thing-{number}: 1 -> 2" for number in range(61)]
    assert found[10][-11:] == ["The sides differ in:", *shown[:10]]
    assert found[11][-12:] == ["The sides differ in 11 things", *shown[:11]]
    assert found[61][-61:] == ["The sides differ in 61 things", *shown[:60]]


def test_a_gate_that_was_confirmed_or_whose_baseline_does_not_count() -> None:
    gate, _ = gate_of({"a": 1.0})
    refused = Difference(name="machine", baseline="a", candidate="b")
    found = texts(
        replace(gate, confirmation="job-bench-2", refused=[refused], outdated=["speed: +9 %"])
    )
    assert found[8:10] == ["confirmed by", "bench job-bench-2"]
    assert found[12:16] == [
        *("The baseline is for a different measurement:", "machine: a -> b"),
        *("verdict", "metric"),
    ]
    assert "Better than the baseline by more than it may be worse:" in found
