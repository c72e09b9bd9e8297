"""Vertex AI Experiments on the emulator, read back by google-cloud-aiplatform as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google.auth
import pytest

from rsctl.findings import JobState, RsctlError
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking.cursor import CursorFile
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.vertex.emulator import VertexEmulator
from tests.kit.loopback import keep_google_auth_here
from tests.kit.nodes import MemoryNodes, MemoryRunner
from tests.results.tracking.conftest import TrackedJob

TRACKER = PlannedTracker(kind="vertex", location="bert", project="rehearsal", region="us-central1")


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexEmulator]:
    keep_google_auth_here(monkeypatch)
    with VertexEmulator(tmp_path / "cloud", MemoryRunner("process", MemoryNodes)) as cloud:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RSCTL_CLOUD_PACE", "0.01")
        yield cloud


@pytest.fixture
def sdk(emulator: VertexEmulator) -> Any:
    from google.cloud import aiplatform

    credentials, _ = google.auth.default()
    aiplatform.init(
        project="rehearsal",
        location="us-central1",
        credentials=credentials,
        api_endpoint=emulator.url,
        api_transport="rest",
    )
    return aiplatform


def test_the_sdk_reads_parameters_metrics_and_state(sdk: Any) -> None:
    job = TrackedJob(TRACKER)
    job.log([4.0, math.nan, 2.0])
    job.log([9.0], replica="worker-1")
    job.send()
    run = sdk.ExperimentRun("job-a", experiment="bert")
    assert run.get_state() == "RUNNING"
    assert run.get_metrics() == {"loss": 2.0}
    job.end(reason="all is well")
    job.send()
    run = sdk.ExperimentRun("job-a", experiment="bert")
    assert run.get_state() == "COMPLETE"
    metrics = run.get_metrics()
    assert (metrics["loss"], metrics["run.time"]) == (2.0, 45.0)
    parameters = run.get_params()
    assert (parameters["run.args.lr"], parameters["workers.count"]) == (0.1, 2)
    assert (parameters["rsctl.run"], parameters["rsctl.reason"]) == ("job-a", "all is well")


def test_runs_of_one_experiment_are_listed(sdk: Any) -> None:
    for name, state in (("job-a", JobState.FAILED), ("job-b", JobState.CANCELLED)):
        job = TrackedJob(TRACKER, name)
        job.end(state)
        job.send()
    runs = {run.name: run.get_state() for run in sdk.ExperimentRun.list(experiment="bert")}
    assert runs == {"job-a": "FAILED", "job-b": "CANCELLED"}
    assert sorted(sdk.get_experiment_df("bert")["run_name"]) == ["job-a", "job-b"]


def test_an_experiment_of_the_sdk_gets_our_runs_and_keeps_its_own(sdk: Any) -> None:
    sdk.Experiment.create("bert")
    sdk.init(experiment="bert", experiment_tensorboard=False)
    with sdk.start_run("mine"):
        sdk.log_params({"a": 1})
    job = TrackedJob(TRACKER)
    job.end()
    job.send()
    assert {run.name for run in sdk.ExperimentRun.list(experiment="bert")} == {"mine", "job-a"}


def test_half_way_killed_and_sent_again_is_there_once(sdk: Any, emulator: VertexEmulator) -> None:
    job = TrackedJob(TRACKER)
    job.log([4.0])
    for name in ("createContext", "addContextChildren", "patchContext"):
        fault = Fault(f"aiplatform.metadata.{name}", times=1000, cut="answer")
        emulator.faults.add(fault)
        with pytest.raises(RsctlError):
            job.send()
        fault.times = 0
    job.end()
    job.send()
    assert [run.name for run in sdk.ExperimentRun.list(experiment="bert")] == ["job-a"]
    assert sdk.ExperimentRun("job-a", experiment="bert").get_metrics()["loss"] == 4.0


def test_a_name_that_is_something_else_there_is_refused(sdk: Any) -> None:
    TrackedJob(TRACKER).send()
    other = PlannedTracker(
        kind="vertex", location="bert-job-a", project="rehearsal", region="us-central1"
    )
    refusal = r"already exists as a system\.ExperimentRun, not as a system\.Experiment"
    with pytest.raises(Exception, match=refusal):
        TrackedJob(other, "job-b").send()


def test_values_over_time_are_read_back_by_the_sdk(sdk: Any) -> None:
    board = sdk.Tensorboard.create("boards")
    sdk.init(experiment="bert", experiment_tensorboard=board)
    job = TrackedJob(TRACKER)
    job.log([4.0, math.nan, 2.0], step=7)
    job.log([9.0], replica="worker-1")
    job.send()
    before = CursorFile(job.run, 0).read()
    # Killed after it has sent more, and before that was written down.
    job.log([1.0], step=10)
    job.send()
    CursorFile(job.run, 0).write(before)
    job.end()
    job.send()
    frame = sdk.ExperimentRun("job-a", experiment="bert").get_time_series_data_frame()
    loss = frame.dropna(subset=["loss"])
    assert [*zip(loss["step"], loss["loss"], strict=True)] == [(7, 4.0), (9, 2.0), (10, 1.0)]
    assert frame["wall_time"].iloc[1].second == 11
    assert [*frame["loss/worker-1"].dropna()] == [9.0]
    assert 8 in [*frame["step"]]  # of which pandas takes the value for none, since it is no number
    shown = sdk.get_experiment_df("bert")
    assert shown["time_series_metric.loss"].tolist() == [1.0]


def test_without_a_tensorboard_there_are_no_values_over_time(sdk: Any) -> None:
    job = TrackedJob(TRACKER)
    job.log([4.0])
    job.send()
    assert sdk.ExperimentRun("job-a", experiment="bert").get_time_series_data_frame().empty
