"""The process that runs one local job: it outlives the command line that submitted it.

It starts the replicas, keeps their output, ends the job when the workers have ended or the first
has failed, restarts it as often as the spec allows, and records everything. It is one loop over one
selector: no threads, and no more memory for a longer log.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterable
from time import monotonic

from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.node import exec_errors
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.stalls.findings import is_output, stall_failure, stall_finding, verdict_replica
from rsctl.runs.stalls.monitor import StallMonitor
from rsctl.runs.stream.events import Attempt, now
from rsctl.targets.local.backend import Backend, ReplicaCommand, ReplicaExit, reap_orphans
from rsctl.targets.local.exits import AttemptOutcome, ReplicaExits
from rsctl.targets.local.input_copies import copy_inputs
from rsctl.targets.local.output_scanner import OutputScanner
from rsctl.targets.local.replica import ReplicaProcess
from rsctl.targets.local.signals import Cancelled, Signals

_DRAIN_SECONDS = 2.0
_TICK_SECONDS = 0.5

_KILL_AGAIN_SECONDS = 5.0  # for processes that were started meanwhile


class _Expired(Exception):
    """The job's time ended while its inputs were copied."""


class Supervisor:
    """Runs the job of a run description to its end."""

    def __init__(
        self, folder: RunFolder, description: RunDescription, backend: Backend, recorder: Recorder
    ) -> None:
        self._folder = folder
        self._description = description
        self._backend = backend
        self._recorder = recorder
        self._scanner = OutputScanner(description.metrics, recorder, description.watch)
        self._selector = selectors.DefaultSelector()
        self._grace = description.grace_seconds
        self._deadline = self._last_moment()
        self._disk_full = self._has_heard = False
        self._stalls = StallMonitor(description.stall, backend.ask)
        self._begin_attempt()
        self._signals = Signals(self._selector)

    def _last_moment(self) -> float | None:
        """When the job is asked to end because of its time limit, which is the end of its grace."""
        timeout, grace = self._description.timeout, self._description.grace or 0.0
        return monotonic() + timeout - grace if timeout else None

    def run(self) -> JobState:
        """All attempts; returns and records the job's final state."""
        outcome = self._attempts()
        is_success = outcome.state is JobState.SUCCEEDED
        self._recorder.metrics_ended(self._description.metrics, is_success)
        if outcome.failure:
            self._recorder.failure(outcome.failure)
        exit_code = int(outcome.state.exit_code)
        self._recorder.state(outcome.state, exit_code=exit_code, reason=outcome.reason)
        return outcome.state

    def _attempts(self) -> AttemptOutcome:
        last = self._description.retries + 1
        reason = None
        for attempt in range(1, last + 1):
            self._recorder.attempt = attempt
            self._recorder.state(JobState.STARTING, reason=reason)
            try:
                outcome = self._attempt(attempt)
            except Cancelled:
                return AttemptOutcome(JobState.CANCELLED)
            except _Expired:
                self._exits.stop_state = JobState.EXPIRED
                return self._exits.outcome()
            except RsctlError as problem:
                return self._start_failure(problem)
            may_restart = outcome.may_restart and not self._is_expired()
            if outcome.state is not JobState.FAILED or not may_restart:
                break
            reason = f"{outcome.reason}; attempt {attempt + 1} of {last}"
            if attempt < last:
                ended = Attempt(
                    attempt=attempt, ended=now(), reason=outcome.reason, failure=outcome.failure
                )
                self._recorder.attempt_ended(ended)
        return outcome

    def _attempt(self, attempt: int) -> AttemptOutcome:
        self._begin_attempt()
        try:
            self._start(attempt)
            while self._running():
                self._step()
            self._record_exits()
            self._drain()
        finally:
            self._clean_up()
        self._exits.collapse = self._stalls.collapse()
        return self._exits.outcome()

    def _begin_attempt(self) -> None:
        self._scanner.begin_attempt()
        self._replicas: dict[str, ReplicaProcess] = {}
        self._kill_at: float | None = None
        self._exits = ReplicaExits(self._folder, self._description, self._recorder)
        self._stalls.begin_attempt()

    def _start(self, attempt: int) -> None:
        self._prepare(attempt)
        for name in self._description.replicas:
            command = self._backend.command(name, attempt)
            try:
                replica = ReplicaProcess(name, command, self._folder.log(name), self._selector)
            except OSError as problem:
                raise _cannot_start(command, problem) from None
            self._replicas[name] = replica
            self._recorder.state(JobState.RUNNING, name)
        self._recorder.state(JobState.RUNNING)

    def _prepare(self, attempt: int) -> None:
        """Copy inputs and prepare the backend, which may pull an image."""
        with self._signals.interruptible():
            if attempt == 1:
                copy_inputs(self._description, self._recorder, self._require_time)
            self._backend.prepare(attempt)

    def _require_time(self) -> None:
        if self._is_expired():
            raise _Expired

    def _is_expired(self) -> bool:
        return self._deadline is not None and monotonic() > self._deadline

    def _running(self) -> dict[str, ReplicaProcess]:
        return {name: r for name, r in self._replicas.items() if r.running}

    def _kept(self) -> list[ReplicaProcess]:
        """The replicas that have failed and have stayed, and perhaps still do."""
        return [replica for replica in self._replicas.values() if replica.kept]

    def _step(self) -> None:
        """Wait for output, an end or a signal, and deal with it."""
        for key, _ in self._selector.select(self._wait_seconds()):
            if key.data is None:
                os.read(key.fd, 4096)
            else:
                replica, stream = key.data
                self._scan(replica, replica.read(stream, key.fd))
                self._check_clock()
        self._record_exits()
        self._check_rules()
        self._check_progress()
        reap_orphans([replica.process.pid for replica in self._replicas.values()])
        self._check_clock()
        self._recorder.flush_if_due()

    def _wait_seconds(self) -> float:
        """The time until the next clock that has not been checked yet."""
        time = monotonic()
        clocks = [t - time for t in (self._deadline, self._kill_at) if t is not None and t > time]
        return min([_TICK_SECONDS, *clocks])

    def _scan(self, replica: ReplicaProcess, lines: bytes) -> None:
        """Record the data in new lines of a replica, and whether the disk had no space for them."""
        scanned = self._scanner.scan(replica.name, lines, replica.journal.time)
        if scanned.has_restarted:
            self._exits.restarted_in_place(replica.name)
        self._exits.add_reports(scanned.failures)
        if scanned.kept is not None:
            self._keep(replica, scanned.kept)
        if is_output(lines):
            self._stalls.output(monotonic())
        for report in scanned.reports:
            self._stalls.report(report)
        if replica.journal.full and not self._disk_full:
            self._disk_full = True
            for other in self._replicas.values():
                other.journal.full = True
            self._recorder.disk_full()

    def _keep(self, replica: ReplicaProcess, code: int) -> None:
        """Record the failure of a node that stays. The others are not stopped before it ends: they
        may be about to fail too, and are kept then.
        """
        if replica.name not in self._exits and not replica.stopped_at:
            replica.kept = True
            self._exits.add(replica, ReplicaExit(code))

    def _record_exits(self) -> None:
        for name, replica in self._replicas.items():
            if name not in self._exits and not replica.running:
                self._exits.add(replica, self._backend.exit_of(name, replica.process.returncode))
        self._exits.judge()
        kept = self._kept()
        if not kept or any(replica.stopped_at or not replica.running for replica in kept):
            self._stop(self._exits.no_longer_needed())

    def _stop(self, names: Iterable[str]) -> None:
        """Ask running replicas to end, once; after their grace they are killed."""
        running = self._running()
        asked = {name: running[name] for name in names if name in running}
        asked = {name: replica for name, replica in asked.items() if not replica.stopped_at}
        if asked:
            self._kill_at = monotonic() + self._grace
            self._end(asked, hard=False)

    def _end(self, replicas: dict[str, ReplicaProcess], hard: bool) -> None:
        for replica in replicas.values():
            replica.stopped_at = replica.stopped_at or now()
            replica.killed |= hard
        if replicas:
            self._backend.stop({n: r.process.pid for n, r in replicas.items()}, hard)

    def _check_clock(self) -> None:
        # The file is of a process on another machine or in another container, which cannot signal.
        is_cancelled = self._signals.is_cancelled or self._folder.is_cancelled()
        if is_cancelled and not self._has_heard:
            self._has_heard = True  # also where it changes nothing: otherwise `cancel` kills us
            self._recorder.state(JobState.CANCELLING)
        if (is_cancelled or self._is_expired()) and not self._is_decided():
            if self._kept():
                self._stop(self._replicas)  # the job has failed already
            elif self._exits.stop_state is None and self._exits.early_end is None:
                self._exits.stop_state = JobState.CANCELLED if is_cancelled else JobState.EXPIRED
                self._stop(self._exits.first_to_end())
        if self._kill_at and monotonic() > self._kill_at:
            self._kill_at = monotonic() + _KILL_AGAIN_SECONDS
            self._end({n: r for n, r in self._running().items() if r.stopped_at}, hard=True)

    def _is_decided(self) -> bool:
        """Whether all replicas have ended, or have been asked to: the attempt ends as it is."""
        return all(r.stopped_at or not r.running for r in self._replicas.values())

    def _check_progress(self) -> None:
        """Report a stall once, and end the attempt if the job wants that."""
        running = [name for name, each in self._running().items() if not each.stopped_at]
        if self._exits.is_ending or not running:
            return
        verdict = self._stalls.judge(running, monotonic())
        if verdict is None:
            return
        action = self._description.on_stall
        self._recorder.finding(stall_finding(verdict, self._description), verdict_replica(verdict))
        if action != "notify":
            failure = stall_failure(verdict, self._description, running)
            why, may_restart = verdict.message, action == "restart"
            self._end_early(AttemptOutcome(JobState.FAILED, why, failure, may_restart))

    def _check_rules(self) -> None:
        """Report each rule of `watch` that holds, and end the job if one asks for that, unless its
        replica is being stopped.
        """
        while self._scanner.trips:
            trip = self._scanner.trips.pop(0)
            self._recorder.finding(trip.finding, trip.replica)
            stopped = {name for name, replica in self._replicas.items() if replica.stopped_at}
            is_stopped = trip.replica.partition("/")[0] in stopped
            if trip.fails and not (self._exits.is_ending or is_stopped):
                message = trip.finding.message
                self._end_early(AttemptOutcome(JobState.FAILED, message, trip.failure(), False))

    def _end_early(self, outcome: AttemptOutcome) -> None:
        self._exits.early_end = outcome
        self._stop(self._exits.first_to_end())

    def _drain(self) -> None:
        """Read the rest of the pipes, but do not wait for a stray child that holds one open."""
        end = monotonic() + _DRAIN_SECONDS
        while any(r.open_pipes for r in self._replicas.values()) and monotonic() < end:
            self._step()

    def _clean_up(self) -> None:
        for replica in self._replicas.values():
            self._scan(replica, replica.close())
        try:
            self._backend.clean_up()
        except RsctlError as problem:
            self._report(problem)

    def _start_failure(self, problem: RsctlError) -> AttemptOutcome:
        self._report(problem)
        return AttemptOutcome(self._exits.stop_state or JobState.FAILED, problem.summary)

    def _report(self, problem: RsctlError) -> None:
        for finding in problem.findings:
            self._recorder.finding(finding)


def _cannot_start(command: ReplicaCommand, problem: OSError) -> RsctlError:
    _, reason = exec_errors.explain(command.argv, command.env, problem, command.cwd or "")
    message = f"cannot run {command.argv[0]}: {reason}"
    from rsctl.runs.stream.diagnosis import causes_in

    remedies = [cause.remedy for cause in causes_in([message])]
    remedy = next(iter(remedies), None) or "correct run.command"
    return RsctlError(ExitCode.ENVIRONMENT, error("start", message, remedy))
