"""Collects a job's states, log and measurements into the run's folder and the store, once each.

It works in small steps, so that a caller can follow runs in one thread. Its progress is stored in
one transaction with the metrics. If a collector is killed between two steps, the next one cuts off
its unfinished output, and reads it again.
"""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error, warning
from rsctl.runs import final_state
from rsctl.runs.findings import NO_ANSWER
from rsctl.runs.folder import RunFolder
from rsctl.runs.placements import PlacementEnd, is_cancel_requested, may_go_on
from rsctl.runs.reader import STATES
from rsctl.runs.recorder import Recorder
from rsctl.runs.records import NODE_FAILED
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import MetricEvent, now, seconds_between
from rsctl.targets.base import Pool
from rsctl.targets.managed.attempts import AttemptTracker
from rsctl.targets.managed.capacity import lack_of_capacity
from rsctl.targets.managed.contact import Contact
from rsctl.targets.managed.endpoints import endpoints_of
from rsctl.targets.managed.final_states import final_event, record_final_states
from rsctl.targets.managed.log_access import LogAccess
from rsctl.targets.managed.log_collector import LogCollector
from rsctl.targets.managed.measurements import CloudMeasurements
from rsctl.targets.managed.poll_timer import PollTimer
from rsctl.targets.managed.progress import CollectorProgress, kept_progress
from rsctl.targets.managed.service import CHECK_CONTACT, NOT_FOUND, CloudJob, JobStatus, Unreachable
from rsctl.targets.managed.stall_collector import StallCollector
from rsctl.targets.managed.status_poller import StatusPoller, stamped

_REPORTED_AFTER = 3
_VISIBLE_AFTER = 60.0
"""Seconds until all parts of a cloud know a new job."""


