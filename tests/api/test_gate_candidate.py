"""The candidate of a gate: its name on a command line, its rules, and what it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import gate_candidate
from rsctl.api.bench_handle import Bench
from rsctl.api.gate_candidate import Candidate, cost_remarks, open_candidate
from rsctl.bench.records import Against, Benches, BenchRecord
from rsctl.bench.results import Results, Series
from rsctl.findings import ExitCode, RsctlError, error

PLANNED: Any = SimpleNamespace(plan=None)


def record(**fields: Any) -> BenchRecord:
    known = {"created": "2026-01-31T12:00:00.000000Z", "cells": [{"a": 1}], "repeat": 3}
    return BenchRecord(
        bench="job-bench-1", name="job", target="process", definition="x", **{**known, **fields}
    )


def candidate(prepared: Any = None, **fields: Any) -> Candidate:
    return Candidate(record(**fields), prepared, new=False)


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({}, ["JOB"]),
        ({"file": "-"}, ["JOB"]),
        ({"file": os.path.abspath("a/job.yaml")}, ["a/job.yaml"]),
        (
            {"target": "vertex", "settings": ["a=1", "b=2"]},
            ["JOB", "--target", "vertex", "--set", "a=1", "--set", "b=2"],
        ),
        ({"target": "vertex", "spec": {"target": "vertex"}}, ["JOB"]),
        ({"spec": {"target": "vertex"}}, ["JOB", "--target", "process"]),
    ],
)
def test_a_command_about_the_same_job(fields: dict[str, Any], arguments: list[str]) -> None:
    made = Candidate(
        BenchRecord(
            **{
                "bench": "b", "name": "job", "target": "process", "definition": "x",
                "created": "2026-01-31T12:00:00.000000Z", "cells": [{}], **fields,
            }
        ),
        PLANNED,
        new=False,
    )  # fmt: skip
    assert made.job_arguments == arguments


def test_a_command_about_a_bench_of_the_store() -> None:
    assert candidate().job_arguments == ["job-bench-1"]


def test_the_properties_of_a_bench_that_has_run() -> None:
    made = candidate(folder="/jobs")
    assert (made.name, made.folder, made.new, made.cells) == ("job", "/jobs", False, [{"a": 1}])
    assert candidate().folder == "."
    assert [made.repeat(asked) for asked in (None, 7)] == [3, 3]
    assert [candidate(PLANNED).repeat(asked) for asked in (None, 7)] == [5, 7]
    sides = [{"a": 1, "side": "baseline"}, {"a": 1, "side": "candidate"}]
    paired = candidate(cells=sides, against=Against(given="main", file="job.yaml"))
    assert paired.cells == [{"a": 1}]
    with pytest.raises(ValueError, match="job-bench-1 has already run"):
        made.only([{"a": 1}])


@pytest.mark.parametrize(
    ("done", "new", "remarks"),
    [
        (0, False, ["4 runs"]),
        (1, False, ["4 runs; 1 of them has already succeeded"]),
        (3, False, ["4 runs; 3 of them have already succeeded"]),
        (4, False, []),
        (4, True, ["4 runs"]),
    ],
)
def test_the_cost_is_that_of_runs_that_remain(
    monkeypatch: pytest.MonkeyPatch, done: int, new: bool, remarks: list[str]
) -> None:
    monkeypatch.setattr(Benches, "succeeded", lambda _, definition, repeat, excluded: done)
    bench = record(repeat=2, cells=[{"a": 1}, {"a": 2}])
    assert cost_remarks(Candidate(bench, None, new), bench, "4 runs") == remarks


def test_rules_may_be_a_mapping_or_texts() -> None:
    made = candidate(spec={"gate": {"max_regression": {"loss": "1%"}}})
    for given in ({"loss": "5%", "speed": "2%"}, ["loss=5%", "speed=2%"]):
        assert sorted(made.rules(max_regression=given).floors) == ["loss", "speed"]
    assert list(made.rules().floors) == ["loss"]


def refused(call: Callable[[], object]) -> Any:
    with pytest.raises(RsctlError) as caught:
        call()
    assert caught.value.exit_code is ExitCode.USAGE
    [finding] = caught.value.findings
    return finding


def test_a_bench_that_has_run_has_no_other_number_of_runs() -> None:
    found = refused(lambda: candidate().rules(repeat=3))
    message = "--repeat requires a job file; a bench has already run"
    assert found == error("bench", message, "give the job file, or omit --repeat")
    assert candidate(PLANNED).rules(repeat=3).repeat == 3


BASELINE = Results(label="b", kind="bench", series=[Series(name="speed", goal="max")])


@pytest.mark.parametrize(
    ("spec", "baseline", "name", "remedy"),
    [
        ({"metrics": {"loss": {}}}, BASELINE, "los", "did you mean loss?"),
        ({"metrics": {"loss": {}}}, BASELINE, "zzz", "metrics: loss, speed"),
        ({}, Results(label="b", kind="bench"), "zzz", "metrics: none"),
    ],
)
def test_a_metric_that_neither_side_has(
    spec: dict[str, Any], baseline: Results, name: str, remedy: str
) -> None:
    floors: Any = {"speed": None, name: None} if baseline.series else {name: None}
    message = f"neither the job file nor the baseline has a metric {name!r}"
    found = refused(lambda: candidate(spec=spec).require_metrics(floors, baseline))
    assert found == error("gate", message, remedy)
    candidate(spec=spec).require_metrics({}, baseline)


@pytest.mark.parametrize(
    ("options", "message", "remedy"),
    [
        (
            {"rehearse": "yes"},
            "--rehearse requires a job file; a bench has already run",
            "give the job file",
        ),
        (
            {"target": "vertex"},
            "--set and --target require a job file; a bench has already run with its settings",
            "give the job file, or omit --set and --target",
        ),
        (
            {"set": ["a=1"]},
            "--set and --target require a job file; a bench has already run with its settings",
            "give the job file, or omit --set and --target",
        ),
    ],
)
def test_options_that_need_a_job_file(options: Any, message: str, remedy: str) -> None:
    found = refused(lambda: open_candidate("job-bench-1", **options))
    assert found == error("bench", message, remedy)


def test_what_is_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A bench by its handle or its reference, and a job file by its name or its path."""
    known = Bench(record())
    monkeypatch.setattr(gate_candidate, "bench", lambda name: known if name == "job-b" else None)
    monkeypatch.setattr(gate_candidate, "load", lambda path, **how: (str(path), how["set"]))
    monkeypatch.setattr(
        gate_candidate, "_of_job_file", lambda job, target, new, rehearse: (job, target, new)
    )
    for source in (known, "job-b"):
        made = open_candidate(source, new=True)
        assert (made.record, made.prepared, made.new) == (known.record, None, True)
    (tmp_path / "plain").touch()
    for job in ("-", "a.yaml", "a.yml", str(tmp_path / "plain"), tmp_path / "none"):
        found: Any = open_candidate(job, "vertex", set=["a=1"])
        assert found == ((str(job), ["a=1"]), "vertex", False)
