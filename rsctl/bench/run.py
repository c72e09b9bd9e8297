"""Runs the remaining runs of a bench, in order, within its target's quotas, until they end.

One process drives a bench: the holder of its lock. Others that run the same one watch it, and take
over should the driver be killed. What a trial is, and under which run's id, is recorded before it
is submitted, so that no repetition is run twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic, sleep
from typing import Literal, Optional

from rsctl.bench.folder import BenchFolder
from rsctl.bench.follower import Follower
from rsctl.bench.images import provide_images
from rsctl.bench.live_record import CurrentBench
from rsctl.bench.observer import BenchObserver, NullObserver
from rsctl.bench.outcomes import Outcomes
from rsctl.bench.packed import trials_in
from rsctl.bench.prepare import BenchPlan
from rsctl.bench.records import BenchRecord
from rsctl.bench.starter import TrialStarter
from rsctl.bench.takeover import take_over
from rsctl.findings import ExitCode, JobState, RsctlError, error, note
from rsctl.runs.store import Store

Stop = Optional[Literal["leave", "cancel"]]
"""The action that an interruption requests: leave the runs alone, or cancel them; None without one.
"""

_IDLE_SECONDS = 0.05
_RELOAD_SECONDS = 0.5
_MOST_IN_CLOUD = 20
_STOPPED = (JobState.CANCELLING, JobState.CANCELLED)


def run_bench(
    prepared: BenchPlan,
    bench: BenchRecord,
    *,
    parallel: int | None = None,
    fail_fast: bool = False,
    observer: BenchObserver | None = None,
    stop: Callable[[], Stop] = lambda: None,
    begun: Callable[[], None] = lambda: None,
) -> BenchRecord:
    """Run the runs of a recorded bench that have not succeeded; returns the record afterwards.

    `parallel` is the number of concurrent runs; by default one on this machine and for pairs that
    use the same machines in turn, and in a cloud as many as there are cells, 20 at most.
    `fail_fast` ends all runs after the first failure. `stop` is called about twenty times a second,
    `begun` once, when the bench is recorded as running again.
    Raises RsctlError if no more runs can start, such as without credentials; what was submitted has
    ended then, and is recorded. Raises ResultUnknown if the state of a run cannot be read: it
    continues, and the next driver follows it.
    """
    store = Store()
    current = CurrentBench(store, bench)
    driver = _Driver(prepared, current, observer or NullObserver(), parallel, fail_fast)
    try:
        return driver.run(stop, begun)
    finally:
        driver.close()
        store.close()


def default_parallel(prepared: BenchPlan) -> int:
    """The default number of concurrent runs."""
    one_at_a_time = prepared.rehearsal or prepared.is_sequential
    if not prepared.target.info.is_managed or one_at_a_time:
        return 1
    return min(len(prepared.cells), _MOST_IN_CLOUD)


class _Driver:
    """One process that runs a bench: its driver while it holds the lock, otherwise a watcher."""

    def __init__(
        self,
        prepared: BenchPlan,
        current: CurrentBench,
        observer: BenchObserver,
        parallel: int | None,
        fail_fast: bool,
    ) -> None:
        self._prepared, self._current, self._observer = prepared, current, observer
        self._folder = BenchFolder(current.record.bench)
        self._lock: int | None = None
        self._starter = TrialStarter(
            prepared, current.store, parallel or default_parallel(prepared)
        )
        self._follower = Follower(prepared.target, current.store, observer, current.note)
        self._outcomes = Outcomes(current, self._starter, self._follower, observer, fail_fast)
        self._reload_at = 0.0

    @property
    def _is_driver(self) -> bool:
        return self._lock is not None

    def run(self, stop: Callable[[], Stop], begun: Callable[[], None]) -> BenchRecord:
        """Run until nothing remains, or an interruption stops it."""
        self._begin()
        begun()
        while True:
            self._reload()
            wish = stop()
            if wish not in (None, "leave", "cancel"):
                message = f"stop: the function has returned {wish!r}"
                remedy = 'return None, "leave" or "cancel"'
                raise RsctlError(ExitCode.USAGE, error("argument", message, remedy))
            if wish == "leave" or (wish == "cancel" and not self._is_driver):
                return self._leave()
            is_ending = wish == "cancel" or self._outcomes.is_cancelled
            if is_ending or self._outcomes.must_stop:
                self._stop_runs()
            if self._is_driver:
                self._starter.start(self._current.record, self._follower.running)
                self._outcomes.take_answers()
            for active in self._follower.follow(None if self._is_driver else self._current.record):
                self._outcomes.ended(active, self._is_driver)
            self._outcomes.keep_slots(self._is_driver)
            if self._follower.unknown:
                self._starter.stop(self._follower.unknown)
            self._observer.tick(self._current.record)
            if self._is_done():
                return self._finish(is_ending)
            sleep(_IDLE_SECONDS)

    def close(self) -> None:
        """Release the bench, so that another process may drive it."""
        self._starter.wait()
        self._follower.close()
        if self._lock is not None:
            os.close(self._lock)

    def _begin(self) -> None:
        """Drive the bench, or watch the process that does."""
        self._lock = self._folder.lock()
        self._current.reload()
        begun = [one for trial in self._current.unfinished() for one in trials_in(trial)]
        todo = len(self._current.pending()) + sum(not one.state.is_final for one in begun)
        self._observer.begin(self._current.record, todo, is_driven=not self._is_driver)
        if self._is_driver:  # an earlier cancellation is over then
            self._drive()

    def _reload(self) -> None:
        """Read what others recorded: a cancellation and, in a process that only watches, the
        trials.
        """
        if monotonic() < self._reload_at:
            return
        self._reload_at = monotonic() + _RELOAD_SECONDS
        if not self._is_driver:
            self._watch()
            return
        state = self._current.reload().state
        self._outcomes.is_cancelled = self._outcomes.is_cancelled or state is JobState.CANCELLING

    def _watch(self) -> None:
        """Follow what the driver started; take its part if it has ended."""
        self._lock = self._folder.lock()
        state = self._current.reload().state
        self._outcomes.is_cancelled = self._outcomes.is_cancelled or state in _STOPPED
        if not self._is_driver:
            for trial in self._current.unfinished():
                self._follower.add(trial)
            return
        if self._current.pending() and not self._outcomes.is_cancelled:
            self._observer.finding(
                note("driver", "the process that ran this bench has ended: continuing")
            )
        self._drive()

    def _drive(self) -> None:
        """Queue the remaining runs, and provide their images."""
        unsent = take_over(self._current, self._follower, self._outcomes)
        slots = [] if self._outcomes.is_cancelled else self._current.pending()
        if slots or unsent or len(self._follower):
            self._current.enter(JobState.RUNNING)
        self._current.record.state = JobState.RUNNING
        self._starter.add(slots, unsent)
        cells = self._starter.cells(self._current.record)
        if cells and self._prepared.rehearsal is None:  # a rehearsal builds its own, as it is sent
            with self._observer.building() as show:
                target, known = self._prepared.target, self._current.record.images
                for tag, reference in provide_images(target, cells, known, show):
                    self._current.add_image(tag, reference)

    def _stop_runs(self) -> None:
        self._starter.stop()
        if self._is_driver:
            self._follower.cancel()

    def _is_done(self) -> bool:
        is_quiet = not len(self._follower) and not self._starter.sending
        is_all = not self._starter.waiting and (self._is_driver or self._outcomes.is_cancelled)
        return is_quiet and is_all

    def _leave(self) -> BenchRecord:
        """Wait for the answers of submissions that are on their way; the rest stays as it is."""
        while self._starter.sending:
            self._outcomes.take_answers()
            sleep(_IDLE_SECONDS)
        return self._current.reload()

    def _finish(self, is_ending: bool) -> BenchRecord:
        bench = self._current.reload()
        if self._is_driver:
            state = self._final_state(bench, is_ending)
            if state is not bench.state:
                self._current.enter(state)
        if problem := self._follower.unknown or self._starter.problem:
            raise problem
        return self._current.reload()

    def _final_state(self, bench: BenchRecord, is_ending: bool) -> JobState:
        if bench.is_complete:
            return JobState.SUCCEEDED
        if self._outcomes.is_cancelled:
            return JobState.CANCELLED
        if is_ending or self._starter.problem:
            return JobState.RUNNING
        worst = {state.exit_code: state for state in JobState if state.is_final}
        return worst.get(bench.exit_code, JobState.FAILED)
