"""The effect of submission answers and run ends on the rest of a bench."""

from __future__ import annotations

from time import monotonic

from rsctl.bench.active_run import ActiveRun
from rsctl.bench.follower import Follower
from rsctl.bench.live_record import CurrentBench
from rsctl.bench.observer import BenchObserver
from rsctl.bench.samples import samples
from rsctl.bench.starter import Sent, TrialStarter
from rsctl.findings import ExitCode, JobState, RsctlError, note
from rsctl.runs.stream.events import StateEvent, now

_TRIES = 3
"""How often a run that got no machines after it was accepted, or that the cluster has ended, is
tried, all in all."""


class Outcomes:
    """Records how trials ended and decides what follows: another attempt, the next one, or an end.

    `is_cancelled` says that the bench is being cancelled, so that nothing is tried again.
    `must_stop` is true after a failure where the first one ends the bench (`fail_fast`).
    """

    def __init__(
        self,
        current: CurrentBench,
        starter: TrialStarter,
        follower: Follower,
        observer: BenchObserver,
        fail_fast: bool,
    ) -> None:
        self.is_cancelled = False
        self.must_stop = False
        self._current, self._starter, self._follower = current, starter, follower
        self._observer, self._fail_fast = observer, fail_fast

    def take_answers(self) -> None:
        """For each answered submission: follow its run, wait for machines, or record it."""
        for sent in self._starter.answered():
            if sent.problem is None:
                self._starter.backoff.reset()
                self._follower.add(sent.trial)
            else:
                self._refused(sent, sent.problem)

    def _refused(self, sent: Sent, problem: RsctlError) -> None:
        delayed = None
        if not self.is_cancelled:
            delayed = self._starter.later(sent, others_run=len(self._follower) > 0)
        for finding in problem.findings if delayed is None else delayed:
            self._observer.finding(finding)
        if delayed is None:
            self._record_refusal(sent, problem)

    def _record_refusal(self, sent: Sent, problem: RsctlError) -> None:
        """There is no job: the trial has failed, or was cancelled before it began."""
        store, run = self._current.store, sent.trial.run
        state = JobState.CANCELLED if self.is_cancelled else JobState.FAILED
        code = int(state.exit_code if self.is_cancelled else problem.exit_code)
        why = problem.summary
        store.record(run, StateEvent(time=now(), state=state, exit_code=code, reason=why))
        self._current.conclude(sent.trial, state, code, why)
        self._observer.ended(sent.trial, store.get(run), {})
        self.must_stop = self.must_stop or self._fail_fast
        if problem.exit_code is ExitCode.ENVIRONMENT:
            self._starter.stop(problem)

    def ended(self, active: ActiveRun, is_driver: bool) -> None:
        """A run is over; who drives the bench records it and decides what follows."""
        self.record_end(active, is_driver)
        if active.trial.state is JobState.SUCCEEDED:
            self._starter.backoff.reset()
        elif is_driver and self._may_try_again(active):
            self._try_again(active)
        else:
            self.must_stop = self.must_stop or self._fail_fast

    def record_end(self, active: ActiveRun, is_driver: bool) -> None:
        """Show the samples of a run that is over; who drives the bench records its end."""
        trial, run = active.trial, active.run
        if is_driver:
            state = run.state if run and run.state.is_final else JobState.FAILED
            reason = run.reason if run else "it is no longer in the store"
            self._current.conclude(trial, state, int(state.exit_code), reason)
        self._observer.ended(trial, run, samples(self._current.store, run) if run else {})

    def _try_again(self, active: ActiveRun) -> None:
        """Run the repetition again: immediately, but for machines that are not available."""
        node = active.failed_node if active.was_lost else None
        if node is None:
            self._starter.backoff.wait(monotonic(), others_run=True)
        if active.was_lost:
            why = active.trial.reason or "the cluster ended it"
            without = f" without node {node}" if node else ""
            message = f"{active.trial.run} has no data ({why}): it runs again{without}"
            self._observer.finding(note("lost-run", message))
        self._starter.put_first(active.trial.slot)

    def _may_try_again(self, active: ActiveRun) -> bool:
        """Whether it got no machines, or was lost with one, and another attempt may succeed."""
        is_stopped = self.is_cancelled or self._starter.problem is not None
        is_last = active.trial.attempt + 1 >= _TRIES
        return (active.lacked_machines or active.was_lost) and not is_stopped and not is_last
