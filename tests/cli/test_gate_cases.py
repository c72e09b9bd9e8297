"""The exit codes of `rsctl gate` in a table of cases, as a pipeline reads them.

Each case is judged with and without --allow-inconclusive. JUnit must agree with the exit code.
"""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import pytest

from rsctl import api
from rsctl.bench.gate import confirm, evaluate
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.verdict import Floor
from rsctl.findings import ExitCode, JobState
from rsctl.runs.store import Store
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.versions import keep_versions
from tests.cli.conftest import Cli
from tests.cli.test_gate import record_run

CRASHED, EXPIRED, CANCELLED = JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED
SILENT = "silent"
"""A run that has succeeded without a value."""
LOST = "lost"
"""A run that could not start, because the environment lacks something."""
REFUSED = "refused"
"""A run that the service has refused."""

Outcome = Union[float, JobState, str]
Cells = Mapping[str, Sequence[Outcome]]

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5]
SLOW = [0.9 * value for value in STEADY]
FAST = [1.1 * value for value in STEADY]
NOISY = [80.0, 120.0, 95.0, 105.0, 100.0]
NAN, INF = math.nan, math.inf
HUGE = [1e308, 1.01e308, 0.99e308, 1.005e308, 0.995e308]


def record(
    name: str,
    cells: Cells,
    repeat: int | None = None,
    cpu: str | Sequence[str] = "EPYC",
    unit: str = "x/s",
    goal: str = "max",
) -> None:
    """A bench of recorded runs: what each run of each cell ended with."""
    store, spec = Store(), {"throughput": MetricSpec(goal=goal, unit=unit)}
    benches = Benches(store)
    bench = BenchRecord(
        bench=name,
        name="job",
        target="process",
        definition=name,
        created=f"2026-01-01T00:00:0{len(benches.benches())}.000000Z",
        repeat=repeat or max(map(len, cells.values())),
        cells=[{"n": key} if key else {} for key in cells],
        spec={},
    )
    benches.claim(bench)
    for cell, outcomes in enumerate(cells.values()):
        for number, outcome in enumerate(outcomes):
            run = f"{name}-{cell}-{number}"
            state = JobState.SUCCEEDED if isinstance(outcome, float) else CRASHED
            state = outcome if isinstance(outcome, JobState) else state
            state = JobState.SUCCEEDED if outcome == SILENT else state
            value = outcome if isinstance(outcome, float) else None
            record_run(store, run, state, value, spec)
            own = cpu if isinstance(cpu, str) else cpu[number]
            keep_versions(store, run, "worker-0", {"cpu": own, "cores": "2"})
            codes = {LOST: ExitCode.ENVIRONMENT, REFUSED: ExitCode.REFUSED}
            code = int(codes.get(str(outcome), state.exit_code))
            trial = Trial(cell=cell, repetition=number, run=run, state=state, exit_code=code)
            benches.begin(name, trial)
    store.close()


def one(*outcomes: Outcome) -> Cells:
    return {"": outcomes}


TWO = {"1": STEADY, "2": STEADY}

