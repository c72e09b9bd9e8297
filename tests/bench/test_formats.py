"""What CI systems read, read by what reads it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.bench.compare import compare
from rsctl.bench.differences import Difference
from rsctl.bench.formats import junit
from rsctl.bench.formats.github import MOST_SUMMARY_BYTES, annotation_lines
from rsctl.bench.formats.markdown import gate_comment, gate_markdown, gate_within, ungated_comment
from rsctl.bench.formats.openmetrics import openmetrics
from rsctl.bench.formats.trackers import bencher, github_benchmark
from rsctl.bench.gate import Gate, evaluate
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.verdict import Floor
from tests.kit.deferred import Deferred

jsonschema = Deferred("jsonschema")
junitparser = Deferred("junitparser")
openmetrics_parser = Deferred("prometheus_client.openmetrics.parser")
xmlschema = Deferred("xmlschema")

REAL = Path(__file__).parents[1] / "fixtures" / "real"
STEADY = [100.0, 101.0, 99.0, 100.5, 99.5]
HOSTILE = 'a<b>&"\x1b[31m|`@everyone`\x00]]>::error::\n%0A \N{SNOWMAN}'


def measured(factors: dict[str, float | None], name: str = "throughput") -> Results:
    """One metric in a cell for each key; a cell without a factor has crashed."""
    cells = [{"run.args.mode": key} for key in factors]
    return Results(
        label="job-bench-1",
        kind="bench",
        series=[
            Series(
                name=name,
                unit="samples/s",
                goal="max",
                cell=cell,
                values=[None if factor is None else factor * value for value in STEADY],
                reasons=["job-1 failed: exit code 1"] if factor is None else [],
            )
            for cell, factor in zip(cells, factors.values(), strict=True)
        ],
        cells=[
            CellRuns(cell=cell, wanted=5, lost=["job-1 failed"] if factor is None else [])
            for cell, factor in zip(cells, factors.values(), strict=True)
        ],
    )


def gate_of(factors: dict[str, float | None]) -> tuple[Gate, Results]:
    """The gate of these factors against a baseline without any."""
    candidate = measured(factors)
    baseline = measured(dict.fromkeys(factors, 1.0))
    return evaluate(baseline, candidate, {"throughput": Floor(0.05)}), candidate


@pytest.fixture(scope="module")
def junit_schema() -> Any:
    return xmlschema.XMLSchema(str(REAL / "junit-10.xsd"))


def test_junit_names_every_cell_before_it_runs(junit_schema: Any) -> None:
    text = junit.before("job", ["n=1", "n=2"], ["throughput"])
    junit_schema.validate(text)
    suites = junitparser.JUnitXml.fromstring(text.encode())
    assert [(case.name, case.classname) for suite in suites for case in suite] == [
        ("n=1", "job.runs"),
        ("n=2", "job.runs"),
        ("throughput", "job.gate"),
    ]
    assert (suites.tests, suites.errors, suites.failures) == (3, 3, 0)


def test_junit_of_a_gate(junit_schema: Any) -> None:
    gate, candidate = gate_of({"a": 1.0, "b": 0.8, "c": None})
    text = junit.after("job", candidate.cells, gate)
    junit_schema.validate(text)
    suites = junitparser.JUnitXml.fromstring(text.encode())
    found = {
        f"{case.classname} {case.name}": [type(result).__name__ for result in case.result]
        for suite in suites
        for case in suite
    }
    assert found == {
        "job.runs run.args.mode=a": [],
        "job.runs run.args.mode=b": [],
        "job.runs run.args.mode=c": ["Failure"],
        "job.gate throughput (run.args.mode=a)": [],
        "job.gate throughput (run.args.mode=b)": ["Failure"],
        "job.gate throughput (run.args.mode=c)": ["Error"],
        "job.gate throughput (all cells)": ["Failure"],
    }


def test_junit_of_cases_of_any_kind(junit_schema: Any) -> None:
    cases = [
        junit.JunitCase("preemption", seconds=1.5),
        junit.JunitCase("full-disk", "failure", "it ended", "it ended\nrun job-1"),
        junit.JunitCase("stock-out", "skipped", "no cloud"),
        junit.JunitCase("late", "error", "it has not run"),
    ]
    text = junit.cases_text("job", "drill", cases)
    junit_schema.validate(text)
    suites = junitparser.JUnitXml.fromstring(text.encode())
    [suite] = suites
    assert (suite.name, suite.tests, suite.failures, suite.errors, suite.skipped, suite.time) == (
        *("job drill", 4, 1, 1, 1, 1.5),
    )
    assert [
        (case.name, case.classname, [(type(r).__name__, r.message, r.text) for r in case.result])
        for case in suite
    ] == [
        ("preemption", "job.drill", []),
        ("full-disk", "job.drill", [("Failure", "it ended", "it ended\nrun job-1")]),
        ("stock-out", "job.drill", [("Skipped", "no cloud", None)]),
        ("late", "job.drill", [("Error", "it has not run", None)]),
    ]


def test_junit_of_hostile_names(junit_schema: Any) -> None:
    gate, candidate = gate_of({HOSTILE: 0.5})
    text = junit.after(HOSTILE, candidate.cells, gate)
    junit_schema.validate(text)
    assert "\x1b" not in text
    assert "\x00" not in text


def test_an_annotation_is_one_command() -> None:
    gate, _ = gate_of({HOSTILE: 0.5})
    lines = annotation_lines(gate)
    assert all(line.count("\n") == 0 and line.startswith("::error title=") for line in lines)


def test_the_step_summary_has_room_for_the_worst() -> None:
    gate, _ = gate_of({f"cell-{n:04}": 0.5 if n == 70 else 1.0 for n in range(100)})
    whole = gate_within(gate, MOST_SUMMARY_BYTES)
    assert len(whole.encode()) <= 1024 * 1024
    short = gate_within(gate, 5000)
    assert len(short.encode()) <= 5000
    assert "cell-0070" in short
    assert "more checks are not shown" in short


def test_markdown_is_text_only() -> None:
    text = gate_markdown(gate_of({HOSTILE: 0.5})[0])
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2
    title = '`` throughput (run.args.mode=a<b>&"¦`@everyone`\\x00]]>::error:: %0A \N{SNOWMAN}) ``'
    assert rows[1].split(" | ")[1] == title
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("loss", "loss"),
        ("run_time*2", "run\\_time\\*2"),
        ("[a](b)<b>", "\\[a\\](b)\\<b\\>"),
        ("by @everyone", "`by @everyone`"),
        ("fixes #12", "`fixes #12`"),
        ("see GH-12", "`see GH-12`"),
        ("cost $A and $B", "`cost $A and $B`"),
        ("pass :white_check_mark: :+1:", "`pass :white_check_mark: :+1:`"),
        ("0:07:12 a:b", "0:07:12 a:b"),
        ("https://evil.example", "`https://evil.example`"),
        ("www.evil.example", "`www.evil.example`"),
        ("``` @a ```", "```` ``` @a ``` ````"),
        ("@a | b", "`@a ¦ b`"),
        ("a\n## @b", "`a ## @b`"),
        ("a\u202eb\u200bc", "a\\\\u202eb\\\\u200bc"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "…"),
    ],
)
def test_a_name_in_markdown_is_text(name: str, shown: str) -> None:
    gate, _ = gate_of({"a": 1.0})
    gate.checks = [msgspec.structs.replace(gate.checks[0], metric=name, cell={})]
    [_, row] = [line for line in gate_markdown(gate).splitlines() if line.startswith("| ")]
    assert row.split(" | ")[1] == shown


@pytest.mark.parametrize(
    ("ratio", "heading"),
    [
        (1.0, "### ✅ pass: job-bench-1 against job-bench-1: no regression beyond"),
        (0.5, "### ❌ job-bench-1 against job-bench-1: regressed\n"),
    ],
)
def test_a_heading_has_the_verdict_once(ratio: float, heading: str) -> None:
    assert gate_markdown(gate_of({"a": ratio})[0]).startswith(heading)


def test_a_comment_begins_with_its_marker_and_says_that_it_is_cut() -> None:
    gate, _ = gate_of({f"@cell-{n:04}" + "\N{SNOWMAN}" * 200: 0.5 for n in range(400)})
    text = gate_comment(gate, "my-job--><b>")
    assert text.splitlines()[0] == "<!-- rsctl gate my-job-___b_ -->"
    assert 60_000 < len(text.encode()) <= 65_536
    rows = sum(line.startswith("| ") for line in text.splitlines()) - 1
    assert f"\nThis text is cut: {401 - rows} more checks are not shown.\n" in text
    small, _ = gate_of({"a": 1.0})
    assert gate_comment(small, "job") == "<!-- rsctl gate job -->\n" + gate_markdown(small)


def test_the_comment_of_runs_that_were_compared_with_nothing() -> None:
    _, results = gate_of({"@a": 1.0, "b": None})
    lines = ungated_comment(results, ["throughput"], "job").splitlines()
    assert lines[:3] == ["<!-- rsctl gate job -->", "### No verdict: compared with nothing", ""]
    assert "100 samples/s (n=5)" in lines[5]
    many, end = {f"@{n:04}" + "\N{SNOWMAN}" * 200: 0.5 for n in range(400)}, "This text is cut: "
    text = ungated_comment(gate_of(many)[1], ["throughput"], "job")
    assert 60_000 < len(text.encode()) <= 65_536
    assert text.endswith(f" |\n\n{end}the results are too many to be shown here.\n")


def test_a_comment_is_never_empty() -> None:
    gate, _ = gate_of({"a": 1.0})
    gate.differences = [Difference("\N{SNOWMAN}" * 300, "", n) for n in range(100)]
    gate.refused = [Difference("\N{SNOWMAN}" * 300, "", n) for n in range(100)]
    assert gate_comment(gate, "job").splitlines()[-1] == (
        "This text is cut: the checks are too large to be shown here."
    )


INVISIBLE = "a\u202e\u2066\u200b\u00ad\ufeff\U000e0041z"


def every_format(name: str) -> list[str]:
    """Texts with a name wherever a job can have one."""
    gate, candidate = gate_of({name: 0.5})
    for series in candidate.series:
        series.name, series.unit = name, name
    candidate.cells[0].lost = [name]
    gate.checks[0].reason = name
    return [
        junit.before(name, [name], [name]),
        junit.after(name, candidate.cells, gate),
        gate_comment(gate, name),
        gate_within(gate, MOST_SUMMARY_BYTES),
        openmetrics(candidate),
        (github_benchmark(candidate, "max") or b"").decode(),
        bencher(candidate).decode(),
        *annotation_lines(gate, name),
        gate._repr_html_(),
    ]


def test_a_gate_and_a_comparison_are_tables_in_a_notebook() -> None:
    gate, _ = gate_of({"<b>": 0.5})
    shown = gate._repr_html_()
    title, table = ElementTree.fromstring(f"<div>{shown}</div>")
    assert title.text == gate.headline
    rows = [[cell.text for cell in row] for row in table]
    assert rows[0] == [
        *("VERDICT", "METRIC", "BASELINE MEDIAN", "MEDIAN NOW", "EFFECT [90 %]", "ALLOWED", "P")
    ]
    assert rows[1][:2] == ["regressed", "throughput (run.args.mode=<b>)"]
    comparison = compare([measured({"a": 1.0}), measured({"a": 2.0})])
    title, table = ElementTree.fromstring(f"<div>{comparison._repr_html_()}</div>")
    assert (title.text or "").startswith("1: ")
    assert [cell.text for cell in table[0]][-3:] == ["EFFECT", "90 % INTERVAL", "P"]
    assert [cell.text for cell in table[1]][:2] == ["throughput", "run.args.mode=a"]


COMMANDS = "@me ##[error]a ##vso[task.complete]b ##teamcity[c] section_end:1:d\n ::add-mask::e"
COMMANDS += "\r::set-output name=f::g\r\n::error::h ##VSO[task.complete]i \x9b2Jj\x85k\x7f"


def test_no_format_has_what_a_ci_system_obeys() -> None:
    """A step may print the file of a report."""
    for text in every_format(COMMANDS):
        text = re.sub("^::(error|warning) ", "", text)  # an annotation itself
        assert not re.search(r"(?i)##(vso|teamcity)?\[|section_end:|(^|\n|\r) *::", text), text
        assert not re.search("[\x7f-\x9f]", text), text


def test_invisible_characters_are_escaped_in_every_format() -> None:
    escaped = "a\\u202e\\u2066\\u200b\\xad\\ufeff\\U000e0041z"
    for text in every_format(INVISIBLE):
        assert not set(text) & set(INVISIBLE[1:-1])
        assert escaped in text.replace("\\\\", "\\") or "a_______z" in text, text


def test_junit_has_the_time_of_each_cell_and_suite() -> None:
    gate, candidate = gate_of({"a": 1.0, "b": 1.0})
    for cell, seconds in zip(candidate.cells, (61.5, 30.25), strict=True):
        cell.seconds = seconds
    suites = junitparser.JUnitXml.fromstring(junit.after("job", candidate.cells, gate).encode())
    assert suites.time == 91.75
    assert [suite.time for suite in suites] == [91.75, 0]
    assert [[case.time for case in suite] for suite in suites] == [[61.5, 30.25], [0, 0, 0]]


def test_gitlab_metrics() -> None:
    results = measured({"a": 1.0, 'b"\\\n': 2.0, "c": None})
    results.series.append(Series(name="loss/total", goal="min", values=[0.5]))
    families = list(openmetrics_parser.text_string_to_metric_families(openmetrics(results)))
    assert [(family.name, family.type) for family in families] == [
        ("rsctl_throughput", "gauge"),
        ("rsctl_loss_total_value", "gauge"),
    ]
    assert [(s.labels, s.value) for s in families[0].samples] == [
        ({"run_args_mode": "a"}, 100.0),
        ({"run_args_mode": 'b"\\\n'}, 200.0),
    ]


def test_github_action_benchmark() -> None:
    schema = json.loads((REAL / "github-action-benchmark.json").read_text())
    results = measured({"a": 1.0, "c": None})
    bigger = github_benchmark(results, "max")
    assert bigger is not None
    entries = json.loads(bigger)
    jsonschema.validate(entries, schema)
    assert [(e["name"], e["unit"], e["value"], e["range"]) for e in entries] == [
        ("throughput (run.args.mode=a)", "samples/s", 100.0, "± 0.7906")
    ]
    assert github_benchmark(results, "min") is None


def test_bencher() -> None:
    schema = json.loads((REAL / "bencher-bmf.json").read_text())
    report = json.loads(bencher(measured({"a": 1.0, "c": None, "x" * 2000: 1.0}, name="m" * 90)))
    jsonschema.validate(report, schema)
    assert list(map(len, report)) == [15, 1024]
    [(measure, metric)] = report["run.args.mode=a"].items()
    assert len(measure) == 64
    assert metric["lower_value"] < metric["value"] == 100.0 < metric["upper_value"]


def test_bencher_joins_no_names() -> None:
    """Those that are alike in what fits, and those that differ in a suffix that Bencher reads."""
    results = Results(label="b", kind="bench")
    names = ["m" * 64, "m" * 64 + "a", "m" * 64 + "b"]
    results.series = [Series(name=name, values=[1.0]) for name in names]
    measures = json.loads(bencher(results))["job"]
    assert [len(measure) for measure in measures] == [64, 64, 64]
    assert names[0] in measures
    cells = json.loads(bencher(measured({"a": 1.0, "a-bencher-ignore": 2.0})))
    assert len(cells) == 2
    assert not any(cell.endswith("-bencher-ignore") for cell in cells)


def test_all_reports_have_the_median_of_the_runs() -> None:
    """As the table of the gate and `bench status` have it; one slow run does not change it."""
    results = Results(label="b", kind="bench")
    results.series = [Series(name="speed", goal="max", values=[100.0, 20.0, 104.0])]
    assert "rsctl_speed 100\n" in openmetrics(results)
    assert [entry["value"] for entry in json.loads(github_benchmark(results, "max") or b"")] == [
        100
    ]
    assert json.loads(bencher(results))["job"]["speed"]["value"] == 100.0
    results.series[0].values = [1.0] * 98 + [0.0, 1e6]
    measure = json.loads(bencher(results))["job"]["speed"]
    assert measure["lower_value"] <= measure["value"] == 1.0 <= measure["upper_value"]


def test_the_interval_of_two_runs_is_as_wide_as_student_s_t() -> None:
    results = Results(label="b", kind="bench")
    results.series = [Series(name="speed", values=[99.0, 101.0])]
    measure = json.loads(bencher(results))["job"]["speed"]
    assert (measure["lower_value"], measure["upper_value"]) == (
        pytest.approx(100 - 6.314, abs=0.01),
        pytest.approx(100 + 6.314, abs=0.01),
    )


def test_values_whose_sum_no_float_holds() -> None:
    results = measured({"a": 1e306})
    assert 'rsctl_throughput{run_args_mode="a"} 1e+308' in openmetrics(results)
    bigger = github_benchmark(results, "max")
    assert bigger is not None
    assert [entry["range"] for entry in json.loads(bigger)] == ["± 7.906e+305"]
    [[metric]] = [list(of.values()) for of in json.loads(bencher(results)).values()]
    assert metric["value"] == pytest.approx(1e308)
