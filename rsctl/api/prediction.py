"""Predicts the step time of a run when it is submitted, for comparison with the measured time."""

from __future__ import annotations

from contextlib import suppress

from rsctl.api.advice_situation import make_situation
from rsctl.api.calibration import calibration_of
from rsctl.api.step_profiles import profile_of_job
from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.exchange import Topology
from rsctl.estimate.advice.profile import Profile
from rsctl.estimate.advice.shared_cores import with_shared_cores
from rsctl.estimate.advice.situation import Situation
from rsctl.estimate.advice.step import predict
from rsctl.findings import RsctlError
from rsctl.runs.predictions import RunPrediction, keep_prediction
from rsctl.runs.store import Store
from rsctl.targets.base import Submission, Target


def record_prediction(store: Store, submission: Submission, target: Target) -> None:
    """Record the nodes of a run and, where its script is known, how long a step should take.

    A run whose nodes are unknown is not recorded: a submission must not fail because of a
    prediction. Raises StoreError.
    """
    if submission.job.run.launcher == "none":
        return
    with suppress(RsctlError):
        situation = make_situation(submission.job, submission, target)
        profile = profile_of_job(submission.job)
        prediction = predict_run(situation, profile, calibration_of(target.info.name))
        keep_prediction(store, submission.plan.run, prediction)


def predict_run(
    situation: Situation, profile: Profile | None, calibration: Calibration
) -> RunPrediction:
    """The step of a job with its present reducers."""
    cluster = situation.cluster
    if situation.count and situation.reducer_machines:
        cluster = situation.with_reducers(situation.reducer_machines[0], situation.count)
    if profile is None or situation.sharded:  # a sharded model has no all-reduce
        return RunPrediction(cluster=cluster, settings=situation.settings)
    profile = with_shared_cores(profile, cluster)
    topology: Topology = "pool" if cluster.reducers else "ring"
    step = predict(profile, cluster, topology, calibration, situation.settings)
    return RunPrediction(
        cluster=cluster,
        settings=situation.settings,
        step_seconds=step.step_seconds,
        source=profile.source,
        fitted_from=calibration.fitted_from,
    )
