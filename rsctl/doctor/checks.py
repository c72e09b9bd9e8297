"""The checks of a machine, and of what the target of a job must have for it."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.doctor import Check, Verdict
from rsctl.targets.base import Submission


def environment_checks(target: str | None) -> Iterator[Check]:
    """Without a job: this machine, and whether it can log in to the clouds."""
    from rsctl.doctor import aws, google
    from rsctl.doctor.machine import machine_checks

    yield from machine_checks(target)
    severity: Verdict = "error" if target else "skipped"
    if target in (None, "vertex"):
        yield google.signed_in(severity)
    if target in (None, "sagemaker"):
        yield aws.signed_in(severity)


def job_checks(submission: Submission) -> Iterator[Check]:
    """For a job: this machine, and what the job's target must have for it."""
    from rsctl.doctor.machine import machine_checks

    target, job, plan = submission.plan.target, submission.job, submission.plan
    yield from machine_checks(target)
    if target == "vertex":
        from rsctl.doctor.google import google_checks

        yield from google_checks(job, plan)
    elif target == "sagemaker":
        from rsctl.doctor.aws import aws_checks

        yield from aws_checks(job, plan)
    else:
        return
    from rsctl.doctor.registry import registry_check

    yield registry_check(job, target)