CASES: list[tuple[str, Cells, Cells, str, int, int]] = [
    # what, baseline, candidate, verdict, exit code, the same with --allow-inconclusive
    ("equal", one(*STEADY), one(*STEADY), "pass", 0, 0),
    ("constant", one(*[5.0] * 5), one(*[5.0] * 5), "pass", 0, 0),
    ("zero on both sides", one(*[0.0] * 5), one(*[0.0] * 5), "inconclusive", 8, 0),
    ("better", one(*STEADY), one(*FAST), "pass", 0, 0),
    ("worse", one(*STEADY), one(*SLOW), "regressed", 7, 7),
    ("to zero", one(*STEADY), one(*[0.0] * 5), "regressed", 7, 7),
    ("negative", one(*STEADY), one(*[-v for v in STEADY]), "regressed", 7, 7),
    ("near the largest number", one(*HUGE), one(*HUGE), "pass", 0, 0),
    ("noisy", one(*STEADY), one(*NOISY), "inconclusive", 8, 0),
    ("one run", one(*STEADY), one(100.0), "inconclusive", 8, 0),
    ("one run on both sides", one(100.0), one(50.0), "inconclusive", 8, 0),
    ("all crashed", one(*STEADY), one(*[CRASHED] * 5), "no-data", 1, 1),
    ("all timed out", one(*STEADY), one(*[EXPIRED] * 5), "no-data", 6, 6),
    ("all cancelled", one(*STEADY), one(*[CANCELLED] * 5), "no-data", 5, 5),
    ("no environment", one(*STEADY), one(*[LOST] * 5), "no-data", 3, 3),
    ("all refused", one(*STEADY), one(*[REFUSED] * 5), "no-data", 4, 4),
    ("crashed or timed out", one(*STEADY), one(CRASHED, EXPIRED, CRASHED), "no-data", 1, 1),
    ("one crashed", one(*STEADY), one(CRASHED, *STEADY[1:]), "no-data", 8, 8),
    ("all but one crashed", one(*STEADY), one(*[CRASHED] * 4, 100.0), "no-data", 8, 8),
    ("one timed out", one(*STEADY), one(*STEADY[1:], EXPIRED), "no-data", 8, 8),
    ("one crashed, the rest worse", one(*STEADY), one(CRASHED, *SLOW[1:]), "regressed", 7, 7),
    ("no value", one(*STEADY), one(*[SILENT] * 5), "no-data", 8, 0),
    ("one without a value", one(*STEADY), one(SILENT, *STEADY[1:]), "no-data", 8, 0),
    ("all NaN", one(*STEADY), one(*[NAN] * 5), "regressed", 7, 7),
    ("one NaN", one(*STEADY), one(NAN, *STEADY[1:]), "no-data", 8, 8),
    ("all infinite", one(*STEADY), one(*[INF] * 5), "regressed", 7, 7),
    ("minus infinity, one run", one(*STEADY), one(-INF), "regressed", 7, 7),
    ("one crashed, the rest NaN", one(*STEADY), one(CRASHED, *[NAN] * 4), "no-data", 8, 8),
    ("one minus infinity", one(*STEADY), one(-INF, *STEADY[1:]), "no-data", 8, 8),
    ("NaN on both sides", one(*[NAN] * 5), one(*[NAN] * 5), "no-data", 8, 0),
    ("NaN in the baseline", one(NAN, *STEADY[1:]), one(*STEADY), "pass", 0, 0),
    ("a crash in the baseline", one(CRASHED, *STEADY[1:]), one(*STEADY), "pass", 0, 0),
    ("a baseline of crashes", one(*[CRASHED] * 5), one(*STEADY), "no-data", 8, 0),
    ("both crashed", one(*[CRASHED] * 5), one(*[CRASHED] * 5), "no-data", 1, 1),
    ("two cells", TWO, TWO, "pass", 0, 0),
    ("one cell worse", TWO, {"1": STEADY, "2": SLOW}, "regressed", 7, 7),
    ("one cell crashed", TWO, {"1": STEADY, "2": [CRASHED] * 5}, "no-data", 1, 1),
    ("a crash and a regression", TWO, {"1": SLOW, "2": [CRASHED] * 5}, "regressed", 7, 7),
    ("a new cell", {"1": STEADY}, TWO, "no-data", 8, 0),
    ("a cell that is gone", TWO, {"1": STEADY}, "no-data", 8, 0),
    ("other cells", {"1": STEADY}, {"2": STEADY}, "no-data", 8, 0),
    ("a matrix that is gone", {"1": STEADY}, one(*STEADY), "no-data", 8, 0),
]


