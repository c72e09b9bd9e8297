"""Checks of jobs whose runs become slots of packed jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job
from rsctl.job.secret_names import public_arguments
from rsctl.targets.launch_command import user_command


def pack_findings(jobs: Iterable[Job]) -> list[Finding]:
    """Why jobs cannot be packed, each reason once, and what to know about those that can."""
    found: list[Finding] = []
    for job in jobs:
        for finding in _findings_of(job):
            found += [finding] if finding not in found else []
    return found


def _findings_of(job: Job) -> Iterator[Finding]:
    cannot = "bench.pack runs slots one after the other inside one job"
    if not job.run.is_launched:
        remedy = "use launcher torchrun or once, or bench.pack: false"
        yield error(
            "pack", f"{cannot}, by rsctl-launch, which this job does not use", remedy, "run"
        )
    if job.roles:
        remedy = "remove roles, or set bench.pack: false"
        yield error("pack", f"{cannot}, and nodes of roles cannot follow them", remedy, "roles")
    if job.chief.args is not None or job.chief.env:
        key = "chief.args" if job.chief.args is not None else "chief.env"
        message = f"{cannot}, with the same command and variables on all nodes"
        yield error("pack", message, f"remove {key}, or set bench.pack: false", key)
    if job.run.launcher == "mpi" and job.workers.count > 1:
        remedy = "use launcher torchrun, or set bench.pack: false"
        message = f"{cannot}, and mpirun starts only one program on several nodes"
        yield error("pack", message, remedy, "run.launcher")
    if job.limits.keep is not None:
        message = f"{cannot}, and a failed one must not hold up the next"
        remedy = "remove limits.keep, or set bench.pack: false"
        yield error("pack", message, remedy, "limits.keep")
    if job.limits.on_stall != "notify":
        message = f"{cannot}, which on_stall: {job.limits.on_stall} would end with all slots"
        remedy = "set on_stall: notify, and limits.timeout for each slot"
        yield error("pack", message, remedy, "limits.on_stall")
    if failing := [name for name, rule in job.watch.items() if rule.do == "fail"]:
        message = f"{cannot}, which rule {failing[0]} would end with all slots"
        path = f"watch.{failing[0]}.do"
        yield error("pack", message, "set do: notify, or bench.pack: false", path)
    if public_arguments(user_command(job)) != user_command(job):
        message = f"{cannot}, and their commands are in variables of the job that are not secret"
        yield error("pack", message, "pass the secret in run.env", "run.args")
    if job.profile is not None:
        message = f"{cannot}, and the profiles of all slots would be the same files"
        yield error("pack", message, "remove profile, or set bench.pack: false", "profile")
    if not job.limits.timeout:
        message = "a slot that hangs holds up all slots behind it"
        yield warning("pack", message, "set limits.timeout, the limit of each slot", "limits")
