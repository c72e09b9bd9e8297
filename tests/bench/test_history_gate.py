"""Gates by a history: the window, its thresholds, and what is better than a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import median

import msgspec
import pytest

from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.forecast import forecast
from rsctl.bench.gate import evaluate
from rsctl.bench.history import HistoryRecord, short_commit
from rsctl.bench.history_gate import (
    HistoryBaseline,
    floors_of,
    history_baseline,
    improvements,
    outdated_text,
    with_limits,
    within_thresholds,
)
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.verdict import ALPHA, Floor, Verdict
from rsctl.findings import ExitCode, RsctlError
from tests.bench.test_history import CELL, record, series_of

FLOORS = {"throughput": Floor(0.05)}
STEADY = (99.5, 100.0, 100.5)


def candidate(values: Sequence[float], machine: str = "EPYC") -> Results:
    fixed = {"target": "process", "machine": machine}
    return Results(
        label="now",
        kind="bench",
        fingerprint=Fingerprint([CellPrint(CELL, fixed)], {"throughput": {"aggregate": "median"}}),
        series=[Series(name="throughput", goal="max", cell=CELL, values=list(values))],
        cells=[CellRuns(cell=CELL)],
    )


def window(
    records: Sequence[HistoryRecord], most: int = 20, like: Results | None = None
) -> HistoryBaseline:
    return history_baseline(
        series_of(records), "h.jsonl", "job", most, like.fingerprint if like else None
    )


def test_a_reverted_commit_counts_once() -> None:
    """Its runs are those of the commit that it restores."""
    x, y = [99.5, 100.0, 100.5], [97.5, 98.0, 98.5]
    records = [record(1, x, "x"), record(2, y, "y"), record(3, x, "x")]
    for others in ([], [record(4, x, "x")]):
        found = window([*records, *others]).results
        assert [series.values for series in found.series] == [[*y, *x]]
        assert found.label == "h.jsonl, last 2 commits"
    assert [s.values for s in window([*records, record(4, y, "y")], 1).results.series] == [y]
    both = [record(3, y, "y"), record(3, x, "x")]  # its second bench counts at a later commit
    records = [record(1, y, "y"), record(2), *both, record(4), record(5, x, "x")]
    [series] = window(records).results.series
    assert series.values == [*y, 100.0, 100.0, *x]


def steady(count: int, level: float = 1.0, first: int = 0) -> list[HistoryRecord]:
    """Commits whose runs differ by half a percent, and their medians by up to one."""
    return [
        record(first + n, [level * (1 + n % 3 / 200) * value for value in STEADY])
        for n in range(count)
    ]


def test_the_window_is_the_last_commits() -> None:
    found = window(steady(12), most=2)
    assert found.results.label == "h.jsonl, last 2 commits"
    [series] = found.results.series
    assert series.values == pytest.approx(
        [*(1.005 * v for v in STEADY), *(1.01 * v for v in STEADY)]
    )
    assert found.results.fingerprint.of_cell(CELL) == {"target": "process", "machine": "EPYC"}


def test_the_window_begins_at_the_last_step() -> None:
    """The label names a step that made the metric worse: the regression may still be there."""
    records = [*steady(15), *steady(10, level=0.8, first=15)]
    for each in records:  # each metric has a window of its own
        [cell] = each.cells
        [own] = cell.metrics
        cell.metrics.append(msgspec.structs.replace(own, name="run.time", values=[9.0]))
    found = window(records)
    commit = short_commit(records[15].commit)
    what = "throughput (workers.count=2) became worse (-20 %)"
    assert found.results.label == f"h.jsonl, last 10 commits, since {commit}, where {what}"
    [series, _] = found.results.series
    assert max(series.known) < 90
    assert window(records, most=9).results.label == "h.jsonl, last 9 commits"
    better = window([*steady(15), *steady(10, level=1.2, first=15)])
    assert better.results.label == "h.jsonl, last 10 commits"


def test_one_commit_is_a_window_without_a_threshold() -> None:
    found = window(steady(1))
    assert (found.results.label, found.thresholds) == ("h.jsonl, last commit", {})
    assert floors_of(found) == {}


def test_the_machine_of_the_candidate_counts() -> None:
    slow = [record(n, [80.0, 81.0, 82.0], f"x{n}", machine="Xeon") for n in range(3, 6)]
    records = [*steady(3), *slow, *steady(2, first=8)]
    now = candidate([80.0, 81.0, 82.0], "Xeon")
    [series] = window(records, like=now).results.series
    assert series.known == [80.0, 81.0, 82.0] * 3
    [series] = window(records).results.series
    assert min(series.known) > 99
    other = candidate(STEADY, "Graviton")
    gate = evaluate(window(records, like=other).results, other, FLOORS)
    assert gate.verdict is Verdict.NO_DATA
    assert [str(each) for each in gate.refused] == ["machine: EPYC -> Graviton"]


def test_a_job_without_records() -> None:
    with pytest.raises(RsctlError) as caught:
        history_baseline(series_of(steady(3)), "h 1.jsonl", "other", 20)
    [finding] = caught.value.findings
    assert (finding.message, finding.remedy) == (
        "h 1.jsonl has no records of the job other",
        "record it first: rsctl gate JOB --record 'h 1.jsonl'; jobs in it: job",
    )


def test_a_regression_that_commits_show_themselves_is_inconclusive() -> None:
    noisy = [record(n, [level] * 3) for n, level in enumerate([100.0, 108.0, 93.0, 104.0, 96.0])]
    found = window(noisy)
    [threshold] = found.thresholds.values()
    assert threshold.commits == 5
    assert threshold.amount == pytest.approx(0.14, abs=0.02)
    now = candidate([91.0, 91.1, 91.2, 91.3, 91.4])
    gate = evaluate(found.results, now, FLOORS)
    assert gate.verdict is Verdict.REGRESSED
    limited = within_thresholds(gate, found)
    assert (limited.verdict, limited.exit_code) == (Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE)
    reasons = [check.reason or "" for check in limited.checks]
    assert reasons[0].startswith("exceeds the allowed regression, but single ones of the last 5 ")
    worse = candidate([70.0, 70.1, 70.2, 70.3, 70.4])
    assert within_thresholds(evaluate(found.results, worse, FLOORS), found).exit_code == 7


def test_the_checks_and_looks_of_a_gate_share_the_error_of_the_limit() -> None:
    """The commit regresses if it has one check; with ten checks or looks it is inconclusive."""
    levels = [100.0, 104.0, 96.0, 102.0, 98.0, 103.0, 97.0, 101.0, 99.0, 100.5]
    found = window([record(n, [level] * 3) for n, level in enumerate(levels)])
    now = candidate([93.0, 93.1, 93.2, 93.3, 93.4])
    gate = evaluate(found.results, now, FLOORS)
    assert within_thresholds(gate, found).verdict is Verdict.REGRESSED
    assert within_thresholds(gate, found, alpha=ALPHA / 10).verdict is Verdict.INCONCLUSIVE
    gate.checks = [*gate.checks, *(msgspec.structs.replace(c, metric="b") for c in gate.checks * 9)]
    assert within_thresholds(gate, found).checks[0].verdict is Verdict.INCONCLUSIVE


def test_a_forecast_counts_with_what_commits_differ_by() -> None:
    """The commits differ by 3 %, and each commit's runs by 0.1 %."""
    random, found, cases = Random(1), 0, 300
    for _ in range(cases):
        levels = [random.gauss(100, 3) for _ in range(11)]
        known = window(
            [
                record(n, [level * (1 + n / 1000) for n in range(3)])
                for n, level in enumerate(levels[:10])
            ]
        )
        [before] = forecast(known.results, FLOORS, [CELL], 3)
        [said] = with_limits([before], known, checks=1)
        assert (before.detectable or 0) < (said.detectable or 0) < 0.2
        values = [levels[-1] * (1 - (said.detectable or 0)) * (1 + n / 1000) for n in range(3)]
        effect = median(values) / median(known.results.series[0].known) - 1
        [threshold] = known.thresholds.values()
        found += -effect > max(0.05, threshold.amount)
    assert 0.75 <= found / cases <= 0.85


