"""Job and target to Plan: what would run, and every finding about it. Nothing is sent."""

from __future__ import annotations

from rsctl.catalog.images import check_python
from rsctl.findings import RsctlError
from rsctl.runs.ids import placeholder
from rsctl.spec.document import Document
from rsctl.spec.job import Job
from rsctl.targets import get
from rsctl.targets.base import Plan, Target, capability_findings


def choose_target(document: Document, name: str | None) -> Target:
    """The target asked for, else the file's own."""
    return get(name or (document.job.target if document.job else "process"))


def make_plan(document: Document, target: Target, run: str) -> tuple[Plan, Job]:
    """The plan and the job it is of. Raises RsctlError with all errors of the file and the target.

    A file whose only errors are keys that the target refuses is rendered too, for all its errors at
    once; one with errors of its own has defaults in the place of values, so its plan says nothing.
    """
    is_sound = not document.has_errors
    if document.job is not None:
        document.add(capability_findings(document.job, target.name, target.supports))
        document.add(check_python(document.job))
    job = document.job if document.job is not None and is_sound else document.require_job()
    try:
        plan = target.render(job, run)
    except RsctlError as problem:
        document.add(problem.findings)
        raise RsctlError(problem.exit_code, *document.findings) from None
    document.add(plan.findings)
    document.require_job()
    plan.findings = document.findings
    return plan, job


def plan_findings(document: Document, target: Target) -> None:
    """Add to the document all that planning for a target finds. Raises RsctlError on errors."""
    make_plan(document, target, placeholder(document.job.name if document.job else "run"))
