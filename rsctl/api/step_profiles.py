"""The profile of a job's step: from its file, from a measurement, or from a run."""

from __future__ import annotations

from contextlib import closing

from rsctl.api.arguments import check_text
from rsctl.estimate.advice.measured import profile_of_record
from rsctl.estimate.advice.profile import Profile, profile_of_model
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.job import Job
from rsctl.runs.calibrations import saved_profile
from rsctl.runs.step_times import steps_of
from rsctl.runs.store import Store


def profile_of_job(job: Job) -> Profile | None:
    """The profile in a job's file, otherwise the measured profile of its script, otherwise None."""
    model = job.model
    if model is not None and model.parameters and model.step_seconds:
        return profile_of_model(model)
    return saved_profile(job)


def profile_of_run(reference: str) -> Profile:
    """The profile of a run's step, from the records of its first rank.

    Raises RsctlError if there are none.
    """
    check_text("reference", reference)
    with closing(Store()) as store:
        run = store.find(reference).run
        record = steps_of(store, run)
    if record is None or not record.buckets:
        message = f"{run} has recorded no steps"
        remedy = (
            "they are recorded for DistributedDataParallel with reducers, with compression, or "
            "with run.env: {RSCTL_RECORD_STEPS: 1}; or measure the script: rsctl advise JOB "
            "--measure"
        )
        raise RsctlError(ExitCode.USAGE, error("no-steps", message, remedy))
    return profile_of_record(record, f"run {run}")
