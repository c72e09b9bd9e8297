"""Runs and benches as results: what counts, what is lost and why, and how they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.bench.prepare import plan_confirmation, prepare, reopen
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.results import CellRuns, bench_results, cell_label, find_source, run_results
from rsctl.bench.summary import counts, done, format_cell, summarize
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.job.document import read
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure
from rsctl.runs.stream.metrics import MetricSpec

from .conftest import MakeRun, at, values

SPECS = {"loss": MetricSpec("loss=(.*)", goal="min", unit="nats"), "f1": MetricSpec("f1=(.*)")}
ONE, TWO = {"workers.count": 1}, {"workers.count": 2}


def bench(store: Store, *trials: Trial, name: str = "b-1", repeat: int = 3) -> BenchRecord:
    benches = Benches(store)
    benches.claim(
        BenchRecord(
            **{"bench": name, "name": "b", "target": "process", "definition": f"d {name}"},
            **{"created": at(0), "cells": [ONE, TWO], "repeat": repeat},
        )
    )
    for trial in trials:
        benches.begin(name, trial)
        benches.note(name, trial)
    return benches.find(name)


def trial(run: str, cell: int, repetition: int, state: str = "succeeded", **more: object) -> Trial:
    return Trial(cell=cell, repetition=repetition, run=run, state=JobState(state), **more)  # type: ignore[arg-type]


def end(store: Store, run: str, state: str, reason: str | None = None) -> None:
    with store.transaction() as db:
        db.execute("UPDATE runs SET state=?, reason=? WHERE id=?", (state, reason, run))


def test_the_results_of_one_run(store: Store, make_run: MakeRun) -> None:
    found = run_results(store, make_run(values("loss", [3.0, 2.0, 1.0]), SPECS))
    assert (found.label, found.kind, found.made) == ("job-a", "run", at(0))
    loss = found.find("loss", {})
    assert loss is not None
    assert (loss.unit, loss.goal, loss.values, loss.logged) == ("nats", "min", [2.0], 3)
    f1 = found.find("f1", {})
    assert f1 is not None
    assert (f1.values, f1.logged) == ([None], None)
    assert f1.reasons
    assert {s.logged for s in found.series if s.name.startswith(("run.", "step."))} == {None}
    assert found.of_cell({}) == found.cells[0]
    assert (found.cells[0].runs, found.cells[0].lost, found.cells[0].failures) == (
        ["job-a"],
        [],
        [],
    )
    assert found.fingerprint.metrics["loss"]["goal"] == "min"
    assert found.fingerprint.of_cell({}) == {"target": "process"}
    assert found.find("loss", ONE) is found.of_cell(ONE) is None


@pytest.mark.parametrize(
    ("state", "reason", "lost", "failures"),
    [
        ("failed", "it crashed", "job-a failed: it crashed", [1]),
        ("running", None, "job-a is still running", []),
        ("cancelled", None, "job-a cancelled", [int(JobState.CANCELLED.exit_code)]),
    ],
)
def test_a_run_that_did_not_succeed_has_no_figures(
    store: Store, make_run: MakeRun, state: str, reason: str | None, lost: str, failures: list[int]
) -> None:
    make_run(values("loss", [3.0, 2.0, 1.0]), SPECS)
    end(store, "job-a", state, reason)
    found = run_results(store, store.find("job-a"))
    loss = found.find("loss", {})
    assert loss is not None
    assert (loss.values, loss.reasons, loss.unit) == ([None], [lost], "nats")
    assert (found.cells[0].lost, found.cells[0].failures) == ([lost], failures)
    assert found.cells[0].has_failed is bool(failures)


def test_the_results_of_a_bench(store: Store, make_run: MakeRun) -> None:
    make_run(values("loss", [3.0, 2.0, 1.0]), SPECS, "job-a")
    make_run(values("loss", [4.0, 4.0]), SPECS, "job-b")
    make_run(values("loss", [9.0]), SPECS, "job-c")
    make_run((), SPECS, "job-d")
    known = bench(
        store,
        trial("job-a", 0, 0),
        trial("job-c", 0, 1, "failed", exit_code=3, reason="it crashed"),
        trial("job-b", 0, 1, attempt=1),
        trial("job-d", 1, 0, "running"),
        trial("gone", 1, 1, "failed", exit_code=None),
    )
    found = bench_results(store, known)
    assert (found.label, found.kind) == ("b-1", "bench")
    loss = found.find("loss", ONE)
    assert loss is not None
    assert (loss.values, loss.goal, loss.logged) == ([2.0, 4.0, None], "min", 2)
    first, second = found.cells
    assert (first.runs, first.wanted, first.failures) == (["job-a", "job-b"], 3, [])
    assert first.lost == ["1 of 3 repetitions have not run"]
    assert (second.runs, second.failures, second.has_failed) == (["job-d", "gone"], [1], False)
    assert second.lost == [
        *("job-d is running", "gone failed", "1 of 3 repetitions have not run"),
    ]
    other = found.find("loss", TWO)
    assert other is not None
    assert (other.values, other.reasons) == ([None] * 3, second.lost)
    assert "definition" not in found.fingerprint.shown
    part = bench_results(store, known, range(1, 2), "fresh")
    assert part.label == "fresh"
    assert next(series.values for series in part.series if series.cell == ONE) == [4.0]
    assert part.cells[0].lost == []


def test_a_failed_run_is_lost_with_its_known_cause(store: Store, make_run: MakeRun) -> None:
    """A CI system shows the reason, and not the log of the run."""
    make_run(values("loss", [3.0]), SPECS)
    cause = error("gpu", "a GPU failed, not the script")
    store.record_failure(
        "job-a", Failure(replica="worker-0", time=at(1), exit_code=1, causes=[cause])
    )
    end(store, "job-a", "failed", "it crashed")
    known = bench(store, trial("job-a", 0, 0, "failed", exit_code=1, reason="it crashed"), repeat=1)
    lost = ["job-a failed: it crashed (a GPU failed, not the script)"]
    assert bench_results(store, known).cells[0].lost == lost
    assert run_results(store, store.find("job-a")).cells[0].lost == lost


def test_the_image_of_a_bench_is_shown_by_digest(store: Store, make_run: MakeRun) -> None:
    make_run((), SPECS, "job-a", plan={"image": {"tag": "x/y:1"}, "env": {"A": "1"}})
    known = bench(store, trial("job-a", 0, 0))
    assert bench_results(store, known).fingerprint.shown["image"] == "x/y:1"
    Benches(store).have_image("b-1", "x/y:1", "x/y@sha256:1")
    shown = bench_results(store, Benches(store).find("b-1")).fingerprint.shown
    assert (shown["image"], shown["env.A"]) == ("x/y@sha256:1", "1")


def test_a_cell_in_which_every_run_failed_has_failed(store: Store) -> None:
    known = bench(store, trial("x", 0, 0, "failed", exit_code=3), trial("y", 1, 0, "succeeded"))
    first, second = bench_results(store, known).cells
    assert (first.failures, first.has_failed, second.has_failed) == ([3], True, False)


def test_the_summary_of_a_bench(store: Store, make_run: MakeRun) -> None:
    make_run(values("loss", [3.0, 2.0, 1.0]), SPECS, "job-a")
    make_run(values("loss", [4.0, 4.0, 4.0]), SPECS, "job-b")
    make_run((), SPECS, "job-c")
    known = bench(
        store,
        trial("job-a", 0, 0),
        trial("job-b", 0, 1),
        trial("job-c", 1, 0, "failed"),
        trial("gone", 1, 3),
    )
    one, two = summarize(store, known)
    assert (one.values, one.runs, two.runs) == (ONE, ["job-a", "job-b"], ["gone"])
    loss = one.metrics["loss"]
    assert (loss.value, loss.values, loss.n, loss.unit, loss.goal, loss.reason) == (
        *(3.0, [2.0, 4.0], 2, "nats", "min", None),
    )
    f1 = one.metrics["f1"]
    assert (f1.value, f1.n, f1.values, bool(f1.reason)) == (None, 0, [None, None], True)
    assert two.metrics == {}
    assert done(known) == 2  # those beyond the repetitions that are wanted do not count
    assert counts(known, 0) == {JobState.SUCCEEDED: 2}
    assert counts(known, 1) == {JobState.FAILED: 1}


def test_cells_in_words() -> None:
    cell = {"workers.count": 2, "comm.backend": "gloo", "a": None, "b": [1]}
    assert format_cell(cell) == "workers.count=2 comm.backend=gloo a=null b=[1]"
    assert format_cell({}) == "the job"
    text = "run.args.lr=0.1 workers.count=2"
    long = {"run.args.lr": 0.1, "workers.count": 2}
    assert format_cell(long, longest=len(text)) == text
    assert format_cell(long, longest=len(text) - 1) == "lr=0.1 count=2"
    assert format_cell({"a.x": 1, "b.x": 2}, longest=0) == "a.x=1 b.x=2"
    assert cell_label(cell) == "workers.count=2, comm.backend=gloo, a=null, b=[1]"
    assert cell_label({}) == ""


def named(found: object) -> str:
    return str(getattr(found, "bench", None) or getattr(found, "run", None))


def test_a_reference_is_a_run_or_a_bench(store: Store, make_run: MakeRun) -> None:
    make_run(run="alone-1")
    make_run(run="job-aa")
    bench(store, trial("job-aa", 0, 0), name="bench-1")
    bench(store, name="bench-22")
    for reference, expected in (
        ("alone-1", "alone-1"),
        ("alone", "alone-1"),
        ("bench-1", "bench-1"),
        ("bench-2", "bench-22"),
        ("job-aa", "job-aa"),
        ("@last", "bench-1"),  # whose run it is
    ):
        assert named(find_source(store, reference)) == expected
    make_run(run="bench-1x")
    make_run(run="bench-23")
    assert named(find_source(store, "@last")) == "bench-23"
    assert named(find_source(store, "bench-1")) == "bench-1"
    assert named(find_source(store, "bench-23")) == "bench-23"
    for reference in ("bench-2", "bench-"):
        with pytest.raises(RsctlError, match="matches several runs or benches") as caught:
            find_source(store, reference)
        assert caught.value.exit_code == ExitCode.USAGE
    with pytest.raises(RsctlError, match="'none' is not a run, a bench or a file"):
        find_source(store, "none")


JOB = """\
name: j
run: {command: [python, train.py]}
matrix: {workers.count: [1, 2]}
metrics: {loss: {regex: "loss=(.*)", goal: min}}
"""


def test_a_bench_is_run_again_from_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    settings = ("limits.timeout=5m",)
    prepared = prepare(read(str(path), settings), settings, None)
    assert [cell.values for cell in prepared.cells] == [ONE, TWO]
    assert prepared.cells[0].digest != prepared.cells[1].digest
    record = prepared.new_bench(3)
    assert (record.repeat, record.cells, record.file) == (3, [ONE, TWO], str(path))
    assert (record.folder, record.settings) == (str(path.parent), ["limits.timeout=5m"])
    assert record.definition == prepared.definition
    assert prepared.metric_specs["loss"].goal == "min"
    again = reopen(record)
    assert again.definition == record.definition
    part, fresh = plan_confirmation(prepared, record, [TWO], 4)
    assert [cell.values for cell in part.cells] == [TWO]
    assert (fresh.cells, fresh.repeat) == ([TWO], 4)
    assert fresh.bench.startswith("j-confirm-")
    assert fresh.definition != part.definition
    assert fresh.definition.endswith(" again")
    (path.parent / "train.py").write_text("changed")
    changed = r"the source, image or environment of j-bench-\w+ has changed since it started"
    with pytest.raises(RsctlError, match=changed):
        reopen(record)


def test_what_is_wrong_with_any_cell_is_found_before_any_runs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB + "reducers: {count: 3}\n")
    for text, message in (
        ("matrix: {workers.count: [1, 2], exclude: [{}]}", "matrix"),
        ("matrix: {workers.count: [0, 2]}", "workers.count"),
    ):
        path.write_text(JOB.replace("matrix: {workers.count: [1, 2]}", text))
        with pytest.raises(RsctlError) as caught:
            prepare(read(str(path)), (), None)
        assert caught.value.exit_code == ExitCode.USAGE
        assert message in str(caught.value.findings)


def test_a_cell_has_the_runs_of_its_confirmation_too() -> None:
    first = CellRuns(cell=ONE, runs=["a", "b"], seconds=2.5, wanted=2, lost=["x"], failures=[1])
    again = CellRuns(cell=ONE, runs=["c"], seconds=1.0, wanted=3, lost=["y"], failures=[2])
    assert first.followed_by(again) == CellRuns(
        **{"cell": ONE, "runs": ["a", "b", "c"], "seconds": 3.5, "wanted": 5},
        **{"lost": ["x", "y"], "failures": [1, 2]},
    )
    assert first.followed_by(None) == first


@pytest.mark.parametrize("secret", ["hunter2", '"hunter2"'])
def test_a_bench_whose_job_file_had_a_secret_and_was_edited(secret: str, tmp_path: Path) -> None:
    """Its other runs would have no secret, or be of another job."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("train.py]", f"train.py], env: {{API_KEY: {secret}}}"))
    record = prepare(read(str(path)), (), None).new_bench(1)
    assert "hunter2" not in record.text
    assert "hunter2" in reopen(record).document.text
    path.write_text("name: other\n")
    with pytest.raises(RsctlError) as caught:
        reopen(record)
    message = f"the job file of {record.bench} has a secret, which rsctl does not store, and has "
    assert (caught.value.exit_code, caught.value.findings) == (
        ExitCode.USAGE,
        (
            error(
                "bench",
                f"{message}changed since the bench started",
                "restore it, or measure it again: rsctl bench run JOB",
            ),
        ),
    )
