"""What CI systems and people read of a gate and of a bench, as whole texts."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.bench.checks import MetricCheck
from rsctl.bench.formats import junit
from rsctl.bench.formats.github import annotation_lines
from rsctl.bench.formats.markdown import gate_markdown, gate_within
from rsctl.bench.formats.openmetrics import openmetrics
from rsctl.bench.formats.text import check_row, format_check
from rsctl.bench.formats.trackers import bencher, github_benchmark
from rsctl.bench.gate import Gate
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.step_parts import NO_STEPS, Moved
from rsctl.bench.verdict import Verdict


def check(verdict: str = "regressed", metric: str = "speed", **fields: Any) -> MetricCheck:
    fields = {"cell": {}, "floor": 0.05, **fields}
    return MetricCheck(metric=metric, verdict=Verdict(verdict), **fields)


def gate(*checks: MetricCheck, verdict: str = "regressed", code: int = 7, **fields: Any) -> Gate:
    fields = {"baseline": "old", "candidate": "new", "checks": [*checks], **fields}
    return Gate(verdict=Verdict(verdict), exit_code=code, **fields)


RELATIVE = check(
    cell={"a": 1, "b": "x"},
    unit="it/s",
    runs=(5, 4),
    effect=-0.1,
    interval=(-0.12, -0.0),
    p=0.001,
    p_adjusted=0.0123,
    baseline=100.0,
    value=90.0,
)
AMOUNT = check(
    *("inconclusive", "loss"),
    unit="nats",
    is_relative=False,
    floor=0.2,
    pairs=1,
    runs=(1, 1),
    effect=0.5,
    interval=(0.0, 1.25),
    baseline=1.0,
    value=1.5,
    reason="too few",
)
BARE = check("no-data", "f1", cell=None, value=3.0)
OUTDATED = gate(check("pass"), verdict="pass", outdated=["speed is 10 % better", "loss is better"])


@pytest.mark.parametrize(
    ("shown", "row", "line"),
    [
        (
            RELATIVE,
            "regressed|speed (a=1, b=x)|100 it/s|90 it/s|-10 % [-12, +0]|5 %|0.0123",
            "median 100 it/s -> 90 it/s; -10 % [-12, +0], p 0.0123, 5 % allowed, 5+4 runs",
        ),
        (
            AMOUNT,
            "inconclusive|loss|1 nats|1.5 nats|+0.5 nats [+0, +1.25]|0.2 nats|",
            "median 1 nats -> 1.5 nats; +0.5 nats [+0, +1.25], 0.2 nats allowed, 1 pair; too few",
        ),
        (BARE, "no-data|f1 (all cells)|-|3||5 %|", "no-data"),
        (
            check(effect=-0.0, pairs=2, steps=(10, 19), is_relative=False, floor=1.0),
            "regressed|speed (worst in steps 10 to 19)|-|-|+0|1|",
            "+0, 1 allowed, 2 pairs",
        ),
    ],
    ids=["relative", "amount", "bare", "curve"],
)
def test_a_check_as_a_row_and_as_a_line(shown: MetricCheck, row: str, line: str) -> None:
    assert ("|".join(check_row(shown)), format_check(shown)) == (row, line)


def test_annotations() -> None:
    file = "file=a%2Cb%3Ac%25.yaml,title="
    assert annotation_lines(gate(AMOUNT, RELATIVE, BARE, check("pass")), "a,b:c%.yaml") == [
        f"::error {file}speed (a=1%2C b=x)%3A regressed::median 100 it/s -> 90 it/s; "
        "-10 %25 [-12, +0], p 0.0123, 5 %25 allowed, 5+4 runs",
        f"::error {file}f1 (all cells)%3A no-data::no-data",
        f"::warning {file}loss%3A inconclusive::median 1 nats -> 1.5 nats; "
        "+0.5 nats [+0, +1.25], 0.2 nats allowed, 1 pair; too few",
    ]
    assert annotation_lines(gate(verdict="no-data", code=8)) == [
        "::error title=rsctl gate::new against old: no data for a decision"
    ]
    assert annotation_lines(gate(verdict="pass", code=0)) == []
    assert annotation_lines(gate(check(metric="a\r\nb\x1b"), verdict="pass")) == [
        "::error title=a\\x0d\\nb\\x1b%3A regressed::regressed"
    ]


@pytest.mark.parametrize(("number", "shown", "left"), [(10, 10, 0), (11, 9, 2)])
@pytest.mark.parametrize("is_outdated", [False, True])
def test_annotations_of_many_checks(number: int, shown: int, left: int, is_outdated: bool) -> None:
    number, shown = number - is_outdated, shown - is_outdated
    bad = [check("inconclusive", f"m{n}") for n in range(number)]
    made = gate(*bad, verdict="inconclusive", outdated=["m9 is better"] * is_outdated)
    lines = annotation_lines(made)
    assert lines == [
        *["::error title=rsctl gate::baseline is outdated: m9 is better"] * is_outdated,
        *(f"::warning title=m{n}%3A inconclusive::inconclusive" for n in range(shown)),
        *[
            f"::warning title=rsctl gate::{left} more checks did not pass; the summary of the step "
            "lists all of them"
        ]
        * bool(left),
    ]
    assert len(lines) == 10


RUNS = """\
  <testsuite name="job runs" tests="2" failures="1" errors="0" time="2.500">
    <testcase name="a=1, b=x" classname="job.runs" time="2.500"/>
    <testcase name="runs" classname="job.runs" time="0.000">
      <failure message="r1 failed" type="failure">r1 failed
