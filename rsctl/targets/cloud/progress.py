"""How far a job's log, states and measurements have been brought here."""

from __future__ import annotations

from typing import Any, Optional

import msgspec

from rsctl.findings import Finding, JobState
from rsctl.stream.events import Failure

_MOST_FAILURES = 256


class Progress(msgspec.Struct, kw_only=True):
    """What the next collector of a run goes on from; the store keeps it beside the metrics.

    `cursor` is the log reader's own. `sizes` are the bytes of each replica's log, and of the
    states under their own name, that belong to it: what a killed collector wrote beyond them is
    cut off and read again. `state`, `attempt` and `reason` are those told last, `failures` what
    ranks have told of their own deaths in this attempt, `measured` until when the cloud's
    measurements have been fetched. `waiting_since` is since when the job waits for capacity, and
    `gave_up` that it was cancelled for that. Once `is_complete`, nothing is asked any more.
    """

    cursor: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    state: Optional[JobState] = None
    attempt: int = 1
    reason: Optional[str] = None
    running: list[str] = []
    failures: list[Failure] = []
    told: list[Finding] = []
    noticed: list[Finding] = []
    measured: Optional[str] = None
    waiting_since: Optional[str] = None
    gave_up: bool = False
    is_complete: bool = False

    def enter(self, state: JobState, attempt: int, reason: str | None) -> bool:
        """Take over what the job is now; whether that is news. A new attempt starts afresh."""
        if (state, attempt, reason) == (self.state, self.attempt, self.reason):
            return False
        if attempt != self.attempt:
            self.failures, self.running = [], []
        self.state, self.attempt, self.reason = state, attempt, reason
        return True

    def tell(self, finding: Finding) -> bool:
        """Whether a finding has not been told before."""
        if finding in self.told:
            return False
        self.told.append(finding)
        return True

    def add_failure(self, failure: Failure) -> None:
        """Keep a rank's word, up to a number that covers any real job's first failure."""
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(failure)
