"""Follows the runs of a bench that go on, all of them in one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from rsctl.bench.active_run import ActiveRun
from rsctl.bench.observer import BenchObserver
from rsctl.bench.rate import QUOTAS
from rsctl.bench.records import Bench, Trial
from rsctl.clients.pace import Pace
from rsctl.runs.store import Store
from rsctl.targets.base import Target

_LOOK_SECONDS, _LOOK_SECONDS_EACH = 0.1, 0.02
_SLICE_SECONDS = 0.1
"""So long looks may take before other work has its turn: a cloud answers each in tens of ms."""


class Follower:
    """The runs that go on; `note` writes down how a trial is.

    Who only watches a bench leaves looking at its runs to its driver.
    """

    def __init__(
        self, target: Target, store: Store, watcher: BenchObserver, note: Callable[[Trial], None]
    ) -> None:
        self._target, self._store, self._watcher = target, store, watcher
        self._note = note
        self._active: dict[str, ActiveRun] = {}
        quota = QUOTAS.get(target.name)
        factor = Pace.of_environment().factor
        self._seconds_each = 60.0 / quota.looks * factor if quota else _LOOK_SECONDS_EACH

    def __len__(self) -> int:
        return len(self._active)

    @property
    def running(self) -> int:
        """How many hold machines; one that has ended is followed until all of it is here."""
        return sum(active.holds_machines for active in self._active.values())

    def add(self, trial: Trial) -> ActiveRun:
        """Follow a run from now on."""
        if trial.run not in self._active:
            is_in_cloud = self._target.name in QUOTAS
            self._active[trial.run] = ActiveRun(trial, self._target, self._store, is_in_cloud)
            self._watcher.submitted(trial)
        return self._active[trial.run]

    def follow(self, record: Bench | None) -> Iterator[ActiveRun]:
        """Look at the runs that are due, and tell what they have; those that are over.

        With `record`, they are over when that says so.
        """
        every = max(_LOOK_SECONDS, len(self._active) * self._seconds_each)
        trials = {trial.run: trial for trial in record.trials} if record else {}
        until = monotonic() + _SLICE_SECONDS
        for active in sorted(self._active.values(), key=lambda active: active.due):
            if not active.due <= monotonic() < until:
                return
            active.due = monotonic() + every
            if record is None:
                for finding in active.look():
                    self._watcher.finding(finding)
                self._note_state(active)
            else:
                active.look_at_record(trials.get(active.trial.run, active.trial))
            if events := active.read():
                self._watcher.events(active.trial, events)
            if active.is_over:
                self.drop(active.trial.run)
                yield active

    def _note_state(self, active: ActiveRun) -> None:
        """Write down what it does now; its end is not written down before all of it is here."""
        state = active.run.state if active.run else active.trial.state
        if state is not active.trial.state and not state.is_final:
            active.trial.state = state
            self._note(active.trial)

    def cancel(self) -> None:
        """Ask all of them to end."""
        for active in self._active.values():
            active.cancel(monotonic())

    def drop(self, run: str) -> None:
        """Follow a run no longer."""
        if run in self._active:
            self._active.pop(run).close()

    def close(self) -> None:
        """Follow none any longer."""
        for run in list(self._active):
            self.drop(run)