r2 failed</failure>
    </testcase>
  </testsuite>
"""
NO_RUNS = """\
  <testsuite name="job runs" tests="0" failures="0" errors="0" time="0.000">
  </testsuite>
"""
CELLS = [
    CellRuns(cell={"a": 1, "b": "x"}, seconds=2.5),
    CellRuns(lost=["r1 failed", "r2 failed"]),
]
OF_OUTDATED = """\
  <testsuite name="job gate" tests="2" failures="1" errors="0" time="0.000">
    <testcase name="speed" classname="job.gate" time="0.000"/>
    <testcase name="baseline" classname="job.gate" time="0.000">
      <failure message="baseline is outdated: speed is 10 % better; loss is better" \
type="failure">speed is 10 % better
loss is better</failure>
    </testcase>
  </testsuite>
"""
OF_NO_CHECKS = """\
  <testsuite name="job gate" tests="1" failures="0" errors="1" time="0.000">
    <testcase name="gate" classname="job.gate" time="0.000">
      <error message="new against old: no data for a decision" type="error"></error>
    </testcase>
  </testsuite>
"""
LOSS = "median 1 nats -&gt; 1.5 nats; +0.5 nats [+0, +1.25], 0.2 nats allowed, 1 pair; too few"
OF_UNDECIDED = f"""\
  <testsuite name="job gate" tests="2" failures="0" errors="2" time="0.000">
    <testcase name="loss" classname="job.gate" time="0.000">
      <error message="inconclusive: {LOSS}" type="error">{LOSS}</error>
    </testcase>
    <testcase name="f1 (all cells)" classname="job.gate" time="0.000">
      <error message="no-data: no-data" type="error">no-data</error>
    </testcase>
  </testsuite>
"""
OF_TOLERATED = f"""\
  <testsuite name="job gate" tests="3" failures="1" errors="0" time="0.000" skipped="2">
    <testcase name="speed" classname="job.gate" time="0.000">
      <failure message="regressed: regressed" type="failure">regressed</failure>
    </testcase>
    <testcase name="loss" classname="job.gate" time="0.000">
      <skipped message="inconclusive: {LOSS}"/>
    </testcase>
    <testcase name="f1 (all cells)" classname="job.gate" time="0.000">
      <skipped message="no-data: no-data"/>
    </testcase>
  </testsuite>
"""
OF_MISSING = [
    f"""\
  <testsuite name="job {kind}" tests="1" failures="0" errors="0" time="0.000" skipped="1">
    <testcase name="{name}" classname="job.{kind}" time="0.000">
      <skipped message="{message}"/>
    </testcase>
  </testsuite>
