"""Calibration of a target by its finished runs: what is predicted, measured, fitted and kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import rsctl.api
from rsctl.api import ExitCode, JobState, RsctlError, Store
from rsctl.api.calibration import calibrate_from, calibration_of
from rsctl.estimate.advice.calibrate import Observation
from rsctl.estimate.advice.calibration import UNCALIBRATED
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.profile import Profile, even_profile
from rsctl.estimate.advice.step import ExchangeSettings
from rsctl.job.job import Job, RunBlock
from rsctl.runs.calibrations import save_calibration, save_profile, saved_profile
from rsctl.runs.predictions import RunPrediction, keep_prediction, prediction_of
from rsctl.runs.records import RunRecord
from rsctl.runs.step_times import StepPart, keep_steps

from .conftest import Write

SLOW = replace(UNCALIBRATED, bandwidth_fraction=0.5)
PROFILE = even_profile(30_000_000, 0.2)


def add_run(
    store: Store, number: int, workers: int = 4, communicates: bool = True, **facts: object
) -> str:
    """A run of a network that gives half of what it promises; its id."""
    run = f"job-{number:06}"
    cluster = ModelledCluster(workers=workers, worker_bits=1e8)
    known = Observation(run=run, seconds=1.0, profile=PROFILE, cluster=cluster)
    record = RunRecord(
        run=run,
        name="job",
        target="vertex",
        url=f"vertex://p/r/{number}",
        state=JobState.SUCCEEDED,
        created="2026-01-01T00:00:00.000000Z",
    )
    store.add(record)
    seconds = known.predicted(SLOW)
    times = {"seconds": seconds, "low": seconds, "high": seconds, "compute": 0.2, "data": 0.0}
    part = StepPart(
        steps=20,
        world=workers,
        prefetches=True,
        communicates=communicates,
        buckets=tuple((b.bytes, b.ready_seconds, b.ready_seconds) for b in PROFILE.buckets),
        part=0,
        parts=1,
        **times,
    )
    keep_steps(store, run, part)
    keep_prediction(
        store,
        run,
        RunPrediction(cluster=cluster, settings=ExchangeSettings(), **facts),  # type: ignore[arg-type]
    )
    return run


def test_a_target_is_uncalibrated_until_runs_are_fitted() -> None:
    assert calibration_of("vertex") == UNCALIBRATED
    store = Store()
    runs = [add_run(store, number, workers) for number, workers in enumerate((2, 4, 8))]
    (fitted,) = calibrate_from([*runs, runs[0]])
    assert (fitted.target, [run.run for run in fitted.runs]) == ("vertex", runs)
    assert fitted.calibration.bandwidth_fraction == pytest.approx(0.5, rel=0.05)
    for run in fitted.runs:
        assert run.before_seconds < 0.8 * run.measured_seconds
        assert run.after_seconds == pytest.approx(run.measured_seconds, rel=0.03)
    assert calibration_of("vertex") == fitted.calibration
    assert calibration_of("sagemaker").fitted_from == ()
    assert fitted.file.stat().st_mode & 0o077 == 0 or fitted.file.parent.stat().st_mode & 0o077 == 0


def test_a_fit_to_one_run_has_no_error_of_predictions() -> None:
    run = add_run(Store(), 1)
    (fitted,) = calibrate_from([run])
    assert fitted.calibration.fitted_from == (run,)
    assert calibration_of("vertex").median_error is None
    save_calibration("vertex", replace(fitted.calibration, median_error=0.001))
    assert calibration_of("vertex").median_error is None


def test_the_error_is_that_of_predictions_by_these_constants() -> None:
    store = Store()
    add_run(store, 1, step_seconds=None)
    assert calibration_of("vertex").median_error is None
    measured = Observation(
        run="", seconds=1.0, profile=PROFILE, cluster=ModelledCluster(workers=4, worker_bits=1e8)
    ).predicted(SLOW)
    for number, part in enumerate((0.9, 0.8, 1.3), start=2):
        add_run(store, number, step_seconds=part * measured)
    assert calibration_of("vertex").median_error == pytest.approx(0.2)
    add_run(store, 9, step_seconds=measured, fitted_from=("job-x",))
    assert calibration_of("vertex").median_error == pytest.approx(0.2)
    assert calibration_of("sagemaker").median_error is None


def test_a_run_that_says_nothing_of_the_model_is_refused() -> None:
    store = Store()
    alone = add_run(store, 1, workers=2, communicates=False)
    store.add(replace(store.find(alone), run="job-bare", url="vertex://p/r/bare"))
    for run, why in ((alone, "has not exchanged gradients"), ("job-bare", "recorded no steps")):
        with pytest.raises(RsctlError, match=why) as raised:
            calibrate_from([run])
        assert raised.value.exit_code == ExitCode.USAGE
    assert calibration_of("vertex") == UNCALIBRATED
    with pytest.raises(RsctlError, match="no run"):
        calibrate_from(["job-none"])


def test_a_run_is_predicted_as_it_is_submitted(write_job: Write) -> None:
    known = {"model": {"parameters": 1_000_000, "step_seconds": 0.2}, "workers": {"count": 2}}
    predicted = rsctl.api.submit(write_job("true", **known))
    unknown = rsctl.api.submit(write_job("true", workers={"count": 2}))
    alone = rsctl.api.submit(write_job("true"))
    for run in (predicted, unknown, alone):
        run.wait()
    found = [prediction_of(Store(), run.id) for run in (predicted, unknown, alone)]
    assert [one.step_seconds is not None if one else None for one in found] == [True, False, None]
    assert found[0] is not None
    assert (found[0].source, found[0].cluster.workers) == ("spec", 2)
    assert 0.2 < (found[0].step_seconds or 0) < 0.3


def test_a_damaged_file_is_no_calibration() -> None:
    store = Store()
    (fitted,) = calibrate_from([add_run(store, 1)])
    fitted.file.write_text('{"alpha_seconds": "fast"}')
    assert calibration_of("vertex").fitted_from == ()


def test_a_profile_is_kept_by_script_and_arguments() -> None:
    job = Job(name="job", run=RunBlock(script="train.py", args={"batch": 8}))
    other = replace(job, run=replace(job.run, args={"batch": 16}))
    profile: Profile = replace(PROFILE, source="measured on this machine")
    save_profile(job, profile)
    assert saved_profile(job) == profile
    assert saved_profile(replace(job, target="vertex")) == profile
    assert saved_profile(other) is None
