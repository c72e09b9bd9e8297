"""The effect of submission answers and run ends on the rest of a bench."""

from __future__ import annotations

from time import monotonic

import msgspec

from rsctl.bench.active_run import ActiveRun
from rsctl.bench.follower import Follower
from rsctl.bench.live_record import CurrentBench
from rsctl.bench.observer import BenchObserver
from rsctl.bench.pack_progress import PackProgress, keep_ended
from rsctl.bench.packed import slot_of, trials_in
from rsctl.bench.samples import samples
from rsctl.bench.starter import Sent, TrialStarter
from rsctl.findings import ExitCode, JobState, RsctlError, note
from rsctl.runs.stream.events import StateEvent, now
from rsctl.targets.base import Pool, count_of_role

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
        self._lost_jobs = 0
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
        for trial in trials_in(sent.trial):
            self._current.conclude(trial, state, code, why)
            self._observer.ended(trial, store.get(trial.run), {})
        self.must_stop = self.must_stop or self._fail_fast
        if problem.exit_code is ExitCode.ENVIRONMENT:
            self._starter.stop(problem)

    def ended(self, active: ActiveRun, is_driver: bool) -> None:
        """A run is over; who drives the bench records it and decides what follows."""
        if active.progress is not None:
            return self._job_ended(active, active.progress, is_driver)
        self.record_end(active, is_driver)
        if active.trial.state is JobState.SUCCEEDED:
            self._starter.backoff.reset()
        elif is_driver and self._may_try_again(active):
            self._try_again(active)
        else:
            self.must_stop = self.must_stop or self._fail_fast

    def record_end(self, active: ActiveRun, is_driver: bool) -> None:
        """Show the samples of a run that is over; who drives the bench records its end."""
        if active.progress is not None:
            self._settle(active, active.progress)
            return
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

    def keep_slots(self, is_driver: bool) -> None:
        """Record the slots of packed jobs that have ended, and show them."""
        for active in self._follower.packs:
            if active.progress is None or active.run is None:
                continue
            self._keep_slots(active, active.progress, is_driver)
            if is_driver and active.run.attempt > 1:  # it would run all of its slots again
                self._follower.tell(active.cancel(monotonic()))

    def _keep_slots(self, active: ActiveRun, progress: PackProgress, is_driver: bool) -> None:
        """As `keep_slots`, of one job. Lines of a cloud's log may come late: its slots wait."""
        job, store = active.run, self._current.store
        is_complete = active.is_over or not self._starter.prepared.target.info.is_managed
        if is_driver and job is not None and is_complete:
            workers = count_of_role(msgspec.convert(job.plan["pools"], list[Pool]), "worker")
            for end in progress.ends(workers):
                trial = progress.trial(end.slot)
                run = keep_ended(store, self._starter.prepared, trial, job, end) if trial else None
                if trial and run:
                    code = int(run.state.exit_code)
                    self._current.conclude(trial, run.state, code, run.reason)
        for trial in trials_in(active.trial):
            if trial.state.is_final and trial.run not in progress.shown:
                progress.shown.add(trial.run)
                run = store.get(trial.run)
                self._observer.ended(trial, run, samples(store, run) if run else {})
                is_failure = trial.state is not JobState.SUCCEEDED
                self.must_stop = self.must_stop or (is_failure and self._fail_fast)

    def _job_ended(self, active: ActiveRun, progress: PackProgress, is_driver: bool) -> None:
        """A packed job is over: what has not run is run in another one, unless it was cancelled."""
        if not is_driver:
            return self._keep_slots(active, progress, is_driver)
        left = self._settle(active, progress)
        is_stopped = self.is_cancelled or self.must_stop or self._starter.problem is not None
        if is_stopped or not left or _is_cancelled(active):
            return
        if active.lacked_machines:
            self._starter.backoff.wait(monotonic(), others_run=True)
        why = (active.run and active.run.reason) or "it has ended"
        message = f"{active.trial.run} has not run {left} of its slots ({why})"
        self._observer.finding(note("lost-run", f"{message}: they run in another job"))
        self._starter.queue_again(self._current.pending())

    def _settle(self, active: ActiveRun, progress: PackProgress) -> int:
        """Record how the slots of a job that is over have ended; how many have to run again.

        A slot without an end has not failed by itself: its launcher was stopped or killed. After a
        restart by the service only the first start counts.
        """
        for _ in progress.take(active.read()):
            pass
        self._keep_slots(active, progress, is_driver=True)
        job, trials = active.run, trials_in(active.trial)
        rest = [trial for trial in trials if not trial.state.is_final]
        begun = [trial for trial in rest if slot_of(trial) in progress.has_begun]
        state = job.state if job and job.state.is_final else JobState.FAILED
        reason = job.reason if job else "it is no longer in the store"
        self._lost_jobs = self._lost_jobs + 1 if len(rest) == len(trials) else 0
        was_restarted = job is not None and job.attempt > 1
        was_taken = active.was_lost or active.lacked_machines or bool(progress.has_begun)
        if was_restarted and self._lost_jobs < _TRIES:
            ended = []
        elif state is JobState.SUCCEEDED:
            state, reason, ended = JobState.FAILED, "its job's log does not have its end", rest
        elif state is JobState.CANCELLED:
            ended = begun
        elif was_taken and self._lost_jobs < _TRIES:
            ended = []
        else:
            ended, self._lost_jobs = begun or rest, 0
            state = JobState.FAILED if was_restarted else state
            reason = f"its machines were taken {_TRIES} times" if was_restarted else reason
        for trial in ended:
            self._current.conclude(trial, state, int(state.exit_code), reason)
        left = [trial for trial in rest if trial not in ended]
        for trial in left:
            self._current.drop(trial)
        self._keep_slots(active, progress, is_driver=False)
        return len(left)


def _is_cancelled(active: ActiveRun) -> bool:
    """Whether a packed job was cancelled by a user, and not because its service restarted it."""
    run = active.run
    return run is not None and run.state is JobState.CANCELLED and run.attempt == 1