"""
    for kind, name, message in (
        ("runs", "runs", "r1 has no value"),
        ("gate", "f1 (all cells)", "no-data: no-data"),
    )
]


def junit_file(counts: str, *suites: str) -> str:
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="job" {counts}>\n'
    return f"{head}{''.join(suites)}</testsuites>\n"


@pytest.mark.parametrize(
    ("cells", "made", "is_tolerant", "counts", "suites"),
    [
        (CELLS, None, False, 'tests="2" failures="1" errors="0" time="2.500"', [RUNS]),
        (
            *(CELLS, OUTDATED, False, 'tests="4" failures="2" errors="0" time="2.500"'),
            [RUNS, OF_OUTDATED],
        ),
        (
            *([], gate(verdict="no-data", code=8), True),
            *('tests="1" failures="0" errors="1" time="0.000"', [NO_RUNS, OF_NO_CHECKS]),
        ),
        (
            *([], gate(check(), AMOUNT, BARE), True),
            *('tests="3" failures="1" errors="0" time="0.000"', [NO_RUNS, OF_TOLERATED]),
        ),
        (
            *([CellRuns(lost=["r1 has no value", "r2"])], gate(BARE), True),
            *('tests="2" failures="0" errors="0" time="0.000"', OF_MISSING),
        ),
        *(
            (
                *([], gate(AMOUNT, BARE, verdict="no-data", code=8, **fields), is_tolerant),
                *('tests="2" failures="0" errors="2" time="0.000"', [NO_RUNS, OF_UNDECIDED]),
            )
            for fields, is_tolerant in (
                *(({}, False), ({"failures": [1]}, True), ({"refused": ["cpu: x -> y"]}, True)),
                *(({"baseline_failures": [1]}, True), ({"diverged": ["loss"]}, True)),
            )
        ),
    ],
)
def test_junit(
    cells: list[CellRuns], made: Gate | None, is_tolerant: bool, counts: str, suites: list[str]
) -> None:
    assert junit.after("job", cells, made, is_tolerant) == junit_file(counts, *suites)


def test_junit_before_the_runs_of_a_bench_without_a_gate() -> None:
    assert junit.before("job", ["x"], []) == junit_file(
        'tests="1" failures="0" errors="1" time="0.000"',
        '  <testsuite name="job runs" tests="1" failures="0" errors="1" time="0.000">\n'
        '    <testcase name="x" classname="job.runs" time="0.000">\n'
        '      <error message="it has not run" type="error"></error>\n'
        "    </testcase>\n  </testsuite>\n",
    )


def test_junit_of_cases_that_were_skipped() -> None:
    cases = [junit.JunitCase("a", "skipped", "no cloud"), junit.JunitCase("b", seconds=1.5)]
    assert junit.cases_text("job", "drill", cases) == junit_file(
        'tests="2" failures="0" errors="0" time="1.500"',
        '  <testsuite name="job drill" tests="2" failures="0" errors="0" time="1.500" '
        'skipped="1">\n'
        '    <testcase name="a" classname="job.drill" time="0.000">\n'
        '      <skipped message="no cloud"/>\n'
        "    </testcase>\n"
        '    <testcase name="b" classname="job.drill" time="1.500"/>\n'
        "  </testsuite>\n",
    )


RESULTS = Results(
    label="b-1",
    kind="bench",
    series=[
        Series(
            name="speed",
            unit="it/s",
            goal="max",
            values=[3.0, 1.0],
            cell={"run.args.a-b": 1, "run.args.a.b": True, "run.args.c": "x"},
        ),
        Series(name="a/b", values=[2.0]),
        Series(name="a.b", values=[2.0]),
        Series(name="a-b", goal="min", values=[1234567.0]),
        Series(name="lost", goal="min", values=[None]),
        Series(name="total", unit="s", values=[1.0]),
    ],
)
TOTAL = """\
# TYPE rsctl_total_value gauge
# HELP rsctl_total_value total in s
rsctl_total_value 1
# EOF
"""


def test_metrics_for_gitlab() -> None:
    head = """\
# TYPE rsctl_speed gauge
# HELP rsctl_speed speed in it/s, more is better
rsctl_speed{run_args_a_b="1,true",run_args_c="x"} 2
# TYPE rsctl_a_b gauge
# HELP rsctl_a_b a/b
rsctl_a_b 2
# TYPE rsctl_a_b_2 gauge
# HELP rsctl_a_b_2 a.b
rsctl_a_b_2 2
# TYPE rsctl_a_b_3 gauge
# HELP rsctl_a_b_3 a-b, less is better
rsctl_a_b_3 1.23457e+06
"""
    assert openmetrics(RESULTS) == head + TOTAL
    assert openmetrics(RESULTS, ["lost", "total"]) == TOTAL
    assert openmetrics(RESULTS, ["lost"]) == "# EOF\n"


@pytest.mark.parametrize(
    "name", ["total", "created", "bucket", "count", "sum", "info", "gsum", "gcount"]
)
def test_a_metric_whose_last_word_openmetrics_reserves(name: str) -> None:
    results = Results(label="b", kind="bench", series=[Series(name=f"a.{name}", values=[1.0])])
    assert f"rsctl_a_{name}_value 1\n" in openmetrics(results)


def test_entries_for_github_action_benchmark() -> None:
    assert (
        (github_benchmark(RESULTS, "max") or b"").decode()
        == """\
