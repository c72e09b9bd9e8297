"""The table of a bench in a terminal while its runs go on."""

from __future__ import annotations

import re

import pytest

from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.samples import Sample
from rsctl.cli.views import bench_live
from rsctl.cli.views.bench_live import LiveBenchView
from rsctl.findings import JobState
from rsctl.runs import cost
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent, StateEvent
from rsctl.runs.stream.metrics import MetricSpec
from tests.api.recorded import add, at

COST = {"per_hour": 360.0, "seconds": 3600.0, "spot": False}
SPECS = {"loss": MetricSpec(goal="min", unit="nats"), "acc": MetricSpec()}


class Terminal:
    """A terminal of seven lines, and a clock: `seconds` after the bench began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.seconds = 0.0
        self._capsys = capsys
        size = {"LINES": "7", "COLUMNS": "90"}
        for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", **size}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(bench_live, "monotonic", lambda: self.seconds)
        for module in (bench_live, cost):
            monkeypatch.setattr(module, "now", lambda: at(self.seconds))

    def lines(self) -> list[str]:
        """The lines that it has got since the last call."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._capsys.readouterr().out)
        return [" ".join(line.split()) for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(monkeypatch, capsys)


def begun(store: Store, trials: list[Trial], *keys: str) -> BenchRecord:
    """A bench in a cloud of six cells and two repetitions, with these trials."""
    cells = [dict.fromkeys(keys or ("n",), n) for n in range(6)]
    record = BenchRecord(
        **{"bench": "b-1", "name": "b", "target": "vertex", "definition": "d", "repeat": 2},
        **{"created": at(0), "cells": cells, "state": JobState.RUNNING},
    )
    Benches(store).claim(record)
    for trial in trials:
        add(trial.run, target="vertex", plan={"pools": [], "cost": COST}, metrics_spec=SPECS)
        Benches(store).begin("b-1", trial)
    return record


def end(store: Store, trial: Trial, second: int, state: JobState) -> None:
    store.record(trial.run, StateEvent(time=at(second), state=state, exit_code=0))
    trial.state = state
    Benches(store).note("b-1", trial)


def test_the_table_has_the_active_cells_first(terminal: Terminal) -> None:
    """It counts ended and active runs; a value of a run that goes on is followed by dots."""
    store = Store()
    done, active = trials = [Trial(cell=cell, repetition=0, run=f"job-{cell}") for cell in (0, 5)]
    view = LiveBenchView(SPECS)
    view.begin(begun(store, trials), 12, False)
    assert terminal.lines() == ["b-1: 6 cells x 2 = 12 runs on vertex"]
    for trial in trials:
        view.submitted(trial)
    value = MetricEvent(time=at(2), replica="worker-0", name="loss", value=0.25)
    store.add_metrics(active.run, [value])
    view.events(active, [])
    end(store, done, 21, JobState.SUCCEEDED)
    sample = Sample(value=3.0, unit="nats", goal="min")
    view.ended(done, store.get(done.run), {"loss": sample})
    terminal.lines()
    terminal.seconds = 31.0
    view.tick(Benches(store).find("b-1"))
    shown = [
        "b-1 1 of 12 runs 1 in progress 0:31 and 2 more cells",
        "CELL RUNS TIME LOSS ACC USD",
        "n=0 1/2 0:21 3 nats 2.00",
        "n=1 0/2 0:00",
        "n=2 0/2 0:00",
        "n=5 0/2 1 queued 0:31 0.25 … 3.00",
    ]
    assert terminal.lines() == shown
    terminal.seconds = 31.2
    view.tick(Benches(store).find("b-1"))
    assert terminal.lines() == []  # it is drawn a few times a second
    view.close()


def test_the_table_has_the_results_of_earlier_calls_and_failures_are_above_it(
    terminal: Terminal,
) -> None:
    store = Store()
    done, failed = trials = [Trial(cell=cell, repetition=1, run=f"job-{cell}") for cell in (0, 5)]
    record = begun(store, trials)
    value = MetricEvent(time=at(2), replica="worker-0", name="loss", value=3.0)
    store.add_metrics(done.run, [value])
    end(store, done, 21, JobState.SUCCEEDED)
    view = LiveBenchView(SPECS)
    view.begin(Benches(store).get("b-1") or record, 11, False)
    assert terminal.lines()[1:] == ["11 of them remain"]
    view.submitted(failed)
    end(store, failed, 11, JobState.FAILED)
    failed.reason = "it crashed"
    view.ended(failed, store.get(failed.run), {})
    assert terminal.lines() == ["[1/11] n=5 #2 failed after 0:11: it crashed"]
    terminal.seconds = 31.0
    view.tick(Benches(store).find("b-1"))
    lines = terminal.lines()
    assert lines[0] == "b-1 1 of 12 runs 0 in progress 0:31 and 2 more cells"
    assert lines[2] == "n=0 1/2 0:21 3 nats 2.00"
    view.close()


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (60, ["CELL RUNS TIME LOSS ACC USD", "lr=5 batch_size=5 0/2 1 queued 0:31 0.25 … 3.00"]),
        (55, ["CELL RUNS TIME LOSS USD", "lr=5 batch_size=5 0/2 1 queued 0:31 0.25 … 3.00"]),
        (46, ["CELL RUNS TIME USD", "lr=5 batch_size=5 0/2 1 queued 0:31 3.00"]),
        (40, ["CELL RUNS TIME USD", "lr=5 batch_si… 0/2 1 queued 0:31 3.00"]),
    ],
)
def test_in_a_narrow_terminal_metrics_are_left_out_before_names_are_cut(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: int, shown: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    store = Store()
    trial = Trial(cell=5, repetition=0, run="job-5")
    view = LiveBenchView(SPECS)
    view.begin(begun(store, [trial], "run.args.lr", "run.args.batch_size"), 12, False)
    view.submitted(trial)
    value = MetricEvent(time=at(2), replica="worker-0", name="loss", value=0.25)
    store.add_metrics(trial.run, [value])
    view.events(trial, [])
    terminal.seconds = 31.0
    terminal.lines()
    view.tick(Benches(store).find("b-1"))
    lines = terminal.lines()
    assert [lines[1], lines[-1]] == shown
    view.close()


def test_keys_that_end_alike_are_whole(terminal: Terminal) -> None:
    store = Store()
    trial = Trial(cell=5, repetition=0, run="job-5")
    view = LiveBenchView(SPECS)
    view.begin(begun(store, [trial], "workers.count", "reducers.count"), 12, False)
    view.submitted(trial)
    terminal.seconds = 31.0
    view.tick(Benches(store).find("b-1"))
    assert "workers.count=5 reducers.count=5 0/2" in terminal.lines()[-1]
    view.close()
