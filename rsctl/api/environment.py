"""The requirements of a submission on this machine and in its cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rsctl.api.job_file import AnyJob, make_submission
from rsctl.findings import Finding
from rsctl.targets.doctor import Check
from rsctl.targets.doctor.checks import environment_checks, job_checks


def check_environment(
    job: AnyJob | None = None,
    target: str | None = None,
    *,
    on_finding: Callable[[Finding], None] | None = None,
) -> Iterator[Check]:
    """Check the requirements of a submission, one after the other; changes nothing.

    Without a job: check this machine, and the credentials for one cloud or for all. `on_finding`
    gets the warnings of the job's plan. Raises RsctlError for a job that cannot be planned.
    """
    if job is None:
        yield from environment_checks(target)
        return
    submission = make_submission(job, target)
    for finding in submission.plan.findings:
        if finding.severity == "warning" and on_finding is not None:
            on_finding(finding)
    yield from job_checks(submission)
    if submission.job.notify:
        from rsctl.results.tracking.notifications import receiver_checks

        yield from receiver_checks(submission.job)
