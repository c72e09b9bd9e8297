"""The process that runs one local job: it outlives the command line that submitted it.

It starts the replicas, keeps their output, ends the job when the workers have ended or the first
has failed, restarts it as often as the spec allows, and writes everything down. It is one loop
over one selector: no threads, and no more memory for a longer log.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Iterable
from time import monotonic
from types import FrameType

import msgspec

from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.failures import believable, first_failure
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.stream.diagnosis import Killer
from rsctl.stream.events import Attempt, Failure, now
from rsctl.targets.local.backend import Backend, reap_orphans
from rsctl.targets.local.endings import Endings, role_of
from rsctl.targets.local.input_copies import copy_inputs
from rsctl.targets.local.output_scanner import OutputScanner
from rsctl.targets.local.replica import Replica

CANCEL_SIGNALS = (signal.SIGTERM, signal.SIGINT)
KEPT_SIGNALS = (*CANCEL_SIGNALS, signal.SIGHUP)
"""Those that are blocked until a supervisor handles, or ignores, them."""

GRACE_SECONDS = 5.0
_ENDED_WHEN_ASKED = (0, 128 + signal.SIGTERM)
_DRAIN_SECONDS = 2.0
_TICK_SECONDS = 0.5


class _Cancelled(Exception):
    """The job was cancelled while it was prepared."""


class _Expired(Exception):
    """The job's time ended while its inputs were copied."""


class Outcome(msgspec.Struct):
    """How an attempt ended, and its first failure if that is why."""

    state: JobState
    reason: str | None = None
    failure: Failure | None = None


