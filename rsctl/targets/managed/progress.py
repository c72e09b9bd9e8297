"""How far a job's log, states and measurements have been collected: the state of a collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import msgspec

from rsctl.findings import Finding, JobState
from rsctl.runs.exit_reports import Locks
from rsctl.runs.stream.events import STALL, Attempt, Failure

if TYPE_CHECKING:
    from rsctl.runs.store import Store

_MOST_FAILURES = 256


class CollectorProgress(msgspec.Struct, kw_only=True):
    """The point from which the next collector of a run continues; the store keeps it with the
    metrics.

    `cursor` is the log reader's own. `sizes` are the valid bytes of each replica's log, and of the
    states under their own name: data beyond them comes from a killed collector, and is cut off and
    read again. `state`, `attempt` and `reason` are the last recorded ones, `failures` the exits
    that ranks have reported in this attempt, `measured` the end of the fetched measurements,
    `read_until` the time up to which the log of a job in progress has been read. `waiting_since` is
    the time when the job began to wait for capacity, and `waited_too_long` says that rsctl
    cancelled it for that. `running_since` is the time when its costs began, and `cost_too_much`
    says that rsctl cancelled it for its cost.

    `kept` is the failure of a node that has stayed (`limits.keep`).

    `attempt` counts from 1, `attempts` are the attempts before it; `before` is the number of the
    run's starts in earlier placements, whose jobs had their own numbers. `restarts` is how often
    the job started again after it had run, `starts` how often each replica's container has started,
    `locks` proves the reports of its launchers, and `restarted_too_often` says that rsctl cancelled
    the job for its restarts. After `is_complete`, no more requests are made.
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
    read_until: Optional[str] = None
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
    kept: Optional[str] = None
    ended_early: Optional[str] = None
    is_complete: bool = False

    def enter(self, state: JobState, reason: str | None) -> bool:
        """Take over the job's present state; returns whether it has changed."""
        if (state, reason) == (self.state, self.reason) and not self.is_new_attempt:
            return False
        self.state, self.reason, self.is_new_attempt = state, reason, False
        return True

    def begin(self, attempt: int) -> None:
        """Begin a new attempt, without the data of the former one: it can stall as that one did."""
        self.reported = [finding for finding in self.reported if finding.code != STALL]
        self.failures, self.running, self.kept = [], [], None
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
    """The stored progress of collecting a run; None if nothing has been collected."""
    kept = store.progress(run)
    return msgspec.json.decode(kept, type=CollectorProgress) if kept else None
