"""A job planned for each of its placements: the first one's submission, and the others after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from rsctl.estimate.costs.billing import billing_of, plan_cost
from rsctl.estimate.costs.limit import cost_findings, keep_findings
from rsctl.findings import ExitCode, Finding, RsctlError, error, warning
from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.job.placements import MOST_PLACEMENTS, PlacementJob, placement_findings, placements_of
from rsctl.target_info import TargetInfo
from rsctl.targets.base import Submission, Target
from rsctl.targets.inputs import planned_input_findings


def render_placements(job: Job, target: Target, run: str) -> Submission:
    """The submission of the job's first placement, with the others' submissions as alternatives.

    Raises RsctlError with all errors of all of them: otherwise an error of the last placement would
    show only when the run moves there.
    """
    findings = list(placement_findings(job, target.info))
    placement_jobs = placements_of(job, target.info)[:MOST_PLACEMENTS]
    findings += _findings_of_lists(job, placement_jobs, target.info)
    submissions: list[Submission] = []
    earlier: list[Finding] = []
    for placement_job in placement_jobs:
        submission, found = _rendered(placement_job, target, run)
        news = [finding for finding in found if finding not in earlier]
        earlier += news
        findings += (
            news if placement_job is placement_jobs[0] else _of_alternative(placement_job, news)
        )
        if submission is not None and submissions:
            findings += _differences(placement_job, submission, submissions[0])
        submissions += [submission] if submission is not None else []
    if any(finding.is_error for finding in findings):
        raise RsctlError(ExitCode.USAGE, *findings)
    first, *others = submissions
    plan = replace(first.plan, findings=findings)
    if others:
        plan = replace(
            plan, alternatives=[placement_job.placement for placement_job in placement_jobs[1:]]
        )
    return replace(
        first, plan=plan, placement=placement_jobs[0].placement, alternatives=tuple(others)
    )


def _rendered(
    placement_job: PlacementJob, target: Target, run: str
) -> tuple[Submission | None, list[Finding]]:
    try:
        submission = _examined(target.render(placement_job.job, run), target)
    except RsctlError as problem:
        if problem.exit_code is not ExitCode.USAGE:
            raise
        return None, [placement_job.relocated(finding) for finding in problem.findings]
    findings = [placement_job.relocated(finding) for finding in submission.plan.findings]
    return replace(submission, placement=placement_job.placement), findings


def _examined(submission: Submission, target: Target) -> Submission:
    """Add its cost, and the findings on its inputs."""
    submission = _priced(submission, target)
    plan = submission.plan
    if not plan.inputs:
        return submission
    findings = [*plan.findings, *planned_input_findings(submission.job, plan)]
    return replace(submission, plan=replace(plan, findings=findings))


def _priced(submission: Submission, target: Target) -> Submission:
    """Add its cost, and the findings on its cost limit."""
    plan, limits, info = submission.plan, submission.job.limits, target.info
    billing = billing_of(info, plan.request)
    if billing is None or info.catalog is None:
        return submission
    cost = plan_cost(info.name, plan.pools, billing, limits)
    found = [*cost_findings(cost), *keep_findings(limits, cost)]
    plan = replace(plan, cost=cost, findings=[*plan.findings, *found])
    return replace(submission, plan=plan)


def _of_alternative(placement_job: PlacementJob, found: list[Finding]) -> Iterator[Finding]:
    """The findings about a further placement that earlier placements did not have."""
    for finding in found:
        if finding.severity != "note":
            is_of_item = finding.path in placement_job.keys.values()
            where = "" if is_of_item else f"in {placement_job.placement}: "
            yield replace(finding, message=f"{where}{finding.message}")


def _differences(
    placement_job: PlacementJob, submission: Submission, first: Submission
) -> Iterator[Finding]:
    """A run must have the same number of ranks at all placements."""
    here, there = submission.plan.world_size, first.plan.world_size
    if here != there:
        where, others = placement_job.placement, first.placement
        message = f"the job would have {here} ranks in {where}, and {there} in {others}"
        remedy = "use machines with the same number of accelerators, or set workers.processes"
        yield error("placements", message, remedy, placement_job.keys.get("workers.machine"))


def _findings_of_lists(
    job: Job, placement_jobs: list[PlacementJob], info: TargetInfo
) -> Iterator[Finding]:
    """The settings that cannot move with a job, or not without changes."""
    if len({placement_job.placement.machine for placement_job in placement_jobs}) > 1:
        yield from _of_options(job, info, info.tries_machines, "workers.machine")
    if len({placement_job.placement.region for placement_job in placement_jobs}) > 1:
        yield from _of_options(job, info, info.regional, f"targets.{info.name}.region")
        yield from _data(placement_jobs, info)


def _of_options(
    job: Job, info: TargetInfo, known: Mapping[str, str], path: str
) -> Iterator[Finding]:
    """Options that do not go with a list at a path."""
    options = info.options_of(job)
    for name, remedy in known.items():
        value = getattr(options, name)
        is_set = bool(value) and (name != "reservation" or isinstance(value, list))
        if is_set:
            message = f"{path} has several values, but this resource exists for only one of them"
            if name in info.tries_machines:
                message = f"{path} has several values, and this is also a list of machines"
            yield error("placements", message, remedy, f"targets.{info.name}.{name}")


def _data(placement_jobs: list[PlacementJob], info: TargetInfo) -> Iterator[Finding]:
    """Buckets stay where they are."""
    jobs = [each.job for each in placement_jobs]
    staging = f"targets.{info.name}.staging"
    inputs: dict[str, list[str | None]] = {}
    for job in jobs:
        for job_input in inputs_of(job, info.name):
            inputs.setdefault(job_input.key, []).append(job_input.location)
    locations: dict[str, list[str | None]] = {
        **inputs,
        "outputs": [job.outputs for job in jobs],
        "checkpoints": [job.checkpoints for job in jobs],
        staging: [info.options_of(job).staging for job in jobs],
    }
    fixed = [path for path, each in locations.items() if each[0] and len(set(each)) == 1]
    if fixed:
        yield warning(
            "placements",
            f"all regions share one location: {', '.join(fixed)}. From another region, access is "
            "slower and billed, if the service accepts a bucket in another region at all",
            "if each region has its own bucket, write {region} in the bucket's name; the next "
            "region does not find checkpoints in a regional bucket",
            fixed[0],
        )