class Supervisor:
    """Runs the job of a run description to its end."""

    def __init__(
        self, folder: RunFolder, description: RunDescription, backend: Backend, recorder: Recorder
    ) -> None:
        self._folder = folder
        self._description = description
        self._backend = backend
        self._recorder = recorder
        self._scanner = OutputScanner(description.metrics, recorder)
        self._selector = selectors.DefaultSelector()
        self._deadline = monotonic() + description.timeout if description.timeout else None
        self._cancel_asked = False
        self._is_preparing = False
        self._disk_full = False
        self._stop_state: JobState | None = None
        self._begin_attempt()
        self._wake_on_signals()

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

    def _attempts(self) -> Outcome:
        last = self._description.retries + 1
        reason = None
        for attempt in range(1, last + 1):
            self._recorder.attempt = attempt
            self._recorder.state(JobState.STARTING, reason=reason)
            try:
                outcome = self._attempt(attempt)
            except _Cancelled:
                return Outcome(JobState.CANCELLED)
            except _Expired:
                self._stop_state = JobState.EXPIRED
                return self._outcome()
            except RsctlError as problem:
                return self._start_failure(problem)
            if outcome.state is not JobState.FAILED:
                break
            reason = f"{outcome.reason}; attempt {attempt + 1} of {last}"
            if attempt < last:
                ended = Attempt(
                    attempt=attempt, ended=now(), reason=outcome.reason, failure=outcome.failure
                )
                self._recorder.attempt_ended(ended)
        return outcome

    def _attempt(self, attempt: int) -> Outcome:
        self._begin_attempt()
        try:
            self._start(attempt)
            while self._running():
                self._step()
            self._record_exits()
            self._drain()
        finally:
            self._clear()
        return self._outcome()

    def _begin_attempt(self) -> None:
        self._replicas: dict[str, Replica] = {}
        self._ended: dict[str, int] = {}
        self._killers: dict[str, Killer] = {}
        self._reasons: dict[str, str | None] = {}
        self._failed: list[str] = []
        self._reports: list[Failure] = []
        self._kill_at: float | None = None
        self._endings = Endings(self._description.replicas, self._description.roles)

    def _start(self, attempt: int) -> None:
        self._prepare(attempt)
        for name in self._description.replicas:
            command = self._backend.command(name, attempt)
            try:
                replica = Replica(name, command, self._folder.log(name), self._selector)
            except OSError as problem:
                raise _cannot_start(command.argv[0], problem) from None
            self._replicas[name] = replica
            self._recorder.state(JobState.RUNNING, name)
        self._recorder.state(JobState.RUNNING)

    def _prepare(self, attempt: int) -> None:
        """Copy inputs and prepare the backend, which may pull an image: see `_on_cancel`."""
        self._is_preparing = True
        try:
            if self._cancel_asked:
                raise _Cancelled
            if attempt == 1:
                copy_inputs(self._description, self._recorder, self._require_time)
            self._backend.prepare(attempt)
        finally:
            self._is_preparing = False

    def _require_time(self) -> None:
        if self._deadline and monotonic() > self._deadline:
            raise _Expired

    def _running(self) -> dict[str, Replica]:
        return {name: r for name, r in self._replicas.items() if r.running}

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
        reap_orphans([replica.process.pid for replica in self._replicas.values()])
        self._check_clock()
        self._recorder.flush_if_due()

    def _wait_seconds(self) -> float:
        times = [t - monotonic() for t in (self._deadline, self._kill_at) if t is not None]
        return max(0.0, min([_TICK_SECONDS, *times]))

    def _scan(self, replica: Replica, lines: bytes) -> None:
        """Take what new lines of a replica show; note where they found no space on the disk."""
        self._reports += self._scanner.scan(replica.name, lines)
        if replica.journal.full and not self._disk_full:
            self._disk_full = True
            for other in self._replicas.values():
                other.journal.full = True
            self._recorder.disk_full()

    def _record_exits(self) -> None:
        for name, replica in self._replicas.items():
            if name not in self._ended and not replica.running:
                self._record_exit(replica)
        workers_ended = self._endings.workers_ended(self._ended)
        self._judge_failures(workers_ended)
        if self._failed:
            self._stop(self._replicas)
        elif workers_ended:
            self._stop([name for name in self._replicas if not self._endings.goes_on(name)])

    def _record_exit(self, replica: Replica) -> None:
        exited = self._backend.exit_of(replica.name, replica.process.returncode)
        code, self._ended[replica.name] = exited.exit_code, exited.exit_code
        self._killers[replica.name] = exited.killer
        self._reasons[replica.name] = exited.reason
        if replica.stopped:
            state, why = self._state_of_stopped(replica, code)
            self._recorder.state(state, replica.name, code, why)
        elif code == 0:
            self._recorder.state(JobState.SUCCEEDED, replica.name, code, exited.reason)
        elif self._description.may_lose_reducers and role_of(replica.name) == "reducer":
            reason = ", ".join(filter(None, [exited.reason, "the workers go on without it"]))
            self._recorder.state(JobState.FAILED, replica.name, code, reason)
        else:
            self._reports.append(Failure(replica=replica.name, time=now(), exit_code=code))
            if self._endings.may_be_in_the_wake(replica.name):
                self._endings.wait_for_workers(replica.name, monotonic())
            else:
                self._record_failure(replica.name)

    def _record_failure(self, replica: str) -> None:
        why = self._reasons[replica]
        self._recorder.state(JobState.FAILED, replica, self._ended[replica], why)
        self._failed.append(replica)

    def _judge_failures(self, workers_ended: bool) -> None:
        """Record the ends of replicas that may only have lost workers that were ending."""
        has_failed = bool(self._failed or self._stop_state)
        for name, is_wake in self._endings.judged(workers_ended, has_failed, monotonic()).items():
            if is_wake:
                code, why = self._ended[name], "it ended as the workers did"
                self._recorder.state(JobState.SUCCEEDED, name, code, why)
            else:
                self._record_failure(name)

    def _stop(self, names: Iterable[str]) -> None:
        """Ask those that still run to end, once, and set the time after which they are made to."""
        running = self._running()
        asked = {name: running[name] for name in names if name in running}
        asked = {name: replica for name, replica in asked.items() if not replica.stopped}
        if asked or self._kill_at is None:
            self._kill_at = monotonic() + GRACE_SECONDS
            self._end(asked, hard=False)

    def _end(self, replicas: dict[str, Replica], hard: bool) -> None:
        for replica in replicas.values():
            replica.stopped = True
            replica.killed |= hard
        if replicas:
            self._backend.stop({n: r.process.pid for n, r in replicas.items()}, hard)

    def _check_clock(self) -> None:
        if self._cancel_asked and self._stop_state is None:
            self._stop_state = JobState.CANCELLED
            self._recorder.state(JobState.CANCELLING)
            self._stop(self._replicas)
        if self._deadline and monotonic() > self._deadline and self._stop_state is None:
            self._stop_state = JobState.EXPIRED
            self._stop(self._replicas)
        if self._kill_at and monotonic() > self._kill_at:
            self._kill_at = monotonic() + GRACE_SECONDS
            self._end({n: r for n, r in self._running().items() if r.stopped}, hard=True)

    def _drain(self) -> None:
        """Read what is left in the pipes, but do not wait for a stray child that holds one open."""
        end = monotonic() + _DRAIN_SECONDS
        while any(r.open_pipes for r in self._replicas.values()) and monotonic() < end:
            self._step()

    def _clear(self) -> None:
        for replica in self._replicas.values():
            self._scan(replica, replica.close())
        try:
            self._backend.clear()
        except RsctlError as problem:
            self._report(problem)

    def _outcome(self) -> Outcome:
        if self._stop_state is JobState.EXPIRED:
            return Outcome(JobState.EXPIRED, f"limits.timeout of {self._description.timeout:g} s")
        if self._stop_state:
            return Outcome(self._stop_state)
        if not self._failed:
            return Outcome(JobState.SUCCEEDED)
        reports = believable(self._reports, self._failed, self._ended)
        killers = {name: self._killers[name] for name in self._failed}  # others we have ended
        first = first_failure(reports, self._folder, killers)
        if first.replica not in self._failed:
            self._recorder.state(JobState.FAILED, first.replica, first.exit_code)
        for name in self._failed:
            if name != first.replica:
                wake = f"in the wake of {first.replica}"
                self._recorder.state(JobState.FAILED, name, self._ended[name], wake)
        reason = f"{first.replica} failed with exit code {first.exit_code}"
        return Outcome(JobState.FAILED, reason, first)

    def _start_failure(self, problem: RsctlError) -> Outcome:
        self._report(problem)
        return Outcome(self._stop_state or JobState.FAILED, str(problem))

    def _report(self, problem: RsctlError) -> None:
        for finding in problem.findings:
            self._recorder.finding(finding)

    def _state_of_stopped(self, replica: Replica, code: int) -> tuple[JobState, str]:
        """How a replica ended that had been asked to end, and why it was asked."""
        if self._stop_state:
            return JobState.CANCELLED, f"stopped: the job was {self._stop_state.value}"
        if self._failed:
            return JobState.CANCELLED, f"stopped after {self._failed[0]} had failed"
        if replica.killed:
            why = f"killed: it had not ended {GRACE_SECONDS:g} s after the workers"
            return JobState.CANCELLED, why
        is_fine = code in _ENDED_WHEN_ASKED or self._endings.may_be_in_the_wake(replica.name)
        state = JobState.SUCCEEDED if is_fine else JobState.CANCELLED
        return state, "stopped after the workers had ended"

    def _wake_on_signals(self) -> None:
        read_end, write_end = os.pipe()
        for end in (read_end, write_end):
            os.set_blocking(end, False)
        self._selector.register(read_end, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in CANCEL_SIGNALS:
            signal.signal(number, self._on_cancel)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT_SIGNALS)

    def _on_cancel(self, _number: int, _frame: FrameType | None) -> None:
        self._cancel_asked = True
        if self._is_preparing:
            self._is_preparing = False
            raise _Cancelled


def _cannot_start(program: str, problem: OSError) -> RsctlError:
    return RsctlError(
        ExitCode.ENVIRONMENT,
        error("start", f"cannot start {program}: {problem.strerror}", "correct run.command"),
    )