[
 {
  "name": "speed (run.args.a-b=1, run.args.a.b=true, run.args.c=x)",
  "unit": "it/s",
  "value": 2.0,
  "range": "± 1.414",
  "extra": "2 runs of b-1: 3, 1"
 }
]
"""
    )
    assert (
        (github_benchmark(RESULTS, "min", ["a-b", "speed"]) or b"").decode()
        == """\
[
 {
  "name": "a-b",
  "unit": "",
  "value": 1234567.0,
  "extra": "1 run of b-1: 1.23457e+06"
 }
]
"""
    )
    assert github_benchmark(RESULTS, "min", ["speed"]) is None


def test_benchmarks_for_bencher() -> None:
    assert (
        bencher(RESULTS, ["total", "a.b"]).decode()
        == """\
{
 "job": {
  "a.b": {
   "value": 2.0
  },
  "total": {
   "value": 1.0
  }
 }
}
"""
    )


HEAD = """\
| verdict | metric | baseline median | median now | effect, 90 % interval | allowed | p | why |
|---|---|---|---|---|---|---|---|
"""
WHOLE = f"""\
### ❌ new against old: regressed (1 regressed, 1 no-data, 1 inconclusive, 1 pass)

The baseline was measured under other conditions:

- cpu: x -\\> y

{HEAD}\
| ❌ regressed | speed (a=1, b=x) | 100 it/s | 90 it/s | -10 % \\[-12, +0\\] | 5 % | 0.0123 |  |
| ⚠️ no data | f1 (all cells) | - | 3 |  | 5 % |  |  |
| ⚠️ inconclusive | loss | 1 nats | 1.5 nats | +0.5 nats \\[+0, +1.25\\] | 0.2 nats |  | too few |


This text is cut: 1 more check is not shown.

Better than the baseline by more than it may be worse:

- speed is 10 % better

Longer in each step:

- computation: unknown -\\> 2 ms


What became longer is unknown: {NO_STEPS}.

Differences between them:

"""


@pytest.mark.parametrize("number", [50, 51])
def test_a_gate_in_markdown(number: int) -> None:
    made = gate(
        *(check("pass"), BARE, AMOUNT, RELATIVE),
        refused=["cpu: x -> y"],
        outdated=["speed is 10 % better"],
        lacks_steps=True,
        moved=[Moved(name="step.compute", baseline=None, candidate=0.002)],
        differences=[f"d{n}: 1" for n in range(number)],
    )
    lines = [*(f"- d{n}: 1" for n in range(50)), *["- and 1 more"] * (number - 50)]
    assert gate_markdown(made, 3).replace("\\{", "{").replace("\\_", "_") == (
        WHOLE + "".join(f"{line}\n" for line in lines)
    )


def test_an_outdated_baseline_in_markdown() -> None:
    assert gate_markdown(OUTDATED) == (
        "### ❌ pass: the baseline is outdated; new against old: no regression beyond the allowed "
        f"limits\n\n{HEAD}| ✅ pass | speed | - | - |  | 5 % |  |  |\n\n"
        "Better than the baseline by more than it may be worse:\n\n"
        "- speed is 10 % better\n- loss is better\n"
    )


def test_a_gate_that_says_nothing_else_in_markdown() -> None:
    assert gate_markdown(gate(BARE, verdict="no-data")) == (
        "### ⚠️ new against old: no data for a decision\n\n"
        f"{HEAD}| ⚠️ no data | f1 (all cells) | - | 3 |  | 5 % |  |  |\n"
    )


def test_a_gate_without_room() -> None:
    text = gate_markdown(OUTDATED)
    room = len(text.encode())
    assert gate_within(OUTDATED, room) == text
    cut = "\nThis text is cut: the checks are too large to be shown here.\n"
    assert gate_within(OUTDATED, room - 1) == text.partition("\n")[0] + f"\n{cut}"
    assert gate_within(OUTDATED, 10) == ""


def test_a_headline() -> None:
    fields: dict[str, Any] = {"failures": [1, 1], "baseline_failures": [1], "rehearsed": True}
    made = gate(RELATIVE, BARE, diverged=[*"abcde"], shortened=["x 1 instead of 2"], **fields)
    assert made.headline == (
        "new against old: regressed (1 regressed, 1 no-data); runs of the candidate failed: 2; "
        "runs of the baseline failed: 1; diverged: a, b, c, d and 1 more; fewer values were "
        "logged: x 1 instead of 2; a rehearsal on this machine, which does not measure the cloud"
    )
    assert gate(BARE).headline == "new against old: regressed"
