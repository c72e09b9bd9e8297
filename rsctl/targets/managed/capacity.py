"""Detects a lack of capacity for a job, when it is created or when it ends."""

from __future__ import annotations

from rsctl.findings import JobState, RsctlError
from rsctl.runs.folder import RunFolder
from rsctl.targets.managed.known_errors import NO_CAPACITY
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.service import JobStatus, NoCapacity


def refused_creation(refused: RsctlError) -> RsctlError:
    """The reason why a job was not created: NoCapacity if machines or quota are lacking, otherwise
    the error.
    """
    lacking = any(finding.code in NO_CAPACITY for finding in refused.findings)
    return NoCapacity(refused.exit_code, *refused.findings) if lacking else refused


def lack_of_capacity(
    status: JobStatus, progress: CollectorProgress, folder: RunFolder
) -> str | None:
    """Why there was no capacity for a job that has ended; None if that is not what ended it.

    The reason is too few machines or too little quota, as the cloud reports, or that the job did
    not start within `limits.queue` or the cloud's own limit; then rsctl or the cloud ended it.
    """
    if progress.restarted_too_often or progress.cost_too_much:
        return None
    lacking = [
        finding for finding in status.findings if finding.is_error and finding.code in NO_CAPACITY
    ]
    if status.state is JobState.FAILED and lacking:
        return lacking[0].message
    if status.state is not JobState.EXPIRED:
        return None
    # A job that no process watched may have run: only the status of its end shows that.
    has_run = bool(progress.running or progress.running_since or status.started)
    is_limited = folder.description().queue is not None
    if progress.waited_too_long or not (has_run or (status.has_machines and not is_limited)):
        return status.reason or "it waited longer than limits.queue"
    return None
