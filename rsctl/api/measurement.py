"""Measures the steps of a job's script, by a short run of it that records them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from msgspec.structs import replace

from rsctl.api.arguments import check_number
from rsctl.api.job_file import AnyJob, JobFile, source_of
from rsctl.api.run_handle import Run
from rsctl.api.submission import prepare
from rsctl.estimate.advice.measure import MOST_STEPS, STEPS, job_to_measure, measure_findings
from rsctl.estimate.advice.measured import StepRecord, profile_of_record
from rsctl.estimate.advice.profile import Profile
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.job.document import Document
from rsctl.job.job import Job
from rsctl.runs.calibrations import save_profile
from rsctl.runs.step_times import steps_of
from rsctl.runs.store import Store

SECONDS = 900.0
"""How long a script may take for its steps, its start included."""

_CODES = ("measure-gradients", "measure-short")


def measure(
    job: AnyJob,
    *,
    on: str | None = None,
    steps: int = STEPS,
    seconds: float = SECONDS,
    on_begin: Callable[[Run], object] = bool,
) -> Profile:
    """Run a job's unmodified script for a few steps, and return the profile of a step.

    It runs as a process of this machine, on one node and without communication; with a target `on`,
    on two nodes of that target, which exchange gradients. `on_begin` gets the run when it has
    started. The profile is stored for later advice on the same script with the same arguments.

    Raises RsctlError: for a script that makes no gradients of a DistributedDataParallel, that ends
    before it has made enough steps, that fails, or that takes longer than `seconds`.
    """
    check_number("seconds", seconds, 0)
    source, settings = source_of(job)
    measured = _job_to_measure(source, settings, steps, on is not None, seconds)
    run = prepare(measured, on or "process").submit()
    try:
        on_begin(run)
        result = run.wait()
    except BaseException:
        run.cancel()
        raise
    with closing(Store()) as store:
        record = steps_of(store, run.id)
    if record is None:
        raise RsctlError(ExitCode.JOB_FAILED, *_why_nothing(run, result.state, seconds))
    profile = profile_of_record(record, _source(record, on))
    save_profile(_spec_of(source), profile)
    return profile


def _job_to_measure(
    source: Document | Job,
    settings: tuple[str, ...],
    steps: int,
    communicates: bool,
    seconds: float,
) -> AnyJob:
    """Raise RsctlError for a job that has errors, or that cannot be measured."""
    if not 1 <= steps <= MOST_STEPS:
        message = f"cannot measure {steps} steps"
        finding = error("measure", message, f"measure 1 to {MOST_STEPS} steps")
        raise RsctlError(ExitCode.USAGE, finding)
    spec = _spec_of(source)
    if problems := measure_findings(spec):
        if not isinstance(source, Job):
            source.add(problems)
            source.require_job()
        raise RsctlError(ExitCode.USAGE, *problems)
    changed = job_to_measure(spec, steps, communicates, seconds)
    if isinstance(source, Job):
        return changed
    return JobFile(replace(source, job=changed), settings)


def _spec_of(source: Document | Job) -> Job:
    return source if isinstance(source, Job) else source.require_job()


def _source(record: StepRecord, on: str | None) -> str:
    ranks = "1 rank" if record.world == 1 else f"{record.world} ranks"
    if on is None:
        return f"measured on this machine: {record.steps} steps of {ranks}, without communication"
    return f"measured on {on}: {record.steps} steps of {ranks} on two nodes"


def _why_nothing(run: Run, state: JobState, seconds: float) -> list[Finding]:
    """Why a run has recorded no steps."""
    if reasons := [finding for finding in run.findings() if finding.code in _CODES]:
        return reasons
    logs = f"see rsctl logs {run.id}"
    if state is JobState.EXPIRED:
        message = f"the script has not completed its steps within {seconds:g} s"
        return [error("measure", message, f"measure fewer or shorter steps; {logs}")]
    if state is JobState.SUCCEEDED:
        message = "the script succeeded, but did not load rsctl's binding to PyTorch"
        remedy = f"use torch 2.5 or later without TORCH_DEVICE_BACKEND_AUTOLOAD=0; {logs}"
        return [error("measure", message, remedy)]
    failure = run.record.first_failure
    last = f": {failure.lines[-1][:200]}" if failure and failure.lines else ""
    message = f"the script {state.value} before it had completed its steps{last}"
    return [*run.findings(), error("measure", message, logs)]
