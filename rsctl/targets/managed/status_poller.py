"""Polls a job's status, and cancels a job that is beyond one of its limits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from rsctl.estimate.costs.billing import HOUR
from rsctl.estimate.costs.limit import dollars
from rsctl.findings import JobState
from rsctl.runs.folder import CostLimit, RunDescription, RunFolder
from rsctl.runs.records import RunRecord
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import now, parse_time, seconds_between
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.service import CloudJob, JobStatus

_WAITING = (JobState.QUEUED, JobState.STARTING)


class StatusPoller:
    """Polls the status; a job that rsctl cancelled for one of its limits has expired.

    `keep` stores `progress`, whose fields say why rsctl cancels the job. A cancel call that is
    refused or gets no answer is made again with the next poll.
    """

    def __init__(
        self,
        folder: RunFolder,
        job: CloudJob,
        progress: CollectorProgress,
        run: RunRecord,
        keep: Callable[[], None],
    ) -> None:
        self._job, self._progress, self._keep = job, progress, keep
        description = folder.known_description()
        self._cost = _cost_limit(description, run)
        self._spent_before = sum(placement.dollars or 0.0 for placement in run.placements)
        self._longest_wait = description.queue if description else None
        self._is_cancelled = False

    def status(self) -> JobStatus:
        """The job's present status. Raises Unreachable and RsctlError."""
        status = self._job.status()
        if not status.state.is_final:
            self._limit_wait(status)
            self._limit_cost(status)
            self._cancel_if_limited(status)
        return self._with_limits(status)

    def _cancel_if_limited(self, status: JobStatus) -> None:
        progress = self._progress
        is_limited = progress.waited_too_long or progress.cost_too_much
        is_limited = is_limited or progress.restarted_too_often or bool(progress.ended_early)
        if not is_limited or self._is_cancelled or status.state is JobState.CANCELLING:
            return
        with suppress(DiskFull):
            self._keep()  # if this process is killed, the next one knows why
        self._job.cancel()
        self._is_cancelled = True

    def _limit_wait(self, status: JobStatus) -> None:
        progress = self._progress
        if status.state not in _WAITING or status.has_machines:
            progress.waiting_since = None
            return
        progress.waiting_since = progress.waiting_since or stamped(status.time)
        waited = seconds_between(progress.waiting_since, status.at or now())
        limit = self._longest_wait
        if limit is not None and waited > limit:
            progress.waited_too_long = True

    def _limit_cost(self, status: JobStatus) -> None:
        """All time since it began to be billed counts: it may keep its machines in a restart."""
        progress = self._progress
        if status.state is JobState.RUNNING:
            progress.running_since = progress.running_since or stamped(status.time)
        since = status.started or progress.running_since
        if self._cost is None or since is None:
            return
        hours = seconds_between(stamped(since), status.at or now()) / HOUR
        spent = self._spent_before + self._cost.per_hour * hours
        if spent > self._cost.dollars:
            progress.cost_too_much = True

    def _with_limits(self, status: JobStatus) -> JobStatus:
        """The status; expired, with the reason, if one of rsctl's limits has ended the job. A job
        whose failed node was kept has failed, even if it is then cancelled.
        """
        if self._progress.kept and status.state in (JobState.CANCELLED, JobState.EXPIRED):
            reason = self._progress.kept
            return replace(status, state=JobState.FAILED, reason=reason)
        if self._progress.ended_early and status.state is JobState.CANCELLED:
            reason = f"ended by rsctl: {self._progress.ended_early}"
            return replace(status, state=JobState.FAILED, reason=reason)
        why = self._reason(status.state)
        if why is None:
            return status
        return replace(status, state=JobState.EXPIRED, reason=why)

    def _reason(self, state: JobState) -> str | None:
        is_cancelled, cost = state is JobState.CANCELLED, self._cost
        if self._progress.waited_too_long and is_cancelled:
            return f"it waited longer than limits.queue of {self._longest_wait:.10g} s"
        if cost is None:
            return None
        if self._progress.cost_too_much and is_cancelled:
            return f"it has reached its limits.cost of {dollars(cost.dollars)}: ended by rsctl"
        if cost.ends_at_limit and state is JobState.EXPIRED:
            return f"it has run for as long as its limits.cost of {dollars(cost.dollars)} allows"
        return None


def stamped(time: str) -> str:
    """A time in the format of events; now, if the cloud's time is invalid."""
    try:
        parse_time(time)
    except ValueError:
        return now()
    return time


def _cost_limit(description: RunDescription | None, run: RunRecord) -> CostLimit | None:
    """The limit of the run, with the cost of its machines at its placement."""
    limit = description.cost if description else None
    here = run.plan.get("cost", {}).get("per_hour") if run.placements else None
    return limit if limit is None or here is None else replace(limit, per_hour=float(here))
