"""What is kept of the model: constants and profiles as files, predictions in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.estimate.advice.calibration import UNCALIBRATED
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.profile import GradientBucket, Profile
from rsctl.estimate.advice.step import ExchangeSettings
from rsctl.job.job import Image, Job, RunBlock, Workers
from rsctl.job.units import Accelerator
from rsctl.runs.calibrations import save_calibration, save_profile, saved_calibration, saved_profile
from rsctl.runs.predictions import (
    RunPrediction,
    errors_of,
    keep_prediction,
    observation_of,
    prediction_of,
)
from rsctl.runs.step_times import StepPart, keep_steps
from rsctl.runs.store import Store

from .conftest import a_run

CLUSTER = ModelledCluster(workers=2, worker_bits=1e9)
PREDICTION = RunPrediction(
    cluster=CLUSTER, settings=ExchangeSettings(bucket_mb=8), step_seconds=0.6, source="spec"
)
STEPS = StepPart(
    **{"steps": 20, "seconds": 0.5, "low": 0.49, "high": 0.52, "compute": 0.4, "data": 0.1},
    **{"world": 2, "prefetches": True, "communicates": True, "buckets": ((100, 0.2, 0.45),)},
    **{"part": 0, "parts": 1},
)
PROFILE = Profile(gradient_bytes=100, step_seconds=0.5, buckets=(GradientBucket(100, 0.2),))


def job(script: str = "train.py", **changes: Any) -> Job:
    given = Job(name="job", run=RunBlock(script=script, args=["--epochs", "3"]))
    return msgspec.structs.replace(given, **changes)


def test_constants_are_kept_for_each_target(rsctl_home: Path) -> None:
    assert saved_calibration("process") is None
    fitted = msgspec.structs.replace(UNCALIBRATED, overlap=0.5, fitted_from=("job-1",))
    path = save_calibration("process", fitted)
    assert path == rsctl_home / "calibrations" / "process.json"
    assert saved_calibration("process") == fitted
    assert saved_calibration("vertex") is None
    save_calibration("process", UNCALIBRATED)
    assert saved_calibration("process") == UNCALIBRATED
    path.write_text("{}")
    assert saved_calibration("process") is None
    assert rsctl_home.stat().st_mode & 0o077 == 0


def test_a_profile_is_that_of_a_script_with_its_arguments_and_accelerators() -> None:
    assert saved_profile(job()) is None
    path = save_profile(job(), PROFILE)
    assert path.parent.name == "profiles"
    assert saved_profile(job()) == PROFILE
    same = job(workers=Workers(count=9))
    assert saved_profile(same) == PROFILE
    for other in (
        job("other.py"),
        job(name="other"),
        job(run=RunBlock(script="train.py", args=["--epochs", "4"])),
        job(run=RunBlock(module="train.py", args=["--epochs", "3"])),
        job(image=Image(source="/src")),
        job(workers=Workers(accelerator=Accelerator("v100:2"))),
        job(workers=Workers(processes=2)),
    ):
        assert saved_profile(other) is None
        save_profile(other, msgspec.structs.replace(PROFILE, source="other"))
        assert saved_profile(job()) == PROFILE


@pytest.fixture
def runs(store: Store) -> Store:
    for number in range(1, 4):
        store.add(a_run(f"job-{number}"))
    store.add(a_run("cloud-1", target="vertex"))
    return store


def steps(store: Store, run: str, **changes: Any) -> None:
    keep_steps(store, run, msgspec.structs.replace(STEPS, **changes))


def test_a_prediction_comes_back_and_one_of_another_version_is_none(runs: Store) -> None:
    assert prediction_of(runs, "job-1") is None
    keep_prediction(runs, "job-1", PREDICTION)
    later = msgspec.structs.replace(PREDICTION, step_seconds=0.7)
    keep_prediction(runs, "job-1", later)
    assert prediction_of(runs, "job-1") == later
    assert prediction_of(runs, "job-2") is None
    with runs.transaction() as db:
        db.execute("UPDATE predictions SET prediction='{\"cluster\": 1}'")
    assert prediction_of(runs, "job-1") is None


def test_an_observation_is_what_was_measured_where_it_was(runs: Store) -> None:
    steps(runs, "job-1")
    assert observation_of(runs, "job-1") is None
    keep_prediction(runs, "job-1", PREDICTION)
    found = observation_of(runs, "job-1")
    assert found is not None
    assert (found.run, found.seconds, found.cluster) == ("job-1", 0.5, CLUSTER)
    assert found.settings == ExchangeSettings(bucket_mb=8)
    assert (found.profile.source, found.profile.gradient_bytes) == ("run job-1", 100)
    keep_prediction(runs, "job-2", PREDICTION)
    assert observation_of(runs, "job-2") is None
    for changes in ({"communicates": False}, {"buckets": ()}, {"seconds": 0.0}):
        steps(runs, "job-2", **changes)
        assert observation_of(runs, "job-2") is None


def test_errors_are_of_runs_that_were_predicted_by_these_constants(runs: Store) -> None:
    def predicted(run: str, seconds: float | None, fitted_from: tuple[str, ...] = ()) -> None:
        kept = msgspec.structs.replace(PREDICTION, step_seconds=seconds, fitted_from=fitted_from)
        keep_prediction(runs, run, kept)

    predicted("job-1", 0.6)
    assert errors_of(runs, "process", UNCALIBRATED) == []  # it took no steps
    steps(runs, "job-1")
    steps(runs, "job-2")
    predicted("job-2", 0.4)
    steps(runs, "job-3")
    predicted("job-3", 0.5, ("job-1",))
    steps(runs, "cloud-1")
    predicted("cloud-1", 1.0)
    assert errors_of(runs, "process", UNCALIBRATED) == pytest.approx([-0.2, 0.2])
    assert errors_of(runs, "vertex", UNCALIBRATED) == [1.0]
    fitted = msgspec.structs.replace(UNCALIBRATED, fitted_from=("job-1",))
    assert errors_of(runs, "process", fitted) == [0.0]
    predicted("job-2", None)
    assert errors_of(runs, "process", UNCALIBRATED) == pytest.approx([0.2])
    steps(runs, "job-1", communicates=False)
    assert errors_of(runs, "process", UNCALIBRATED) == []
    steps(runs, "job-1", seconds=0.0)
    assert errors_of(runs, "process", UNCALIBRATED) == []
