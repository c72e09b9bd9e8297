"""Why a run waits for machines: where, since when, and what comes next."""

from __future__ import annotations

from datetime import timedelta
from typing import Optional

import msgspec

from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.runs.records import PHASES, RunRecord
from rsctl.runs.stream.events import now, parse_time, seconds_between
from rsctl.runs.stream.formatting import format_duration
from rsctl.runs.stream.sanitize import sanitize_line

EXPECTED_START = "expected_start"
"""The fact that gives the time at which the target expects to start a job."""


class Waiting(msgspec.Struct, kw_only=True, frozen=True):
    """A run that has no machines yet. `placement` is where it waits, None if it has only one;
    `since` is when it began to wait there, and `reason` is the target's.

    `next` is the placement that follows, None if this one is the last. `until` is when
    `limits.queue` ends the wait here, None without that limit. `expected_start` is the target's own
    estimate, None where it gives none.
    """

    since: str
    reason: Optional[str] = None
    placement: Optional[str] = None
    next: Optional[str] = None
    until: Optional[str] = None
    expected_start: Optional[str] = None

    def describe(self) -> str:
        """`0:12 in us-east1: no machines; until 12:00:30 UTC, next us-west1`."""
        text = format_duration(seconds_between(self.since, now()))
        text += f" in {self.placement}" if self.placement else ""
        text += f": {self.reason.rstrip('.')}" if self.reason else ""
        if self.expected_start:
            text += f"; expected to start at {self.expected_start[:16]}Z"
        if self.until:
            text += f"; until {self.until[11:19]} UTC (limits.queue)"
        if self.next:
            text += f"; next: {self.next}"
        elif self.placement:
            text += "; this is the last placement"
        return sanitize_line(text)


def waiting_of(run: RunRecord) -> Waiting | None:
    """The wait of a run; None if it has begun to run, is being cancelled, or has ended, and for a
    target that gives no reason.
    """
    if run.state not in (JobState.QUEUED, JobState.STARTING) or run.started is not None:
        return None
    if (phases := run.fact(PHASES)) and phases[-1].get("billed"):  # such as a download of inputs
        return None
    tried = [each for each in run.placements if each.began is not None]
    rest = run.placements[len(tried) :]
    since = (tried[-1].began if tried else None) or run.created
    limit = _limit(run.run)
    until = parse_time(since) + timedelta(seconds=limit) if limit else None
    estimate = run.fact(EXPECTED_START)
    expected = None if estimate is None else str(estimate)
    if not (tried or run.reason or expected):
        return None
    return Waiting(
        since=since,
        reason=run.reason,
        placement=str(tried[-1]) if tried else None,
        next=str(rest[0]) if rest else None,
        until=until.strftime("%Y-%m-%dT%H:%M:%SZ") if until else None,
        expected_start=expected,
    )


def _limit(run: str) -> float | None:
    """`limits.queue` in seconds, where there is one."""
    description = RunFolder(run).known_description()  # None if it was just recorded, or removed
    return description.queue if description else None
