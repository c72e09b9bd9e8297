"""Plans a job on a target: the request that would be sent, and every finding. Sends nothing.

Only `make_plan` calls `Target.render`, so that every caller, from the command line or from Python,
gets the same checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from rsctl.estimate.catalog.images import check_python
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.document import Document
from rsctl.job.job import Job
from rsctl.job.parameters import parameters_of
from rsctl.job.tracking import TrackingPlan
from rsctl.job.tracking_checks import (
    check_notify,
    check_tracking_on,
    is_sent,
    planned_notifications,
    planned_tracker,
)
from rsctl.targets import get
from rsctl.targets.base import Pool, Submission, Target, count_of_role
from rsctl.targets.capabilities import capability_findings
from rsctl.targets.compression import compression_findings
from rsctl.targets.placements import render_placements
from rsctl.targets.profiles import profile_findings


def choose_target(document: Document, name: str | None) -> Target:
    """The requested target, otherwise the file's own."""
    return get(name or (document.job.target if document.job else "process"))


def name_of(source: Document | Job) -> str:
    """The job's name, with which run ids begin; `run` if the file has none."""
    job = source if isinstance(source, Job) else source.job
    return job.name if job is not None else "run"


def make_plan(source: Document | Job, target: Target, run: str) -> Submission:
    """All that a submission of a job file or of a job would send.

    Raises RsctlError with all errors of the file and the target. A file whose only errors are keys
    that the target refuses is rendered too, for all its errors at once; one with errors of its own
    has defaults in the place of values, so its plan says nothing.
    """
    if isinstance(source, Job):
        return _planned(source, target, run)
    is_sound = not source.has_errors
    if source.job is not None:
        source.add(_job_findings(source.job, target))
    job = source.job if source.job is not None and is_sound else source.require_job()
    try:
        submission = render_placements(job, target, run)
    except RsctlError as problem:
        source.add(problem.findings)
        raise RsctlError(problem.exit_code, *source.findings) from None
    source.add(submission.plan.findings)
    source.add(_plan_findings(submission))
    source.require_job()
    return replace(_completed(submission, source.findings), text=source.text)


def require_no_matrix(job: Job) -> None:
    """Raises RsctlError for a matrix, of whose cells an SDK could make one only."""
    if job.matrix:
        message = "an SDK creates one job, not the cells of a matrix"
        remedy = "choose one cell: --set matrix=null --set KEY=VALUE"
        raise RsctlError(ExitCode.USAGE, error("matrix", message, remedy, "matrix"))


def _planned(job: Job, target: Target, run: str) -> Submission:
    """The submission of a job that was read or made elsewhere; its findings have no lines."""
    findings = list(_job_findings(job, target))
    try:
        submission = render_placements(job, target, run)
    except RsctlError as problem:
        raise RsctlError(problem.exit_code, *findings, *problem.findings) from None
    findings += submission.plan.findings
    findings += _plan_findings(submission)
    if any(finding.is_error for finding in findings):
        raise RsctlError(ExitCode.USAGE, *findings)
    return _completed(submission, findings)


def _job_findings(job: Job, target: Target) -> Iterator[Finding]:
    """The settings of the job that its target or its base image does not support."""
    yield from capability_findings(job, target.info)
    yield from check_python(job)
    yield from check_tracking_on(job, target.info.name)
    yield from check_notify(job)


def _plan_findings(submission: Submission) -> Iterator[Finding]:
    """Findings on keys that need the plan, on every target."""
    job, plan = submission.job, submission.plan
    yield from compression_findings(job, plan.pools, plan.image.transport)
    yield from profile_findings(job, plan)


def _completed(submission: Submission, findings: list[Finding]) -> Submission:
    """Add all findings, and the data for trackers."""
    plan = replace(submission.plan, findings=findings)
    if submission.job.notify or any(map(is_sent, submission.job.tracking)):
        plan = replace(plan, tracking=_tracking(submission))
    return replace(submission, plan=plan)


def _tracking(submission: Submission) -> TrackingPlan:
    """The trackers, and as parameters the job's own with the plan's values for `auto`."""
    plan, job = submission.plan, submission.job
    parameters = {
        **parameters_of(job),
        "target": plan.target,
        "world_size": plan.world_size,
        **_pool_parameters(plan.pools, job),
        "image.transport": plan.image.transport,
    }
    if plan.image.tag:
        parameters["image.tag"] = plan.image.tag
    trackers = [planned_tracker(each, job) for each in job.tracking if is_sent(each)]
    return TrackingPlan(
        trackers=[*trackers, *planned_notifications(job)],
        parameters=dict(sorted(parameters.items())),
    )


def _pool_parameters(pools: list[Pool], job: Job) -> dict[str, str | int]:
    """The count of each role and the machine of its nodes, under the keys of the job file.

    Where a role has two pools the first is the chief alone.
    """
    parameters: dict[str, str | int] = {}
    for role in dict.fromkeys(pool.role for pool in pools):
        *chief, others = [pool for pool in pools if pool.role == role]
        block = f"roles.{role}" if role in job.roles else f"{role}s"
        parameters[f"{block}.count"] = count_of_role(pools, role)
        parameters |= _machine_parameters(block, others)
        for pool in chief:
            parameters |= _machine_parameters("chief", pool)
    return parameters


def _machine_parameters(block: str, pool: Pool) -> dict[str, str]:
    """The pool's machine and accelerator, where it has them."""
    pairs = ((f"{block}.machine", pool.machine), (f"{block}.accelerator", pool.accelerator))
    return {key: value for key, value in pairs if value}
