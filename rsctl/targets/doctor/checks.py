"""The checks of a machine, and of the requirements of a job on its target."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from rsctl.target_info import all_targets, import_object, target_info
from rsctl.targets.base import Submission
from rsctl.targets.doctor import Check, Verdict


def environment_checks(target: str | None) -> Iterator[Check]:
    """Without a job: this machine, and whether it can log in to the clouds."""
    from rsctl.targets.doctor.machine import machine_checks

    yield from machine_checks(target)
    severity: Verdict = "error" if target else "skipped"
    for info in [target_info(target)] if target else all_targets():
        if info.log_in_check:
            yield import_object(info.log_in_check)(severity)


def job_checks(submission: Submission) -> Iterator[Check]:
    """For a job: this machine, and the job's requirements on its target at each placement."""
    from rsctl.targets.doctor.machine import machine_checks

    yield from machine_checks(submission.plan.target)
    known: list[Check] = []
    for check in _target_checks(submission):
        known.append(check)
        yield check
    for alternative in submission.alternatives:
        for check in _target_checks(alternative):
            if check not in known:
                known.append(check)
                yield replace(check, name=f"{check.name} ({alternative.placement})")


def _target_checks(submission: Submission) -> Iterator[Check]:
    for reference in target_info(submission.plan.target).job_checks:
        yield from import_object(reference)(submission.job, submission.plan)
