"""Brings what a cloud tells of one job into the run's folder and the store, every line once.

It works in small steps, so that who follows a run can do so in one thread. What it has brought is
written down in one transaction with the metrics; a collector that is killed between two steps
leaves nothing that the next one does not cut off and read again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta

import msgspec

from rsctl.clients.pace import Pace
from rsctl.findings import Finding, JobState, RsctlError, warning
from rsctl.runs import final_state
from rsctl.runs.failures import exit_report, runtime_finding
from rsctl.runs.folder import RunFolder
from rsctl.runs.reader import STATES
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import Run, Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.versions import reported_versions
from rsctl.stream.events import (
    LogEvent,
    MetricEvent,
    StateEvent,
    now,
    parse_time,
    seconds_between,
)
from rsctl.stream.metrics import MetricReader
from rsctl.targets.base import Pool
from rsctl.targets.managed.attempts import Attempts
from rsctl.targets.managed.final_states import record_final_states
from rsctl.targets.managed.log_mirror import LogMirror
from rsctl.targets.managed.measurements import Measurements
from rsctl.targets.managed.poll_timer import PollTimer
from rsctl.targets.managed.progress import Progress
from rsctl.targets.managed.service import (
    NOT_FOUND,
    CloudJob,
    JobLog,
    JobStatus,
    Line,
    Unreachable,
)
from rsctl.targets.managed.status_poller import StatusPoller, stamped

_CLOCKS_APART = timedelta(minutes=10)
_OFTEN_UNREACHABLE = 3
_UNTIL_KNOWN = 60.0
"""Seconds until all of a cloud knows of a new job."""


class Collector:
    """The one process that collects a run; whoever makes it holds the run's lock."""

    def __init__(self, folder: RunFolder, store: Store, job: CloudJob, run: Run) -> None:
        self._folder, self._store, self._job, self._run = folder, store, job, run
        kept = store.progress(run.run)
        self._progress = msgspec.json.decode(kept, type=Progress) if kept else Progress()
        self._pools = msgspec.convert(run.plan.get("pools", []), list[Pool])
        self._mirror = LogMirror(folder, self._progress.sizes)
        _cut(folder, self._progress.sizes.get(STATES, 0))
        self._recorder = Recorder(folder, store)
        self._reader = MetricReader(run.metrics_spec)
        self._poller = StatusPoller(folder, job, self._progress)
        self._attempts = Attempts(folder, job, self._progress, self._recorder)
        self._log: JobLog | None = None
        self._status: JobStatus | None = None
        self._metrics: list[MetricEvent] = []
        self._failed_calls = 0
        self._is_asked = self._is_in_step = False
        self._is_disk_full = self._has_end_without_log = False
        pace = Pace.of_environment()
        self._status_timer = PollTimer(pace, 1.0, 10.0)
        self._measurements = Measurements(job, run, store, self._progress, pace, self._tell)
        self._retry_timer = PollTimer(pace, 1.0, 30.0, growth=2.0)

    @property
    def is_complete(self) -> bool:
        """Whether the job has ended and all of its log is here."""
        return self._progress.is_complete

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come by this collector: on a full disk the log is left out."""
        return self.is_complete or self._has_end_without_log

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, as far as was seen."""
        return self._progress.state is not None and self._progress.state.is_final

    def step(self) -> bool:
        """Ask what is due, at most a few requests; whether lines of the log came.

        Raises RsctlError for what will not pass by itself; a cloud that cannot be reached is told
        as a finding, and asked again later.
        """
        if self.is_over or not self._retry_timer.is_now():
            return False
        self._is_in_step = True
        has_lines = self._take_step()
        self._is_in_step = False
        return has_lines

    def _take_step(self) -> bool:
        try:
            if self._is_disk_full:
                self._look_for_the_end()
                return False
            self._look()
            if self.is_complete:
                return False
            has_lines = self._read()
            if self._measurements.are_due():
                self._take_measurements()
        except Unreachable as problem:
            self._note_unreachable(problem)
            return False
        except DiskFull:
            self._is_disk_full = True
            self._recorder.disk_full()
            return False
        self._failed_calls = 0
        self._retry_timer.now()
        self._end_if_read()
        return has_lines

    def look_now(self) -> None:
        """See at once how the job is. Another thread than that of `step` may call it."""
        self._is_asked = True
        self._status_timer.now()

    def abandon(self, reason: str) -> None:
        """The job is gone with its cloud: what is not here by now is lost."""
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
        """Leave it to others, who read again what a step has brought that was interrupted."""
        if not self._is_in_step:
            with suppress(DiskFull):
                self._keep()
        self._recorder.close()
        self._mirror.close()

    def _look(self) -> None:
        """How the job is."""
        if self.has_ended and self._status is not None and self._is_explained(self._status):
            return
        if not self._status_timer.is_now():
            return
        self._is_asked = False
        try:
            status = self._status = self._attempts.seen(self._poller.status())
        except RsctlError as problem:
            if not self._is_gone(problem):
                raise
            self.abandon(f"the cloud has no such job any more: {problem}")
            return
        is_news = self._progress.enter(status.state, status.reason)
        for finding in status.findings:
            self._tell(finding)
        if is_news and not status.state.is_final:
            self._recorder.state(status.state, reason=status.reason, time=stamped(status.time))
        if is_news and status.state.is_final:
            self._record_end(status)
        self._measurements.update_facts(self._status)
        self._status_timer.done(is_news)
        if self._is_asked:  # since this look began
            self._status_timer.now()
        if is_news:
            self._keep()

    def _look_for_the_end(self) -> None:
        """How the job is, where nothing can be written down but its end.

        What was not collected stays in the cloud, for a command that finds space.
        """
        if not self._status_timer.is_now():
            return
        status = self._poller.status()
        self._status_timer.done(False)
        if status.state.is_final:
            final_state.write(self._run.run, _end_of(status))
            self._has_end_without_log = True

    def _is_gone(self, problem: RsctlError) -> bool:
        """Whether the cloud says that there is no such job.

        Of a job that was just made, one part of a cloud may not have heard yet. Raises Unreachable.
        """
        if NOT_FOUND not in [finding.code for finding in problem.findings]:
            return False
        if seconds_between(self._run.created, now()) < _UNTIL_KNOWN:
            raise Unreachable(str(problem))
        return True

    def _is_explained(self, status: JobStatus) -> bool:
        """Whether it is known why the job ended; ranks that say so themselves are soonest heard."""
        return status.is_settled or bool(self._progress.failures)

    def _record_end(self, status: JobStatus) -> None:
        """The store knows at once; the stream of events ends when the log is complete."""
        self._store.record(self._run.run, _end_of(status))

    def _read(self) -> bool:
        log = self._open_log()
        if self._status is not None and self.has_ended:
            log.finish(stamped(self._status.time))
        lines = log.read()
        if not lines:
            return False
        self._mirror.write(lines)
        events = [event for line in lines if (event := self._look_through(line))]
        for metrics in self._reader.read_all(events):
            self._metrics += metrics
        for finding in self._reader.take_findings():
            self._tell(finding)
        self._progress.cursor = log.cursor()
        self._keep()
        return True

    def _open_log(self) -> JobLog:
        if self._log is None:
            since = parse_time(self._run.created) - _CLOCKS_APART
            created = since.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            self._log = self._job.log(self._progress.cursor, self._pools, created)
        return self._log

    def _look_through(self, line: Line) -> LogEvent | None:
        """What a line tells beyond its text and its metrics; the line, if a replica wrote it."""
        if line.replica is None:
            self._service_says(line)
            return None
        event = LogEvent(line.time, line.replica, line.id, line.stream, line.text)
        if self._attempts.look_through(event):
            self._status_timer.now()
        if line.replica not in self._progress.running:
            self._progress.running.append(line.replica)
            self._recorder.state(JobState.RUNNING, line.replica, time=line.time)
        report, finding = exit_report(event), runtime_finding(event)
        if report:
            self._attempts.add_failure(report)
        if finding:
            self._tell(finding, line.replica)
        if versions := reported_versions(event):
            self._recorder.versions(line.replica, versions)
        noticed = self._job.notice(event)
        if noticed and noticed.code not in [known.code for known in self._progress.noticed]:
            self._progress.noticed.append(noticed)
            self._tell(noticed, line.replica)
        return event

    def _service_says(self, line: Line) -> None:
        """What the service says of the job stands beside the state that the job is in."""
        state = self._progress.state
        says_more = state is not None and line.text != f"Job is {state.value}."
        if state is not None and not state.is_final and says_more:
            self._recorder.state(state, reason=line.text, time=line.time)

    def _tell(self, finding: Finding, replica: str | None = None) -> None:
        if self._progress.tell(finding):
            self._recorder.finding(finding, replica)

    def _take_measurements(self) -> None:
        """The cloud's own measurements; they are stored before facts are made of them."""
        if measured := self._measurements.fetch():
            self._metrics += measured
            self._keep()
            self._measurements.stored(self._status)

    def _end_if_read(self) -> None:
        status = self._status
        if status is None or not self.has_ended or not self._open_log().is_complete:
            return
        if not self._is_explained(status):
            return
        with suppress(Unreachable):  # why it ended, and the last figures, may come after the end
            self._status = status = self._attempts.seen(self._poller.status())
            self._take_measurements()
        self._measurements.update_facts(self._status)
        self._keep()
        is_success = status.state is JobState.SUCCEEDED
        self._recorder.metrics_ended(self._run.metrics_spec, is_success)
        record_final_states(status, self._progress, self._pools, self._folder, self._recorder)
        self._progress.is_complete = True
        self._keep()

    def _keep(self) -> None:
        """Write down how far it is, with the metrics that were found on the way."""
        self._progress.sizes = {**self._mirror.sizes(), STATES: _size(self._folder)}
        metrics, self._metrics = self._metrics, []
        progress = msgspec.json.encode(self._progress)
        self._store.keep(self._run.run, metrics, progress, self._measurements.facts)

    def _note_unreachable(self, problem: Unreachable) -> None:
        self._failed_calls += 1
        self._retry_timer.done()
        if self._failed_calls == _OFTEN_UNREACHABLE:
            message = f"{problem}; the job goes on, and is asked for again"
            self._recorder.finding(warning("network", message, "check the network"))


def _end_of(status: JobStatus) -> StateEvent:
    """The job's final state as an event."""
    return StateEvent(
        time=stamped(status.time),
        state=status.state,
        attempt=status.attempt,
        exit_code=int(status.state.exit_code),
        reason=status.reason,
    )


def _cut(folder: RunFolder, size: int) -> None:
    """Take back the states that a killed collector told last: they are told again."""
    with suppress(FileNotFoundError):
        os.truncate(folder.states, min(size, _size(folder)))


def _size(folder: RunFolder) -> int:
    try:
        return folder.states.stat().st_size
    except FileNotFoundError:
        return 0