class Collector:
    """The one process that collects a run; its creator holds the run's lock.

    `contact` learns whether the cloud tells the job's state.
    """

    def __init__(
        self, folder: RunFolder, store: Store, job: CloudJob, run: RunRecord, contact: Contact
    ) -> None:
        self._folder, self._store, self._run = folder, store, run
        self._progress = kept_progress(store, run.run) or CollectorProgress()
        self._pools = msgspec.convert(run.plan.get("pools", []), list[Pool])
        _cut(folder, self._progress.sizes.get(STATES, 0))
        self._recorder = Recorder(folder, store)
        self._poller = StatusPoller(folder, job, self._progress, run, self._keep)
        self._attempts = AttemptTracker(folder, self._progress, self._recorder, self.poll_now)
        self._status: JobStatus | None = None
        self._end_here: PlacementEnd | None = None
        self._metrics: list[MetricEvent] = []
        self._contact = contact
        self._failed_calls, self._silence = 0, ""
        self._is_requested = self._is_in_step = False
        self._is_disk_full = self._has_end_without_log = False
        time_scale = endpoints_of(folder.run).time_scale
        self._status_timer = PollTimer(time_scale, 1.0, 10.0)
        self._measurements = CloudMeasurements(
            *(job, run, store, self._progress, time_scale, self._report)
        )
        self._retry_timer = PollTimer(time_scale, 1.0, 30.0, growth=2.0)
        self._log_access = LogAccess(time_scale, self._report)
        self._log = LogCollector(
            folder,
            run,
            job,
            self._pools,
            self._progress,
            self._recorder,
            self._attempts,
            self._report,
            StallCollector(folder.known_description(), self._pools, self._report, self._end_early),
        )

    @property
    def is_complete(self) -> bool:
        """Whether the job has ended and all of its log is here."""
        return self._progress.is_complete

    @property
    def is_over(self) -> bool:
        """Whether this collector will add nothing more: it leaves out the log on a full disk, and
        if the log cannot be read.
        """
        return self.is_complete or self._has_end_without_log

    @property
    def end_of_placement(self) -> PlacementEnd | None:
        """Why the run moves to its next placement, after all of its job here is collected."""
        if self._end_here is None:  # then do not open the log, which a silent cloud prevents
            return None
        is_pending = self._progress.running and not self._is_log_over()
        return None if is_pending else self._end_here

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, as of the last poll."""
        return self._progress.state is not None and self._progress.state.is_final

    @property
    def present(self) -> str:
        """The present; by the cloud's clock, as of the last poll, if the cloud tells it."""
        return (self._status and self._status.at) or now()

    @property
    def oldest_line(self) -> str:
        """The earliest time of the lines of the last step that had any."""
        return self._log.oldest

    def step(self) -> bool:
        """Make the requests that are due, at most a few; returns whether log lines arrived.

        Raises RsctlError if the cloud refuses to tell the state, or gives no answer for long; the
        next step asks again. A shorter silence is reported as a finding.
        """
        if self.is_over or not self._retry_timer.is_due():
            return False
        self._is_in_step = True
        has_lines = self._take_step()
        # Not after an exception: `close` must not store progress for half a step, but leave the
        # step to the next collector.
        self._is_in_step = False
        return has_lines

    def _take_step(self) -> bool:
        try:
            if self._is_disk_full:
                self._poll_final_state()
                return False
            self._poll_status()  # before the log, which then has all output from before the end
            if self.is_complete:
                return False
            has_lines = self._collect_log()
            if self._measurements.are_due():
                self._take_measurements()
        except Unreachable as problem:
            self._note_unreachable(problem)
            return False
        except DiskFull:
            self._is_disk_full = True
            self._recorder.disk_full()
            return False
        except RsctlError:
            self._retry_timer.restart()
            raise
        self._failed_calls, self._silence = 0, ""
        self._retry_timer.expire()
        self._finish_if_read()
        return has_lines

    def poll_now(self) -> None:
        """Let the next step poll the status. Another thread than the one of `step` may call it."""
        self._is_requested = True
        self._status_timer.expire()

    def abandon(self, reason: str) -> None:
        """The job no longer exists, nor does its cloud: data that is not here by now is lost."""
        ended = self._progress.state if self.has_ended else None
        state = ended or JobState.FAILED
        why = self._progress.reason if ended else reason
        if ended:
            self._recorder.finding(warning("log-lost", f"the end of the log is lost: {reason}"))
        for replica in self._progress.running:
            self._recorder.state(JobState.CANCELLED, replica, reason="lost with the job")
        self._recorder.state(state, exit_code=int(state.exit_code), reason=why)
        self._progress.enter(state, why)
        self._progress.is_complete = True
        self._keep()

    def close(self) -> None:
        """Release the run; the next collector reads the data of an interrupted step again."""
        if not self._is_in_step and not self._has_end_without_log:
            with suppress(DiskFull):
                self._keep()
        self._recorder.close()
        self._log.close()

    def _poll_status(self) -> None:
        """Ask for the job's status, if that is due, and record changes."""
        if self.has_ended and self._status is not None and self._is_explained(self._status):
            return
        if self._end_here is not None or not self._status_timer.is_due():
            return
        self._is_requested = False  # before the call: `poll_now` during it may know more
        try:
            status = self._status = self._attempts.count(self._poller.status())
        except RsctlError as problem:
            if not self._is_gone(problem):
                raise
            self.abandon(f"the job no longer exists in the cloud: {problem.summary}")
            return
        self._contact.restored()
        if self._leaves_placement(status):
            return
        self._record_start(status)
        is_news = self._progress.enter(status.state, status.reason)
        is_ours = status.state is JobState.EXPIRED or (
            status.state is JobState.CANCELLED and is_cancel_requested(self._store, self._run.run)
        )
        for finding in status.findings:
            if finding.code != NODE_FAILED or not is_ours:  # a bench repeats a run with it
                self._report(finding)
        if is_news and status.state.is_final:
            # The store has it immediately; the stream of events ends when the log is complete.
            self._store.record(self._run.run, final_event(status))
        elif is_news:
            self._recorder.state(status.state, reason=status.reason, time=stamped(status.time))
        self._measurements.update_facts(self._status)
        self._status_timer.restart(is_news)
        if self._is_requested:  # since this poll began
            self._status_timer.expire()
        self._keep()

    def _record_start(self, status: JobStatus) -> None:
        """For a job that ended before it was seen to run, its billed time also starts here."""
        if status.state.is_final and status.started and self._progress.running_since is None:
            self._progress.running_since = stamped(status.started)
            self._recorder.state(JobState.RUNNING, time=self._progress.running_since)

    def _leaves_placement(self, status: JobStatus) -> bool:
        """Whether the job's end is not the run's, or is not known yet to be: there may be capacity
        elsewhere.
        """
        may_move = status.state.is_final and self._run.placements
        if not may_move or not may_go_on(self._store, self._run.run):
            return False
        if not self._is_explained(status):
            self._status_timer.restart(False)
            return True
        why = lack_of_capacity(status, self._progress, self._folder)
        if why is None:
            return False
        self._end_here = PlacementEnd(status.state, why, stamped(status.time))
        if self._progress.running:
            self._take_measurements()
        self._measurements.update_facts(status)
        return True

    def _poll_final_state(self) -> None:
        """Ask for the job's status on a full disk: only its end can be recorded.

        Data that was not collected stays in the cloud, for a command that finds space.
        """
        if not self._status_timer.is_due():
            return
        status = self._poller.status()
        self._contact.restored()
        self._status_timer.restart(False)
        if status.state.is_final:
            final_state.write(self._run.run, final_event(status))
            self._has_end_without_log = True

    def _is_gone(self, problem: RsctlError) -> bool:
        """Whether the cloud reports that there is no such job.

        A part of the cloud may not know a new job yet. Raises Unreachable.
        """
        if NOT_FOUND not in [finding.code for finding in problem.findings]:
            return False
        if seconds_between(self._run.created, now()) < _VISIBLE_AFTER:
            raise Unreachable(problem.summary)
        return True

    def _is_explained(self, status: JobStatus) -> bool:
        """Whether the reason for the job's end is known; the reports of ranks come first."""
        return status.is_settled or bool(self._progress.failures)

    def _collect_log(self) -> bool:
        has_ended = self.has_ended or self._end_here is not None
        ended = stamped(self._status.time) if self._status is not None and has_ended else None
        has_lines = self._log_access.read(lambda: self._log.read(ended, self.present), has_ended)
        if has_lines:
            self._keep()
        return has_lines

    def _end_early(self, reason: str) -> None:
        """Let the next step cancel the job for a stall or a rule of `watch`: not this one, whose
        lines are stored only in part.
        """
        self._progress.ended_early = reason
        self.poll_now()

    def _report(self, finding: Finding, replica: str | None = None) -> None:
        if self._progress.is_new(finding):
            self._recorder.finding(finding, replica)

    def _take_measurements(self) -> None:
        """Collect the cloud's own measurements; they are stored before facts are made of them."""
        if measured := self._measurements.fetch():
            self._metrics += measured
            self._keep()
            self._measurements.stored(self._status)

    def silence(self) -> list[Finding]:
        """Why the last call got no answer; empty if it got one."""
        return [warning(NO_ANSWER, self._silence, CHECK_CONTACT)] if self._silence else []

    def require_log(self) -> None:
        """Raise the RsctlError that prevents reading the log, if there is one."""
        if self._log_access.problem is not None:
            raise self._log_access.problem

    def _is_log_over(self) -> bool:
        """Whether no more lines must be expected, or possible."""
        return self._log_access.problem is not None or self._log.is_complete

    def _finish_if_read(self) -> None:
        status = self._status
        if status is None or not self.has_ended or not self._is_log_over():
            return
        if not self._is_explained(status):
            return
        try:  # the reason and the last metrics may arrive after the end
            self._status = status = self._attempts.count(self._poller.status())
            self._take_measurements()
        except DiskFull:
            raise
        except (Unreachable, RsctlError):
            pass  # the end itself is known
        self._measurements.update_facts(self._status)
        self._keep()
        if self._log_access.problem is None:
            is_success = status.state is JobState.SUCCEEDED
            self._recorder.metrics_ended(self._run.metrics_spec, is_success)
        # Recorded before it is complete: a collector that is killed in between leaves states that
        # the next one cuts off and records again. The other way round they would be lost.
        record_final_states(status, self._progress, self._pools, self._folder, self._recorder)
        if self._log_access.problem is not None:  # a later collector may read it
            self._has_end_without_log = True
            return
        self._progress.is_complete = True
        self._keep()

    def _keep(self) -> None:
        """Store the progress, with the metrics that were found."""
        self._progress.sizes = {**self._log.sizes(), STATES: _size(self._folder)}
        metrics, self._metrics, self._log.metrics = self._metrics + self._log.metrics, [], []
        # One transaction: apart, a crash between the two would store metrics twice, or never.
        progress = msgspec.json.encode(self._progress)
        self._store.keep(self._run.run, metrics, progress, self._measurements.facts)

    def _note_unreachable(self, problem: Unreachable) -> None:
        self._failed_calls, self._silence = self._failed_calls + 1, str(problem)
        self._contact.failed()
        self._retry_timer.restart()
        if self._failed_calls == _REPORTED_AFTER:
            message = f"{problem}; the job continues, and rsctl tries again"
            self._recorder.finding(warning(NO_ANSWER, message, CHECK_CONTACT))
        if self._contact.is_silent_for_long:
            finding = error(NO_ANSWER, str(problem), CHECK_CONTACT)
            raise RsctlError(ExitCode.ENVIRONMENT, finding)


def _cut(folder: RunFolder, size: int) -> None:
    """Cut off the states that a killed collector recorded last: they are recorded again."""
    with suppress(FileNotFoundError):
        os.truncate(folder.states, min(size, _size(folder)))


def _size(folder: RunFolder) -> int:
    try:
        return folder.states.stat().st_size
    except FileNotFoundError:
        return 0
