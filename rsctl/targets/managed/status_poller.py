"""Polls a job's status, and cancels one that waits longer for capacity than it may."""

from __future__ import annotations

import msgspec

from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.stream.events import now, parse_time, seconds_between
from rsctl.targets.managed.progress import Progress
from rsctl.targets.managed.service import CloudJob, JobStatus

_WAITING = (JobState.QUEUED, JobState.STARTING)


class StatusPoller:
    """Asks how the job is; one that waits for longer than it may is cancelled, and has expired."""

    def __init__(self, folder: RunFolder, job: CloudJob, progress: Progress) -> None:
        self._job, self._progress = job, progress
        self._limit = _longest_wait(folder)

    def status(self) -> JobStatus:
        """How the job is now. Raises Unreachable and RsctlError."""
        status = self._job.status()
        self._limit_wait(status)
        if self._progress.waited_too_long and status.state is JobState.CANCELLED:
            why = f"it waited longer than limits.queue of {self._limit:g} s"
            return msgspec.structs.replace(status, state=JobState.EXPIRED, reason=why)
        return status

    def _limit_wait(self, status: JobStatus) -> None:
        progress = self._progress
        if status.state not in _WAITING:
            progress.waiting_since = None
            return
        progress.waiting_since = progress.waiting_since or stamped(status.time)
        waited = seconds_between(progress.waiting_since, now())
        if self._limit is not None and waited > self._limit and not progress.waited_too_long:
            self._job.cancel()
            progress.waited_too_long = True


def stamped(time: str) -> str:
    """A time as events have it; now, where the cloud's is not one."""
    try:
        parse_time(time)
    except ValueError:
        return now()
    return time


def _longest_wait(folder: RunFolder) -> float | None:
    """Seconds; None where the job may wait for ever."""
    try:
        return folder.description().queue
    except (OSError, msgspec.DecodeError):
        return None
