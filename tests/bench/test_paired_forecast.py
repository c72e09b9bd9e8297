"""The sentences on pairs before they run: what they can detect, their time and their money."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.bench.fingerprint import Fingerprint
from rsctl.bench.paired import block_numbers
from rsctl.bench.paired_forecast import forecast_pairs, format_paired_cost
from rsctl.bench.paired_gate import evaluate_pairs
from rsctl.bench.paired_plan import PairedPlan, pair_plans
from rsctl.bench.paired_results import PairedResults
from rsctl.bench.prepare import prepare
from rsctl.bench.records import Against
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.verdict import Floor, Verdict
from rsctl.job.document import read

AGAINST = Against(given="main", commit="c" * 40, file="job.yaml")
FLOORS = {"speed": Floor(0.05)}


def side(speeds: list[float | None], seconds: float, dollars: float | None) -> Results:
    series = [
        Series(name="speed", goal="max", values=speeds),
        Series(name="run.time", values=[seconds] * len(speeds)),
        Series(name="run.cost", values=[dollars] * len(speeds)),
    ]
    return Results(
        label="x", kind="bench", fingerprint=Fingerprint(), series=series, cells=[CellRuns()]
    )


def known(dollars: float | None = 0.5) -> PairedResults:
    """An earlier bench whose machine slows down; a run's noise is 1 % beside that."""
    before = side([101.0, 99.0, 91.0, 89.0], 60, dollars)
    after = side([99.0, 101.0, 89.0, 91.0], 30, dollars)
    return PairedResults(AGAINST, before, after, {"": list(block_numbers(4))}, {})


@pytest.mark.parametrize(
    ("baseline", "candidate", "commit", "reason"),
    [
        (False, True, True, "all runs of the candidate failed: out of memory"),
        (True, True, True, "all runs of the candidate failed: out of memory"),
        (
            *(True, False, True),
            "all runs of the baseline, main (cccccccccccc), failed: out of memory; files that "
            "git does not track are not in the folder of a commit",
        ),
        (True, False, False, "all runs of the baseline, other.yaml, failed: out of memory"),
    ],
)
def test_a_side_of_which_all_runs_failed(
    baseline: bool, candidate: bool, commit: bool, reason: str
) -> None:
    results = known()
    for has_failed, of_side in ((baseline, results.baseline), (candidate, results.candidate)):
        lost = {"runs": ["a"], "failures": [1], "lost": ["out of memory"]} if has_failed else {}
        of_side.cells[:] = [CellRuns(**lost)]  # type: ignore[arg-type]
    against = AGAINST if commit else Against(given="other.yaml", file="other.yaml")
    [check] = evaluate_pairs(results._replace(against=against), FLOORS).checks
    assert (check.verdict, check.reason) == (Verdict.NO_DATA, reason)


@pytest.mark.parametrize(
    ("repeat", "cells", "confirm", "sentence"),
    [
        (2, 1, 0, "speed: 2 pairs of runs per cell cannot show any regression: --repeat 3 could"),
        (1, 1, 3, "speed: 1 pair of runs per cell cannot show any regression: --repeat 2 could"),
        (
            4,
            6,
            0,
            "speed: 4 pairs of runs per cell cannot show any regression of a single cell: "
            "--repeat 5 could",
        ),
        (
            3,
            1,
            0,
            "speed: 3 pairs of runs per cell, 5 % allowed; the noise is unknown, and so is the "
            "smallest regression that they detect",
        ),
    ],
)
def test_too_few_pairs(repeat: int, cells: int, confirm: int, sentence: str) -> None:
    values = [{"w": number} for number in range(cells)]
    [found] = forecast_pairs(None, FLOORS, values, repeat, confirm)
    assert found.in_words() == sentence


def test_the_noise_is_that_within_blocks() -> None:
    [found] = forecast_pairs(known(), FLOORS, [{}], 5)
    assert found.in_words() == (
        "speed: 5 pairs of runs per cell, noise 1.5 %: they detect a regression of 5.8 % in 80 % "
        "of cases"
    )
    [strict] = forecast_pairs(known(), {"speed": Floor(0.01)}, [{}], 5)
    assert strict.in_words().endswith(
        "1 % is smaller than this noise requires: increase the number of runs, or allow 2.5 %"
    )
    [amount] = forecast_pairs(known(), {"speed": Floor(5.0, is_relative=False)}, [{}], 5)
    assert amount.in_words() == (
        "speed: 5 pairs of runs per cell, noise 1.4: they detect a regression of 5.8 in 80 % of "
        "cases"
    )


def plan(tmp_path: Path, **more: object) -> PairedPlan:
    for name in ("before.json", "after.json"):
        job = {
            "name": "sweep",
            "target": "vertex",
            "run": {"command": ["true"], "launcher": "none"},
            "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
            "outputs": "gs://bucket/out",
            "workers": {"machine": "n1-standard-8"},
            "targets": {"vertex": {"project": "rehearsal", "region": "us-central1"}},
            **more,
        }
        (tmp_path / name).write_text(json.dumps(job))
    plans = [prepare(read(str(tmp_path / n)), (), None) for n in ("after.json", "before.json")]
    return pair_plans(*plans, AGAINST)


def cost(known: PairedResults | None, paired: PairedPlan) -> str:
    submissions = [cell.submission for cell in paired.cells]
    return format_paired_cost(known, submissions, 3, paired.job.limits.timeout)


def test_time_and_money_by_an_earlier_bench_or_by_limits(tmp_path: Path) -> None:
    limited = plan(tmp_path, limits={"timeout": "15m"})
    runs = "6 runs, 3 of each side in turn"
    assert cost(known(), limited) == f"{runs}, about 4:30 of sequential work, about 3 USD"
    most = "at most 1:30:00 of sequential work (limits.timeout)"
    assert cost(None, limited).startswith(f"{runs}, {most}, at most 0.")
    assert cost(None, limited).endswith(" USD")


@pytest.mark.parametrize(
    ("timeout", "text"),
    [
        (None, ", the time is unknown before the first run"),
        (900.0, ", at most 1:30:00 of sequential work (limits.timeout)"),
    ],
)
def test_what_is_known_of_pairs_that_cost_nothing(
    tmp_path: Path, timeout: float | None, text: str
) -> None:
    submissions = [cell.submission for cell in plan(tmp_path).cells]
    shown = format_paired_cost(None, submissions, 3, timeout, is_billed=False)
    assert shown == f"6 runs, 3 of each side in turn{text}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"goal": "min"}, "its goal is min, but the baseline's is max"),
        ({"goal": None}, None),
        ({"values": [None] * 4}, "the candidate has no data for it: it is not logged"),
        (
            {"values": [None] * 4, "reasons": ["a", "b", "c", "d"]},
            "the candidate has no data for it: a; b; c",
        ),
        ({"name": "other"}, "the candidate has no data for it: it is not logged"),
    ],
)
def test_why_pairs_of_a_metric_are_not_judged(change: dict[str, Any], reason: str | None) -> None:
    results = known()
    results.candidate.series[0] = replace(results.candidate.series[0], **change)
    [check] = evaluate_pairs(results, FLOORS).checks
    assert (check.reason if check.verdict is Verdict.NO_DATA else None) == reason
