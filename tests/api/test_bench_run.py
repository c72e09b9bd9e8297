"""Benches, comparisons and gates on this machine, from Python."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rsctl.api
from rsctl.api import Bench, ExitCode, JobState, NullObserver, RsctlError, Run, Sample, Stop, Trial
from rsctl.api.bench_run import PreparedBench
from rsctl.bench.records import BenchRecord
from rsctl.cli.app import run as command_line
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import StateEvent
from tests.kit.polling import wait_until

from .conftest import Write
from .recorded import add, at

MATRIX = {"run.env.LOSS": ["1", "2"]}
Job = Callable[..., str]


@pytest.fixture
def job(write_job: Write) -> Job:
    """Writes a job whose loss is LOSS of its environment, 1 unless it is changed."""

    def write(script: str = "echo loss=$LOSS", **keys: Any) -> str:
        command = {"command": ["bash", "-c", script], "launcher": "once", "env": {"LOSS": "1"}}
        return write_job(run=command, **keys)

    return write


class Watcher(NullObserver):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        self.losses: list[float | None] = []
        self.started = threading.Event()

    def submitted(self, trial: Trial) -> None:
        self.started.set()

    def ended(self, trial: Trial, run: object, samples: Mapping[str, Sample]) -> None:
        self.losses.append(samples["loss"].value)


def test_runs_that_were_active_beside_those_of_a_bench() -> None:
    """Not a run that ended before the first of them began, such as while an image was built."""
    runs = {
        "before": ("process", 0, 8), "meanwhile": ("process", 0, 11), "own": ("process", 9, 12),
        "in-cloud": ("vertex", 0, 11), "lost": ("process", 0, None), "active": ("process", 0, None),
    }  # fmt: skip
    for name, (target, created, ended) in runs.items():
        add(name, target=target, created=at(created))
        if ended is not None:
            Store().record(name, StateEvent(time=at(ended), state=JobState.SUCCEEDED))
    RunFolder("active").path.mkdir(parents=True)
    lock = RunFolder("active").lock()
    about: dict[str, Any] = {"target": "process", "definition": "x", "created": at(0)}
    own = Trial(cell=0, repetition=0, run="own")
    bench = Bench(BenchRecord(bench="b", name="b", cells=[{}], trials=[own], **about))
    assert bench.neighbours(at(7)) == ["meanwhile", "active"]
    assert bench.neighbours(at(13)) == []  # none of its own runs was active
    assert bench.neighbours() == ["active"]
    bench.record.trials.clear()
    for is_managed, rehearsal in ((False, None), (True, "one"), (True, None)):
        target = SimpleNamespace(info=SimpleNamespace(is_managed=is_managed))
        plan: Any = SimpleNamespace(target=target, rehearsal=rehearsal, is_packed=False)
        said = PreparedBench(None, plan).remarks(bench)  # type: ignore[arg-type]
        line = "1 other run on this machine, such as active, may slow the bench"
        assert said == ([line] if rehearsal or not is_managed else [])
    os.close(lock)


def test_a_bench_is_run_once_and_found_again(job: Job, capfd: pytest.CaptureFixture[str]) -> None:
    path = job(matrix=MATRIX)
    watcher = Watcher()
    bench = rsctl.api.run_bench(path, parallel=2, observer=watcher)
    assert sorted(watcher.losses, key=float) == [1, 2]  # type: ignore[arg-type]
    assert (bench.state, bench.exit_code, bench.is_complete) == (JobState.SUCCEEDED, 0, True)
    cells = [(cell.values, cell.metrics["loss"].values) for cell in bench.summary()]
    assert cells == [({"run.env.LOSS": "1"}, [1]), ({"run.env.LOSS": "2"}, [2])]
    assert "<tr><td>run.env.LOSS=1</td><td>1</td><td>1</td>" in bench._repr_html_()
    assert [run.state for run in bench.runs()] == [JobState.SUCCEEDED] * 2
    again = rsctl.api.run_bench(path, observer=watcher)
    assert (again.id, len(watcher.losses)) == (bench.id, 2)
    assert [each.id for each in rsctl.api.benches()] == [bench.id]
    assert rsctl.api.bench("@last").id == rsctl.api.bench(bench.id[:-2]).id == bench.id
    assert [record.bench for record in bench.watch()] == [bench.id]
    assert capfd.readouterr() == ("", "")
    assert command_line(["bench", "list", "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"benches": [bench.to_dict()]}


def test_whatever_a_reference_names_is_found(job: Job) -> None:
    bench = rsctl.api.run_bench(job())
    [run] = bench.runs()
    found = [rsctl.api.find(name) for name in ("@last", bench.id, run.id)]
    assert [(type(each), each.id) for each in found] == [
        *((Bench, bench.id), (Bench, bench.id), (Run, run.id)),
    ]
    with pytest.raises(RsctlError, match="'nope' is not a run, a bench or a file"):
        rsctl.api.find("nope")


def test_mistakes_of_all_cells_are_one_exception(job: Job) -> None:
    path = job(matrix={"workers.count": [1, -1, -2]})
    with pytest.raises(RsctlError) as caught:
        rsctl.api.run_bench(path)
    problem = caught.value
    assert problem.exit_code is ExitCode.USAGE
    assert {finding.file for finding in problem.findings if finding.is_error} == {path}
    assert rsctl.api.benches() == []


def test_the_number_of_repetitions_is_asked_for_or_in_the_file(job: Job) -> None:
    rules = {"max_regression": {"loss": "5%"}}
    for gate, asked, expected in (
        (None, None, 1),
        (rules, None, 1),
        ({**rules, "repeat": 4}, None, 4),
        ({**rules, "repeat": 4}, 2, 2),
    ):
        path = job() if gate is None else job(gate=gate)
        claimed = rsctl.api.prepare_bench(path).claim(asked, new=True)
        assert claimed.record.repeat == expected


def test_runs_that_fail_are_no_exception_and_are_run_again(job: Job) -> None:
    path = job("test -e go || exit 3; echo loss=$LOSS")
    bench = rsctl.api.run_bench(path)
    assert (bench.is_complete, bench.exit_code) == (False, ExitCode.JOB_FAILED)
    Path("src/go").touch()
    again = rsctl.api.run_bench(path)
    assert (again.id, again.is_complete, len(again.record.trials)) == (bench.id, True, 2)


def test_a_bench_is_stopped_by_who_runs_it(job: Job) -> None:
    watcher = Watcher()

    def stop() -> Stop:
        return "cancel" if watcher.started.is_set() else None

    bench = rsctl.api.run_bench(job("sleep 300"), repeat=3, observer=watcher, stop=stop)
    assert [run.state for run in bench.runs()] == [JobState.CANCELLED]
    assert (bench.is_complete, bench.exit_code) == (False, ExitCode.CANCELLED)


def test_a_bench_is_cancelled_by_others(job: Job) -> None:
    path, watcher, ended = job("sleep 300"), Watcher(), []
    thread = threading.Thread(
        target=lambda: ended.append(rsctl.api.run_bench(path, repeat=2, observer=watcher))
    )
    thread.start()
    wait_until(watcher.started.is_set, "the first run")
    bench = rsctl.api.bench("@last")
    assert bench.is_driven
    assert bench.cancel().state is JobState.CANCELLED
    thread.join(60)
    assert [(each.id, each.state) for each in ended] == [(bench.id, JobState.CANCELLED)]


def test_a_gate_passes_what_is_the_same_and_finds_what_is_worse(job: Job) -> None:
    path = job()
    bench = rsctl.api.run_bench(path, repeat=3, parallel=3)
    written = rsctl.api.write_baseline(bench, "baseline.json", required=["loss"])
    assert written == ("baseline.json", 3)
    floors = {"loss": "5%"}
    same = rsctl.api.gate(
        path, baseline="baseline.json", max_regression=floors, repeat=3, parallel=3
    )
    assert (same.verdict, same.exit_code) == (rsctl.api.Verdict.PASS, 0)
    assert same.candidate != bench.id
    changed = {"run.env.LOSS": "2"}
    worse = rsctl.api.gate(
        path, set=changed, baseline=bench.id, max_regression=floors, repeat=3, parallel=3
    )
    assert (worse.verdict, worse.exit_code) == (rsctl.api.Verdict.REGRESSED, 7)
    assert worse.headline == f"{worse.candidate} against {bench.id}: regressed"
    [check] = worse.checks
    assert rsctl.api.gate_table(worse) == [
        ["VERDICT", "METRIC", "BASELINE MEDIAN", "MEDIAN NOW", "EFFECT [90 %]", "ALLOWED", "P"],
        ["regressed", "loss", "1", "2", "+100 % [+100, +100]", "5 %", "0.05"],
    ]
    comparison = rsctl.api.compare("baseline.json", worse.candidate, metrics=["loss"])
    assert [(m.name, m.effect) for m in comparison.metrics] == [("loss", check.effect)]


def test_a_gate_that_is_called_again_reserves_only_what_it_runs(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that the first call has not started are reserved by the second one."""
    monkeypatch.setattr("rsctl.api.budget.most_of", lambda submission: 1.0)
    baseline = rsctl.api.run_bench(job(), repeat=3, parallel=3)
    watcher, budget = Watcher(), rsctl.api.Budget(limit=3)
    rules: dict[str, Any] = {"baseline": baseline.id, "max_regression": {"loss": "5%"}, "repeat": 3}
    changed = {"run.env.LOSS": "1.01"}

    def stop() -> Stop:
        return "leave" if watcher.losses else None

    with suppress(RsctlError):
        rsctl.api.gate(
            "job.yaml", set=changed, **rules, observer=watcher, stop=stop, parallel=1, budget=budget
        )
    started = len(rsctl.api.bench("@last").record.trials)
    assert 0 < started < 3
    assert budget.reserved == started
    gate = rsctl.api.gate("job.yaml", set=changed, **rules, budget=budget)
    assert (gate.verdict, budget.reserved) == (rsctl.api.Verdict.PASS, 3)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, "there is no baseline to compare with"),
        ({"baseline": "other.json"}, "no metric has an allowed regression"),
        ({"baseline": "other.json", "max_regression": {"loss": "5%"}}, "cannot read the baseline"),
        ({"max_regression": {"loss": "lots"}}, "max_regression loss=lots"),
        ({"set": {"workers.count": 2}}, "--set and --target require a job file"),
        ({"target": "compose"}, "--set and --target require a job file"),
    ],
)
def test_what_cannot_be_judged_raises(job: Job, rules: dict[str, Any], message: str) -> None:
    bench = rsctl.api.prepare_bench(job()).claim()
    with pytest.raises(RsctlError, match=message) as caught:
        rsctl.api.gate(bench, **rules)
    assert caught.value.exit_code is ExitCode.USAGE


def test_floors_are_found_and_written_into_the_job_file(job: Job) -> None:
    path = job()
    [found] = rsctl.api.calibrate(rsctl.api.run_bench(path, repeat=3, parallel=3), repeat=5)
    assert (found.metric, found.runs, found.noise, found.allowed) == ("loss", 3, 0, "0.5%")
    rsctl.api.write_floors(path, {found.metric: found.allowed})
    gate = rsctl.api.load(path).spec.gate
    assert gate is not None
    assert {name: str(floor) for name, floor in gate.max_regression.items()} == {"loss": "0.5%"}