def test_commits_limit_an_allowed_amount_too() -> None:
    noisy = [record(n, [level] * 3) for n, level in enumerate([100.0, 108.0, 93.0, 104.0, 96.0])]
    found, floors = window(noisy), {"throughput": Floor(5.0, is_relative=False)}
    by_amount, by_part = (
        with_limits(forecast(found.results, floor, [CELL], 3), found, checks=1)[0].detectable or 0
        for floor in (floors, FLOORS)
    )
    assert by_amount == pytest.approx(100 * by_part)
    for level, verdict in ((91.0, Verdict.INCONCLUSIVE), (70.0, Verdict.REGRESSED)):
        gate = evaluate(found.results, candidate([level + n / 10 for n in range(5)]), floors)
        assert gate.verdict is Verdict.REGRESSED
        limited = within_thresholds(gate, found)
        assert limited.verdict is verdict
        assert ("by up to 14." in (limited.checks[0].reason or "")) is (level == 91.0)


def test_a_cell_that_failed_decides_the_exit_code() -> None:
    noisy = [record(n, [level] * 3) for n, level in enumerate([100.0, 108.0, 93.0, 104.0, 96.0])]
    found = window(noisy)
    now = candidate([91.0, 91.1, 91.2, 91.3, 91.4])
    now.cells.append(CellRuns(cell={"workers.count": 4}, runs=["x"], failures=[6], lost=["x"]))
    gate = evaluate(found.results, now, FLOORS)
    assert gate.exit_code == 7
    assert within_thresholds(gate, found, now.cells).exit_code == ExitCode.TIMED_OUT


def test_thresholds_as_allowed_regressions() -> None:
    [(name, floor)] = floors_of(window(steady(12))).items()
    assert name == "throughput"
    assert floor.is_relative
    assert floor.amount == pytest.approx(0.008, abs=0.001)
    assert floors_of(window([record(n, [5.0] * 3) for n in range(5)])) == {
        "throughput": Floor(0.001)
    }


def test_improvements() -> None:
    before = window(steady(10)).results
    better = candidate([112.0, 112.5, 113.0])
    gate = evaluate(before, better, FLOORS)
    [check] = improvements(before, better, FLOORS, gate)
    assert outdated_text(check) == "throughput (workers.count=2) is 11.9 % better"
    for same in (candidate(STEADY), candidate([103.0, 103.5, 104.0]), candidate([80.0] * 3)):
        assert improvements(before, same, FLOORS, evaluate(before, same, FLOORS)) == []


def test_an_improvement_of_a_time() -> None:
    def timed(results: Results) -> Results:
        series = [msgspec.structs.replace(one, goal="min") for one in results.series]
        return msgspec.structs.replace(results, series=series)

    before, after = timed(candidate([10.0, 10.1, 10.2, 10.0])), timed(candidate([8.0, 8.1, 8.0]))
    [check] = improvements(before, after, FLOORS, evaluate(before, after, FLOORS))
    assert outdated_text(check) == "throughput (workers.count=2) is 19.9 % better"
