"""Runs a bench: what is missing of it, in order, under its target's quotas, to its end.

One process drives a bench, whoever holds its lock; others that run the same one watch it, and go on
with it should the driver be killed. What a trial is, and under which run's id, is written down
before it is submitted, so that no repetition is run twice.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Literal, Optional

from rsctl.bench.active_run import ActiveRun
from rsctl.bench.figures import figures
from rsctl.bench.folder import BenchFolder
from rsctl.bench.follower import Follower
from rsctl.bench.images import provide_images
from rsctl.bench.observer import BenchObserver, NullObserver
from rsctl.bench.prepare import PreparedBench
from rsctl.bench.rate import QUOTAS
from rsctl.bench.records import Bench, Benches, Trial
from rsctl.bench.schedule import failed, pending
from rsctl.bench.starter import Sent, Starter
from rsctl.findings import ExitCode, JobState, RsctlError, error, note
from rsctl.runs.store import Store
from rsctl.stream.events import StateEvent, now

Stop = Optional[Literal["leave", "cancel"]]
"""What an interruption asks for: leave the runs alone, or cancel them; None while there is none."""

_IDLE_SECONDS = 0.05
_REFRESH_SECONDS = 0.5
_CAPACITY_TRIES = 3
"""How often a run that got no machines after it was accepted is tried, all in all."""

_MOST_IN_CLOUD = 20
_STOPPED = (JobState.CANCELLING, JobState.CANCELLED)


def run_bench(
    prepared: PreparedBench,
    bench: Bench,
    *,
    parallel: int | None = None,
    fail_fast: bool = False,
    watcher: BenchObserver | None = None,
    stop: Callable[[], Stop] = lambda: None,
) -> Bench:
    """Run what is missing of a recorded bench, or failed before; returns it as it is then.

    `parallel` is how many runs may go on at once; by default one on this machine, in a cloud as
    many as there are cells, 20 at most. `fail_fast` ends all with the first failure. `stop` is
    asked all the time. Raises RsctlError where nothing more can be run, such as without
    credentials; what was submitted has ended then, and is recorded.
    """
    store = Store()
    driver = _Driver(prepared, bench, store, watcher or NullObserver(), parallel, fail_fast)
    try:
        return driver.run(stop)
    finally:
        driver.close()
        store.close()


def default_parallel(prepared: PreparedBench) -> int:
    """How many runs may go on at once unless somebody says so."""
    if prepared.target.name not in QUOTAS:
        return 1
    return min(len(prepared.cells), _MOST_IN_CLOUD)


class _Driver:
    def __init__(
        self,
        prepared: PreparedBench,
        bench: Bench,
        store: Store,
        watcher: BenchObserver,
        parallel: int | None,
        fail_fast: bool,
    ) -> None:
        self._prepared, self._fail_fast = prepared, fail_fast
        self._store, self._benches, self._watcher = store, Benches(store), watcher
        self._folder = BenchFolder(bench.bench)
        self._bench = bench
        self._again = failed(bench)
        self._lock: int | None = None
        self._starter = Starter(prepared, self._benches, parallel or default_parallel(prepared))
        self._follower = Follower(prepared.target, store, watcher, self._note)
        self._is_cancelled = self._has_failed_fast = False
        self._refresh_at = 0.0

    def run(self, stop: Callable[[], Stop]) -> Bench:
        """Until nothing is left to do, or somebody stops it."""
        _allow_many_files()
        self._begin()
        while True:
            self._refresh()
            wish = stop()
            if wish == "leave" or (wish == "cancel" and self._lock is None):
                return self._left()
            is_ending = wish == "cancel" or self._is_cancelled
            if is_ending or self._has_failed_fast:
                self._starter.stop()
                if self._lock is not None:
                    self._follower.cancel()
            if self._lock is not None:
                self._starter.start(self._bench, self._follower.running)
                self._settle()
            self._follow()
            self._watcher.tick(self._bench)
            if self._is_done():
                return self._finish(is_ending)
            sleep(_IDLE_SECONDS)

    def close(self) -> None:
        """Let go of the bench, so that another process may drive it."""
        self._starter.wait()
        self._follower.close()
        if self._lock is not None:
            os.close(self._lock)

    # Whose bench it is.

    def _begin(self) -> None:
        """Drive the bench, or watch the one who does."""
        self._lock = self._folder.lock()
        self._bench = self._known()
        going = [t for t in self._bench.latest().values() if not t.state.is_final]
        todo = len(pending(self._bench, self._again)) + len(going)
        self._watcher.begin(self._bench, todo, is_driven=self._lock is None)
        if self._lock is not None:  # then a cancellation of before is not for us
            self._drive()

    def _refresh(self) -> None:
        """What others wrote down: a cancellation, and for who only watches the trials."""
        if monotonic() < self._refresh_at:
            return
        self._refresh_at = monotonic() + _REFRESH_SECONDS
        if self._lock is None:
            self._lock = self._folder.lock()
            self._bench = self._known()
            self._is_cancelled = self._is_cancelled or self._bench.state in _STOPPED
            if self._lock is not None:
                self._inherit()
                return
        self._bench = self._known()
        self._is_cancelled = self._is_cancelled or self._bench.state is JobState.CANCELLING
        for trial in self._bench.latest().values() if self._lock is None else ():
            if not trial.state.is_final:
                self._follower.add(trial)

    def _inherit(self) -> None:
        """The one who drove the bench is gone; it may be that nothing is left to do."""
        left = pending(self._bench, self._again)
        if left and not self._is_cancelled:
            self._watcher.finding(note("driver", "the process that drove it has ended: going on"))
        self._drive()

    def _drive(self) -> None:
        unsent = self._take_over()
        places = [] if self._is_cancelled else pending(self._bench, self._again)
        if places or unsent or len(self._follower):
            self._benches.enter(self._bench.bench, JobState.RUNNING)
        self._bench.state = JobState.RUNNING
        self._starter.fill(places, unsent)
        if cells := self._starter.cells():
            with self._watcher.building() as show:
                target, known = self._prepared.target, self._bench.images
                for tag, reference in provide_images(target, cells, known, show):
                    self._benches.have_image(self._bench.bench, tag, reference)
                    known[tag] = reference

    def _take_over(self) -> list[Trial]:
        """Trials that a driver which is gone has begun: follow those that go on.

        Returns those that were written down, but perhaps not sent.
        """
        unsent = []
        for trial in self._bench.latest().values():
            if trial.state.is_final:
                continue
            if self._is_unsent(trial.run):
                self._follower.drop(trial.run)
                unsent.append(trial)
                continue
            active = self._follower.add(trial)
            active.trial = trial
            active.look()
            if active.is_over:
                self._follower.drop(trial.run)
                self._end(active)
                if trial.state is not JobState.SUCCEEDED:
                    self._again |= {(*trial.place, trial.attempt)}
        return unsent

    def _is_unsent(self, run: str) -> bool:
        """Whether a run may never have come to a job: a second submission finds the first's."""
        known = self._store.get(run)
        if known is None:
            return True
        is_in_cloud = known.target in QUOTAS and not known.state.is_final
        return is_in_cloud and known.url == f"{known.target}://{run}"

    # What comes of its runs.

    def _settle(self) -> None:
        """Submissions that were answered."""
        for sent in self._starter.answered():
            if sent.problem is None:
                self._starter.backoff.reset()
                self._follower.add(sent.trial)
            else:
                self._refused(sent, sent.problem)

    def _refused(self, sent: Sent, problem: RsctlError) -> None:
        """There is no job: wait for machines, or take it for a failure."""
        told = None
        if not self._is_cancelled:
            told = self._starter.later(sent, others_run=len(self._follower) > 0)
        for finding in problem.findings if told is None else told:
            self._watcher.finding(finding)
        if told is not None:
            return
        state = JobState.CANCELLED if self._is_cancelled else JobState.FAILED
        code = int(state.exit_code if self._is_cancelled else problem.exit_code)
        event = StateEvent(time=now(), state=state, exit_code=code, reason=str(problem))
        self._store.record(sent.trial.run, event)
        self._conclude(sent.trial, state, code, str(problem))
        self._watcher.ended(sent.trial, self._store.get(sent.trial.run), {})
        self._has_failed_fast = self._has_failed_fast or self._fail_fast
        if problem.exit_code is ExitCode.ENVIRONMENT:
            self._starter.stop(problem)

    def _follow(self) -> None:
        watched = None if self._lock is not None else self._bench
        for active in self._follower.follow(watched):
            self._end(active)
            self._reconsider(active)

    def _end(self, active: ActiveRun) -> None:
        """A run is over: write it down, and tell its figures."""
        trial, run = active.trial, active.run
        if self._lock is not None:
            state = run.state if run and run.state.is_final else JobState.FAILED
            reason = run.reason if run else "it is not in the store any more"
            self._conclude(trial, state, int(state.exit_code), reason)
        self._watcher.ended(trial, run, figures(self._store, run) if run else {})

    def _reconsider(self, active: ActiveRun) -> None:
        """Whether a run that is over changes what is run next."""
        trial = active.trial
        if trial.state is JobState.SUCCEEDED:
            self._starter.backoff.reset()
        elif self._may_try_again(active):
            self._starter.backoff.wait(monotonic(), others_run=True)
            self._starter.put_first(trial.place)
        else:
            self._has_failed_fast = self._has_failed_fast or self._fail_fast

    def _may_try_again(self, active: ActiveRun) -> bool:
        """It got no machines; another attempt may."""
        is_stopped = self._lock is None or self._is_cancelled or self._starter.problem is not None
        return (
            active.lacked_machines and not is_stopped and active.trial.attempt + 1 < _CAPACITY_TRIES
        )

    def _conclude(self, trial: Trial, state: JobState, code: int, reason: str | None) -> None:
        trial.state, trial.exit_code, trial.reason = state, code, reason
        self._note(trial)

    def _note(self, trial: Trial) -> None:
        self._benches.note(self._bench.bench, trial)

    # Its end.

    def _is_done(self) -> bool:
        is_quiet = not len(self._follower) and not self._starter.sending
        return (
            is_quiet
            and not self._starter.waiting
            and (self._lock is not None or self._is_cancelled)
        )

    def _left(self) -> Bench:
        """Let submissions that are on their way arrive, and leave the rest as it is."""
        while self._starter.sending:
            self._settle()
            sleep(_IDLE_SECONDS)
        return self._known()

    def _finish(self, is_ending: bool) -> Bench:
        known = self._known()
        if self._lock is not None:
            state = self._final_state(known, is_ending)
            if state is not known.state:
                self._benches.enter(known.bench, state, now() if state.is_final else None)
        if self._starter.problem:
            raise self._starter.problem
        return self._known()

    def _final_state(self, bench: Bench, is_ending: bool) -> JobState:
        if bench.is_complete:
            return JobState.SUCCEEDED
        if self._is_cancelled:
            return JobState.CANCELLED
        if is_ending or self._starter.problem:
            return JobState.RUNNING
        worst = {state.exit_code: state for state in JobState if state.is_final}
        return worst.get(bench.exit_code, JobState.FAILED)

    def _known(self) -> Bench:
        known = self._benches.get(self._bench.bench)
        if known is None:
            finding = error("bench", f"{self._bench.bench} was forgotten while it ran")
            raise RsctlError(ExitCode.USAGE, finding)
        return known


def _allow_many_files() -> None:
    """Each run that goes on has some open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
