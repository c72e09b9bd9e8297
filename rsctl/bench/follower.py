"""Follows the active runs of a bench, all of them in one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import monotonic

from rsctl.bench.active_run import ActiveRun
from rsctl.bench.observer import BenchObserver
from rsctl.bench.packed import Pack, packs_of
from rsctl.bench.records import BenchRecord, Trial
from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, JobState, RsctlError
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Event
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets.base import Target

_POLL_SECONDS, _POLL_SECONDS_EACH = 0.1, 0.02
_SLICE_SECONDS = 0.1
"""Seconds for polls before submissions have their turn: a cloud answers each in tens of ms."""


class Follower:
    """The active runs; `note` records the state of a trial.

    A process that only watches a bench leaves polling to its driver. `unknown` is the error of the
    runs that it gave up: their state could not be read for long, and their trials stay as they are.
    """

    def __init__(
        self, target: Target, store: Store, observer: BenchObserver, note: Callable[[Trial], None]
    ) -> None:
        self._target, self._store, self._observer = target, store, observer
        self._note = note
        self._active: dict[str, ActiveRun] = {}
        self._shown: set[str] = set()  # slots
        self._told: set[Finding] = set()
        self.unknown: ResultUnknown | None = None
        quota = target.info.quota
        factor = Endpoints.of_environment().time_scale
        self._seconds_each = 60.0 / quota.polls * factor if quota else _POLL_SECONDS_EACH

    def __len__(self) -> int:
        return len(self._active)

    @property
    def running(self) -> int:
        """How many hold machines; one that has ended is followed until all of it is here."""
        return sum(active.holds_machines for active in self._active.values())

    def add(self, trial: Trial) -> ActiveRun:
        """Follow a run from now on."""
        if trial.run not in self._active:
            is_in_cloud = self._target.info.is_managed
            self._active[trial.run] = ActiveRun(trial, self._target, self._store, is_in_cloud)
            if not isinstance(trial, Pack):
                self._observer.submitted(trial)
        return self._active[trial.run]

    def follow(self, record: BenchRecord | None) -> Iterator[ActiveRun]:
        """Poll the runs whose turn it is and show their events; returns those that are over.

        With `record`, their states are taken from it, and no target is asked.
        """
        every = max(_POLL_SECONDS, len(self._active) * self._seconds_each)
        trials = {trial.run: trial for trial in packs_of(record.trials)} if record else {}
        until = monotonic() + _SLICE_SECONDS
        for active in sorted(self._active.values(), key=lambda active: active.poll_at):
            if not active.poll_at <= monotonic() < until:
                return
            active.poll_at = monotonic() + every
            if record is None:
                try:
                    problems = active.poll()
                except ResultUnknown as problem:
                    self._give_up(problem)
                    self.drop(active.trial.run)
                    self._target.release(active.trial.run)
                    continue
                self.tell(problems)
                self._note_state(active)
            else:
                active.update_from(trials.get(active.trial.run, active.trial))
            if events := active.read():
                self._show(active, events)
            if active.is_over:
                self.drop(active.trial.run)
                yield active

    @property
    def packs(self) -> list[ActiveRun]:
        """The packed jobs that are active."""
        return [active for active in self._active.values() if active.progress is not None]

    def _show(self, active: ActiveRun, events: list[Event]) -> None:
        """Show what a run's folder has; of a packed job with the slots that it belongs to."""
        if active.progress is None:
            return self._observer.events(active.trial, events)
        for trial, part in active.progress.take(events):
            if trial.run not in self._shown:
                self._shown.add(trial.run)
                self._observer.submitted(trial)
                if not trial.state.is_final:
                    trial.state = JobState.RUNNING
                    self._note(trial)
            self._observer.events(trial, part)

    def tell(self, problems: list[Finding]) -> None:
        """Show what prevents an answer or a cancellation, once for all runs."""
        for finding in problems:
            if finding not in self._told:
                self._told.add(finding)
                self._observer.finding(finding)

    def _give_up(self, problem: ResultUnknown) -> None:
        """Keep the error; each further run that continues is named in it too."""
        self.unknown = self.unknown or problem
        self.unknown.findings = (*dict.fromkeys((*self.unknown.findings, *problem.findings)),)

    def _note_state(self, active: ActiveRun) -> None:
        """Record its state; its end is recorded when all of its log is here."""
        state = active.run.state if active.run else active.trial.state
        if state is not active.trial.state and not state.is_final:
            active.trial.state = state
            self._note(active.trial)

    def collect(self, runs: Iterable[str]) -> None:
        """Bring the rest of the logs of ended runs in a cloud here, if they are not."""
        for run in runs if self._target.info.is_managed else ():
            try:
                self._target.reconcile(run)
            except RsctlError as problem:
                self.tell([*problem.findings])
                if problem.exit_code is ExitCode.ENVIRONMENT:  # which is of all runs
                    return
            finally:
                self._target.release(run)

    def cancel(self) -> None:
        """Ask all of them to end."""
        for active in self._active.values():
            self.tell(active.cancel(monotonic()))

    def drop(self, run: str) -> None:
        """Follow a run no longer."""
        if run in self._active:
            self._active.pop(run).close()

    def close(self) -> None:
        """Follow none any longer."""
        for run in list(self._active):
            self.drop(run)
