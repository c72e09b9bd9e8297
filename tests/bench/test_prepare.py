"""What makes two benches measure the same, what of a series counts, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.bench import prepare as module
from rsctl.bench.baseline import make_baseline
from rsctl.bench.inputs import code_digest
from rsctl.bench.phases import StepDurations, phases_of, steady_steps
from rsctl.bench.prepare import prepare
from rsctl.bench.records import Benches, BenchRecord
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.steady import Steady, transient
from rsctl.bench.verdict import Verdict, worst
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.job.document import read
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import StateEvent
from rsctl.runs.stream.ndjson import event_line

from .conftest import MakeRun, at

JOB = """\
name: j
run: {script: train.py, args: {lr: 1}}
image: {source: src}
workers: {count: 2}
limits: {timeout: 1h, retries: 1}
metrics: {loss: {regex: "loss=(.*)", goal: min}}
"""


def definition(folder: Path, text: str) -> str:
    (folder / "job.yaml").write_text(text)
    return prepare(read(str(folder / "job.yaml")), (), None).definition


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('loss=1')")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lr: 1", "lr: 2"),
        ("count: 2", "count: 3"),
        ("timeout: 1h", "timeout: 2h"),
        ("retries: 1", "retries: 2"),
        ("goal: min", "goal: max"),
        ("loss=(.*)", "loss: (.*)"),
        ("args: {lr: 1}", "args: {lr: 1}, env: {A: b}"),
        ("metrics:", "matrix: {workers.count: [2, 3]}\nmetrics:"),
    ],
)
def test_what_is_measured_otherwise_is_another_bench(folder: Path, old: str, new: str) -> None:
    assert old in JOB
    assert definition(folder, JOB) != definition(folder, JOB.replace(old, new))


@pytest.mark.parametrize(
    "added",
    [
        "# a remark\n",
        "tracking: [{tensorboard: /tmp/events}]\n",
        "gate: {max_regression: {loss: 5%}, repeat: 3}\n",
    ],
)
def test_what_changes_no_figure_is_the_same_bench(folder: Path, added: str) -> None:
    assert definition(folder, JOB) == definition(folder, JOB + added)
    assert definition(folder, JOB) == definition(folder, JOB)


def test_code_and_packages_are_part_of_what_is_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = definition(folder, JOB)
    (folder / "src" / "notes.md").write_text("x")  # neither code nor a configuration
    assert definition(folder, JOB) == before
    (folder / "src" / "config.yaml").write_text("a: 1")
    configured = definition(folder, JOB)
    assert configured != before
    (folder / "src" / "train.py").write_text("print('loss=2')")
    assert definition(folder, JOB) not in (before, configured)
    (folder / "src" / "train.py").write_text("print('loss=1')")
    assert definition(folder, JOB) == configured
    monkeypatch.setattr(module, "packages_digest", lambda python: "others")
    assert definition(folder, JOB) != configured


def test_the_source_of_many_cells_is_read_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_for: list[Path] = []

    def note(source: Path, script: str | None) -> str:
        read_for.append(source)
        return code_digest(source, script)

    monkeypatch.setattr(module, "code_digest", note)
    definition(folder, JOB.replace("metrics:", "matrix: {workers.count: [2, 3, 4]}\nmetrics:"))
    assert read_for == [folder / "src"]


def test_benches_are_listed_the_newest_first(store: Store) -> None:
    for name, second in (("b-1", 1), ("b-3", 3), ("b-2", 2), ("a-3", 3)):
        about = {"name": "b", "target": "process", "definition": name, "cells": [{}]}
        Benches(store).claim(BenchRecord(bench=name, created=at(second), **about))  # type: ignore[arg-type]
    assert [bench.bench for bench in Benches(store).benches()] == ["a-3", "b-3", "b-2", "b-1"]
    assert [bench.bench for bench in Benches(store).benches(2)] == ["a-3", "b-3"]
    again = BenchRecord(
        bench="b-9",
        created=at(9),
        name="b",
        target="process",
        definition="b-1",
        cells=[{}],
        repeat=4,
    )
    assert Benches(store).claim(again).bench == "b-1"
    assert Benches(store).find("b-1").repeat == 4
    assert Benches(store).claim(again, new=True).bench == "b-9"
    Benches(store).forget("b-9")
    assert Benches(store).get("b-9") is None


def brute_force(values: list[float]) -> int:
    """The marginal standard error rule, as it is defined."""
    if len(values) < 5:
        return 0
    errors = []
    for cut in range(len(values) // 2 + 1):
        rest = [value for value in values[cut:] if math.isfinite(value)]
        mean = fmean(rest) if rest else 0.0
        errors.append(sum((value - mean) ** 2 for value in rest) / len(rest) ** 2 if rest else 0.0)
    return min(range(len(errors)), key=errors.__getitem__)


@given(st.lists(st.integers(-1000, 1000).map(lambda n: n * 1.01), max_size=30, unique=True))
def test_the_transient_is_what_makes_the_error_of_the_mean_smallest(values: list[float]) -> None:
    assert transient(values) == brute_force(values)


def test_a_transient_needs_five_values_and_is_half_of_them_at_most() -> None:
    assert transient([100.0, 1.0, 1.1, 1.0]) == 0
    assert transient([100.0, 1.0, 1.1, 1.0, 1.1]) == 1
    assert transient([9.0, 9.0, 9.0, 9.0, 1.0, 1.0]) <= 3
    assert transient([math.nan, 100.0, 1.0, 1.1, 1.0, 1.1]) == 2


@pytest.mark.parametrize(
    ("warmup", "kept"),
    [("0 steps", 6), ("2 steps", 4), ("20 steps", 0), ("0s", 6), ("2s", 4), ("2.5s", 3)],
)
def test_steps_and_seconds_of_the_warmup_are_cut_off(warmup: str, kept: int) -> None:
    for step in (10, None):
        steady = Steady(warmup)
        for index in range(6):
            steady.add(5.0 + index, None if step is None else step + index, float(index))
        assert list(steady.values()) == [float(index) for index in range(6 - kept, 6)]
        assert steady.count == 6


def test_values_that_come_late_are_put_in_order() -> None:
    steady = Steady("0 steps")
    for second in (1.0, 3.0, 2.0, 2.0, 4.0):
        steady.add(second, None, second)
    assert list(steady.values()) == [1.0, 2.0, 2.0, 3.0, 4.0]


def test_the_seconds_of_steps() -> None:
    series = StepDurations()
    for seconds, step in ((0.0, 0), (1.0, 1), (3.0, None), (5.0, 3), (4.0, 4), (4.0, 5), (9.0, 5)):
        series.add(seconds, step)
    assert list(series.seconds) == [1.0, 2.0, 0.0]
    other = StepDurations()
    other.add(0.0, 1)
    other.add(1.0, 2)
    assert list(steady_steps([other, series])) == [1.0, 2.0, 0.0]
    assert list(steady_steps([])) == []


def test_the_phases_of_a_run_of_which_little_is_known(make_run: MakeRun, store: Store) -> None:
    run = make_run()
    assert phases_of(run, at(12)) == {
        **{"queue": (2.0, None), "start": (3.0, None), "first_step": (7.0, None)},
        **{"time": (35.0, None), "total": (40.0, None)},
    }
    assert phases_of(run, at(5))["first_step"] == (0.0, None)
    early = phases_of(run, at(4))["first_step"]
    assert early == (None, "its first metric is from before its start")
    assert phases_of(run, None)["first_step"] == (None, "its log has no metric")
    with store.transaction() as db:
        db.execute("UPDATE runs SET ended=NULL, started=NULL")
    RunFolder("job-a").states.write_bytes(b"")
    again = phases_of(store.find("job-a"), at(12))
    assert again == {
        "queue": (None, "its start was not observed"),
        "start": (None, "its start was not observed"),
        "first_step": (None, "it was not observed while running"),
        "time": (None, "it did not run to completion"),
        "total": (None, "it has not ended"),
    }


def test_the_time_of_a_run_includes_its_restarts(make_run: MakeRun, store: Store) -> None:
    """The last attempt of a run that resumed does only the rest of the work: it looked faster."""
    whole = phases_of(make_run(), at(12))
    restart = [("starting", 30, 2), ("running", 33, 2)]
    with RunFolder("job-a").states.open("ab") as file:
        for state, second, attempt in restart:
            event = StateEvent(time=at(second), state=JobState(state), attempt=attempt)
            file.write(event_line(event))
    with store.transaction() as db:
        db.execute("UPDATE runs SET attempt=2")
    assert phases_of(store.find("job-a"), at(12)) == whole


def test_a_job_that_moved_to_another_placement_waited_in_the_queue(
    make_run: MakeRun, store: Store
) -> None:
    run = make_run()
    events = [("starting", 1, 1), ("starting", 20, 2), ("running", 25, 2), ("succeeded", 40, 2)]
    RunFolder("job-a").states.write_bytes(
        b"".join(
            event_line(StateEvent(time=at(second), state=JobState(state), attempt=attempt))
            for state, second, attempt in events
        )
    )
    found = {name: seconds for name, (seconds, _) in phases_of(run, at(26)).items()}
    assert found == {"queue": 20.0, "start": 5.0, "first_step": 1.0, "time": 15.0, "total": 40.0}


def test_the_worst_verdict() -> None:
    order = [Verdict.REGRESSED, Verdict.NO_DATA, Verdict.INCONCLUSIVE, Verdict.PASS]
    assert worst([]) is Verdict.NO_DATA
    found = {(one, other): worst([one, other]) for one in order for other in order}
    assert all(verdict in pair for pair, verdict in found.items())
    assert worst(order) is Verdict.REGRESSED
    assert worst([Verdict.PASS, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("cell", "of"), [({}, ""), ({"workers.count": 2}, " of workers.count=2")])
def test_a_baseline_names_what_it_lacks(cell: dict[str, int], of: str) -> None:
    results = Results(
        label="b-1",
        kind="bench",
        series=[Series(name="loss", goal="min", cell=cell, values=[1.0, None], reasons=["a", "b"])],
        cells=[CellRuns(cell=cell, runs=["x", "y"])],
    )
    with pytest.raises(RsctlError) as caught:
        make_baseline(results, ["loss"])
    assert caught.value.exit_code == ExitCode.INCONCLUSIVE
    assert caught.value.findings[0].message == f"b-1 has no data for loss{of}: a; b"
