"""One active run of a bench: polls its state, reads its folder, and cancels it on request."""

from __future__ import annotations

from rsctl.bench.pack_progress import PackProgress
from rsctl.bench.packed import Pack, trials_in
from rsctl.bench.records import Trial
from rsctl.findings import Finding, RsctlError
from rsctl.runs.final_state import with_final_state
from rsctl.runs.folder import RunFolder
from rsctl.runs.reader import RunReader
from rsctl.runs.records import FAILED_NODE, NODE_FAILED
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import Cursor, Event, FindingEvent
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets.base import Target

CAPACITY = frozenset({"quota", "stock-out"})
"""Codes of findings that say that there are no machines at the moment, or no quota for them."""

NODE_UNHEALTHY = "node-unhealthy"
"""The code of a node's finding that it has failed the job's checks."""

_CANCEL_AGAIN = 5.0


class ActiveRun:
    """A run that has been submitted. Times are of the caller's clock, in seconds.

    `run` is its last record in the store; `is_over` says that it has ended and its data is
    complete, `lacked_machines` that it ended because no machines were available, `was_lost` that
    the cluster ended it, the failure of a node or a preemption, or that a node failed its checks.
    """

    def __init__(
        self, trial: Trial, target: Target, store: Store, is_drained_late: bool = False
    ) -> None:
        self.trial = trial
        self.run: RunRecord | None = None
        self.is_over = False
        self.poll_at = 0.0
        self.progress = PackProgress(trial) if isinstance(trial, Pack) else None
        self._target, self._store = target, store
        self._tail: RunReader | None = None
        self._cursor: Cursor = {}
        self._codes: set[str] = set()
        self._cancel_at = 0.0
        self._is_drained_late = is_drained_late

    @property
    def holds_machines(self) -> bool:
        """Whether it still runs, or may; the log of a job in a cloud comes long after its end."""
        has_ended = self.run is not None and self.run.state.is_final
        return not (has_ended and self._is_drained_late)

    @property
    def lacked_machines(self) -> bool:
        """Whether it ended because no machines were available."""
        return bool(self._codes & CAPACITY)

    @property
    def was_lost(self) -> bool:
        """Whether the cluster or a check of its nodes ended it, which is not due to the job."""
        return bool(self._codes & {NODE_FAILED, NODE_UNHEALTHY})

    @property
    def failed_node(self) -> str | None:
        """The node whose failure has ended it, if the cluster names one."""
        facts = self.run.facts if self.run else []
        return next((str(fact.value) for fact in facts if fact.name == FAILED_NODE), None)

    def poll(self) -> list[Finding]:
        """Ask its target for its state; returns what prevents an answer.

        Raises DiskFull: the end of the run could not be recorded, however often it is asked for;
        and ResultUnknown if there was no answer for long.
        """
        problems: list[Finding] = []
        try:
            self.is_over = self._target.poll(self.trial.run)
        except (DiskFull, ResultUnknown):
            raise
        except RsctlError as problem:
            problems = [*problem.findings]
        run = self._store.get(self.trial.run)
        self.run = with_final_state(run) if run else None
        return problems

    def update_from(self, trial: Trial) -> None:
        """Take over what another process recorded of it."""
        self.trial, self.is_over = trial, all(one.state.is_final for one in trials_in(trial))
        self.run = self._store.get(trial.run)

    def read(self) -> list[Event]:
        """The next events of its folder; all that are left, once it is over."""
        tail = self._tail = self._tail or self._open()
        if tail is None:
            return []
        events = tail.read(complete=self.is_over)
        for event in events:
            if isinstance(event, FindingEvent):
                self._codes.add(event.finding.code)
        return events

    def cancel(self, now: float) -> list[Finding]:
        """Ask it to end, again and again: one that is just being started may miss the first.

        Returns what prevents it.
        """
        has_ended = self.run is not None and self.run.state.is_final
        if self.is_over or has_ended or now < self._cancel_at:
            return []
        self._cancel_at = now + _CANCEL_AGAIN
        try:
            self._target.cancel(self.trial.run)
        except RsctlError as problem:
            return [*problem.findings]
        return []

    def close(self) -> None:
        """Close its files."""
        if self._tail is not None:
            self._tail.close()

    def _open(self) -> RunReader | None:
        folder = RunFolder(self.trial.run)
        return RunReader(folder, self._cursor) if folder.known_description() else None
