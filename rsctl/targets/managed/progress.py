"""How far a job's log, states and measurements have been collected: the state of a collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import msgspec

from rsctl.findings import Finding, JobState
from rsctl.runs.failures import Locks
from rsctl.runs.stream.events import Attempt, Failure

if TYPE_CHECKING:
    from rsctl.runs.store import Store

_MOST_FAILURES = 256


class CollectorProgress(msgspec.Struct, kw_only=True):
    """The point from which the next collector of a run continues; the store keeps it with the
    metrics.

    `cursor` is the log reader's own. `sizes` are the bytes of each replica's log, and of the
    states under their own name, that belong to it: what a killed collector wrote beyond them is
    cut off and read again. `state`, `attempt` and `reason` are those recorded last, `failures` the
    exits that ranks have reported in this attempt, `measured` until when the cloud's measurements
    have been fetched. `waiting_since` is since when the job waits for capacity, and
    `waited_too_long` that it was cancelled for that. `running_since` is since when it costs, and
    `cost_too_much` that it was cancelled for what it had cost.

    `attempt` counts from 1, `attempts` are those before it; `before` are the run's starts in
    placements that it has left, whose jobs had numbers of their own. `restarts` is how often the
    job was being started after it had run, `starts` how often each replica's container has begun,
    `locks` what proves the reports of its launchers, and `restarted_too_often` that the job was
    cancelled for that. Once `is_complete`, nothing is asked any more.
    """

    cursor: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    state: Optional[JobState] = None
    attempt: int = 1
    reason: Optional[str] = None
    is_new_attempt: bool = False
    running: list[str] = []
    failures: list[Failure] = []
    reported: list[Finding] = msgspec.field(default_factory=list, name="told")
    noticed: list[Finding] = []
    measured: Optional[str] = None
    waiting_since: Optional[str] = None
    waited_too_long: bool = msgspec.field(default=False, name="gave_up")
    running_since: Optional[str] = None
    cost_too_much: bool = False
    restarts: int = 0
    starts: dict[str, int] = {}
    locks: Locks = {}
    attempts: list[Attempt] = []
    restarted_too_often: bool = False
    before: int = 0
    is_complete: bool = False

    def enter(self, state: JobState, reason: str | None) -> bool:
        """Take over the state that the job is in now; whether that is news."""
        if (state, reason) == (self.state, self.reason) and not self.is_new_attempt:
            return False
        self.state, self.reason, self.is_new_attempt = state, reason, False
        return True

    def begin(self, attempt: int) -> None:
        """A new attempt starts afresh."""
        self.failures, self.running = [], []
        self.attempt, self.is_new_attempt = attempt, True

    def is_new(self, finding: Finding) -> bool:
        """Whether a finding has not been reported before; from now on it has."""
        if finding in self.reported:
            return False
        self.reported.append(finding)
        return True

    def add_failure(self, failure: Failure) -> None:
        """Keep a rank's report, up to a number that covers any real job's first failure."""
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(failure)


def kept_progress(store: Store, run: str) -> CollectorProgress | None:
    """How far a run has been collected; None if nothing of it has been."""
    kept = store.progress(run)
    return msgspec.json.decode(kept, type=CollectorProgress) if kept else None