@pytest.mark.parametrize(
    ("before", "after", "verdict", "code", "tolerant"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_cases(
    rsctl: Cli, before: Cells, after: Cells, verdict: str, code: int, tolerant: int
) -> None:
    record("before", before)
    record("now", after)
    base = ("gate", "now", "--baseline", "before", "--max-regression", "throughput=5%")
    assert judged(rsctl, *base) == (code, verdict)
    assert judged(rsctl, *base, "--allow-inconclusive")[0] == tolerant


def judged(rsctl: Cli, *arguments: str) -> tuple[int, str]:
    """The exit code and the verdict; all that the gate writes must agree with them."""
    done = rsctl(*arguments, "--report", "junit=j.xml", "--report", "markdown=g.md", "-o", "json")
    gate = json.loads(done.out)
    counts = re.findall(r'<testsuites .*failures="(\d+)" errors="(\d+)"', Path("j.xml").read_text())
    assert (counts == [("0", "0")]) == (done.code == 0), counts
    assert "Traceback" not in done.err
    assert gate["checks"] or gate["refused"]
    if "--allow-inconclusive" not in arguments:
        assert gate["exit_code"] == done.code
    heading = Path("g.md").read_text().splitlines()[1 - ("<!--" not in Path("g.md").read_text())]
    assert gate["verdict"].replace("-", " ") in heading
    return done.code, gate["verdict"]


def test_junit_has_the_failed_runs_of_a_confirmation(rsctl: Cli) -> None:
    record("before", TWO)
    record("now", {"1": SLOW, "2": STEADY})
    record("again", {"1": [CRASHED, 91.0, 91.5]})
    sides = [api.results_of(name) for name in ("before", "now", "again")]
    floors = {"throughput": Floor(0.05)}
    gate = confirm(evaluate(*sides[:2], floors), *sides, floors)
    assert gate.headline.endswith("; runs of the candidate failed: 1")
    reports = [api.CiReport("junit", "j.xml"), api.CiReport("bencher", "b.json")]
    api.write_reports(reports, "job", sides[1], gate)
    measures = json.loads(Path("b.json").read_text()).values()
    medians = [check.value for check in gate.checks if check.cell is not None]
    assert [measure["throughput"]["value"] for measure in measures] == medians
    root = ElementTree.fromstring(Path("j.xml").read_text())
    runs = root.find("testsuite[@name='job runs']")
    assert runs is not None
    assert runs.get("failures") == "1"
    seconds = sum(cell.seconds for side in sides[1:] for cell in side.cells)
    assert float(runs.get("time", "0")) == pytest.approx(seconds, abs=0.01)
    assert [len(case) for case in runs] == [1, 0]


@pytest.mark.parametrize(
    "before", [one(*STEADY), TWO, {"1": STEADY, "2": [80.0, 130.0, 95.0, 105.0, 100.0]}]
)
def test_an_improvement_that_fails_is_in_every_report(
    rsctl: Cli, before: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    record("before", before)
    record("now", {**before, next(iter(before)): [1.2 * v for v in STEADY]})
    base = ("gate", "now", "--baseline", "before", "--max-regression", "throughput=5%")
    options = ("--fail-on-improvement", "--report", "junit=j.xml", "--report", "markdown=g.md")
    done = rsctl(*base, *options)
    assert done.code == 7
    counts = re.findall(r'<testsuites .*failures="(\d+)"', Path("j.xml").read_text())
    assert counts == ["1"]
    assert '<testcase name="baseline" classname="job.gate"' in Path("j.xml").read_text()
    [error] = [line for line in done.err.splitlines() if line.startswith("::error ")]
    assert "::baseline is outdated: throughput" in error
    for name in ("g.md", "summary.md"):
        text = Path(name).read_text()
        [heading] = [line for line in text.splitlines() if line.startswith("### ")]
        assert heading.startswith("### ❌ ")
        assert "the baseline is outdated; now against before: " in heading
        assert "- throughput" in text
    assert rsctl(*base, *options[1:], "--allow-inconclusive").code == 0
    assert 'failures="0" errors="0"' in Path("j.xml").read_text()
    assert "❌" not in Path("g.md").read_text()


@pytest.mark.parametrize(
    ("options", "lenient"),
    [
        ({"cpu": "Xeon"}, 8),
        ({"cpu": ["EPYC", "EPYC", "EPYC", "EPYC", "Xeon"]}, 8),
        ({"unit": "s"}, 8),
        ({"repeat": 7}, 0),
    ],
)
def test_other_conditions_never_pass(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], lenient: int
) -> None:
    """Other machines, another unit, and repetitions that have not run."""
    record("before", one(*STEADY))
    record("now", one(*STEADY), **options)
    base = ("gate", "now", "--baseline", "before", "--max-regression", "throughput=5%")
    assert judged(rsctl, *base) == (8, "no-data")
    assert judged(rsctl, *base, "--allow-inconclusive")[0] == lenient
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error " in rsctl(*base).err
    assert ("::error " in rsctl(*base, "--allow-inconclusive").err) == (lenient != 0)


@pytest.mark.parametrize(
    "floor",
    [
        *("throughput=-5%", "throughput=nan", "throughput=nan%", "throughput=inf", "=5%", ""),
        *("throughput=1e999", "throughput=5%%", "throughput=\u0665%", "throughput[=5%", "x=5%"),
        *(
            "throughput[n=1]=5%",
            "throughput",
            "throughput=",
            "throughput=100%",
            "throughput=1e-300",
        ),
    ],
)
def test_wrong_floors(rsctl: Cli, floor: str) -> None:
    record("before", one(*STEADY))
    record("now", one(*SLOW))
    done = rsctl("gate", "now", "--baseline", "before", "--max-regression", floor)
    assert (done.code, done.out, done.err[:7]) == (2, "", "error: ")


@pytest.mark.parametrize(
    ("floor", "code"),
    [("0%", 7), ("0", 7), ("11.5%", 0), ("11.5", 0), ("10.5", 8), ("8.5", 7), ("99%", 0)],
)
def test_floors_at_their_edges(rsctl: Cli, floor: str, code: int) -> None:
    record("before", one(*STEADY))
    record("now", one(*SLOW))
    base = ("gate", "now", "--baseline", "before", "--max-regression", f"throughput={floor}")
    assert judged(rsctl, *base)[0] == code


@pytest.mark.parametrize(
    ("looks", "changed", "unchanged"),
    [
        ("1", (7, "regressed"), (0, "pass")),
        ("12", (7, "regressed"), (0, "pass")),
        ("13", (8, "inconclusive"), (8, "inconclusive")),
    ],
)
def test_decisions_about_one_baseline_share_an_error_bound(
    rsctl: Cli, looks: str, changed: tuple[int, str], unchanged: tuple[int, str]
) -> None:
    """The least p of 5+5 runs is 1/252, less than a twelfth of 0.05."""
    record("before", one(*STEADY))
    record("slow", one(*SLOW))
    record("same", one(*STEADY))
    options = ("--baseline", "before", "--max-regression", "throughput=5%", "--looks", looks)
    assert judged(rsctl, "gate", "slow", *options) == changed
    assert judged(rsctl, "gate", "same", *options) == unchanged


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("100.0", "1e999", 2, "b.json is not a valid baseline: "),
        ("100.0", "null", 0, "throughput: of the baseline, 1 of 5 runs have no data\n"),
        ("{\n", "\ufeff{\n", 0, "throughput: 5+5 runs per cell"),
        ("        100.0,\n", "", 0, "throughput: 4+5 runs per cell"),
        ('"max"', '"up"', 8, "metrics.throughput.goal: up -> max"),
    ],
)
def test_a_damaged_baseline(rsctl: Cli, old: str, new: str, code: int, said: str) -> None:
    """A value that is taken away leaves a valid file of fewer runs."""
    record("before", one(*STEADY))
    record("now", one(*STEADY))
    rsctl("gate", "before", "--update-baseline", "--baseline", "b.json")
    text = Path("b.json").read_text()
    assert old in text
    Path("b.json").write_text(text.replace(old, new, 1))
    done = rsctl("gate", "now", "--baseline", "b.json", "--max-regression", "throughput=5%")
    assert (done.code, said in done.err) == (code, True), done.err


def test_a_baseline_of_fewer_runs_says_so(rsctl: Cli) -> None:
    record("before", one(CRASHED, *STEADY[1:]))
    record("now", one(*STEADY))
    done = rsctl("gate", "now", "--baseline", "before", "--max-regression", "throughput=5%")
    assert done.code == 0
    assert "throughput: of the baseline, 1 of 5 runs have no data: before-0-0 failed\n" in done.err


@pytest.mark.parametrize(("runs", "is_few"), [(2, True), (3, False)])
def test_a_baseline_of_few_runs_is_of_no_use(rsctl: Cli, runs: int, is_few: bool) -> None:
    record("before", {"a": STEADY[:runs], "b": STEADY})
    done = rsctl("gate", "before", "--update-baseline", "--baseline", "b.json")
    assert done.code == 0
    told = f"b.json: 2 cells, {runs} runs each, from before\n"
    few = "fewer than 3 runs per cell cannot show a difference: start with --repeat 5\n"
    assert done.err == told + (few if is_few else "")
