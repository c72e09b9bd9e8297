"""Copies a job's log into the run's folder, and reads metrics, exits and findings out of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from rsctl.findings import Finding, JobState
from rsctl.runs.exit_reports import ExitReports, restarts_in_place, runtime_finding, without_node
from rsctl.runs.folder import RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import RunRecord
from rsctl.runs.stream.events import LogEvent, MetricEvent, now, parse_time
from rsctl.runs.stream.metrics import MetricReader
from rsctl.runs.stream.rank_marks import take_mark
from rsctl.runs.stream.redraws import lines_apart, logged, measured
from rsctl.targets.base import Pool
from rsctl.targets.managed.attempts import AttemptTracker
from rsctl.targets.managed.log_mirror import LogMirror
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.service import SERVICE, CloudJob, JobLog
from rsctl.targets.managed.stall_collector import StallCollector

_MOST_CLOCK_SKEW = timedelta(minutes=10)

Report = Callable[..., None]
"""Takes a finding, and its replica if it has one."""


class LogCollector:
    """Reads the log of one job. `metrics` are the values read so far that have not been taken,
    `oldest` is the earliest time of the lines of the last read.

    `report` gets findings.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: RunRecord,
        job: CloudJob,
        pools: list[Pool],
        progress: CollectorProgress,
        recorder: Recorder,
        attempts: AttemptTracker,
        report: Report,
        stalls: StallCollector,
    ) -> None:
        self._run, self._job, self._pools = run, job, pools
        self._progress, self._recorder, self._attempts = progress, recorder, attempts
        self._report, self._stalls = report, stalls
        self._mirror = LogMirror(folder, progress.sizes)
        self._reader = MetricReader(run.metrics_spec)
        self._exits = ExitReports(progress.locks)
        self._opened: JobLog | None = None
        self.metrics: list[MetricEvent] = []
        self.oldest = ""

    def read(self, ended: str | None, present: str) -> bool:
        """Collect the next lines; whether there were any. `ended` is when the job ended, if it has.

        At most one request. Raises Unreachable and RsctlError.
        """
        log = self._log()
        if ended is not None:
            log.finish(ended)
        read = log.read()
        lines = lines_apart(read or ())
        if not lines:
            if read is not None:
                self._progress.read_until = now()
            if ended is None and self._progress.kept is None:  # others wait for a failed node
                self._stalls.judge(present)
            return False
        self.oldest = min(line.time for line in lines)
        newest = min(max(line.time for line in lines), now())  # there may be more
        self._progress.read_until = max(self._progress.read_until or "", newest)
        self._mirror.write(logged(lines))
        events = [event for line in measured(lines) if (event := self._examine(line))]
        for metrics in self._reader.read_all(events):
            self.metrics += metrics
            self._stalls.read_metrics(metrics)
        for finding in self._reader.take_findings():
            self._report(finding)
        self._progress.cursor = log.cursor()
        return True

    @property
    def is_complete(self) -> bool:
        """Whether the whole log of an ended job has been read."""
        return self._log().is_complete

    def sizes(self) -> dict[str, int]:
        """The bytes of each replica's journal."""
        return self._mirror.sizes()

    def close(self) -> None:
        """Close the journals."""
        self._mirror.close()

    def _log(self) -> JobLog:
        if self._opened is None:
            since = parse_time(self._run.created) - _MOST_CLOCK_SKEW
            created = since.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            self._opened = self._job.log(self._progress.cursor, self._pools, created)
        return self._opened

    def _examine(self, line: LogEvent) -> LogEvent | None:
        """Take a line's data besides text and metrics; returns the line if a replica wrote it."""
        if line.replica == SERVICE:
            self._record_service_message(line)
            return None
        rank, text = take_mark(line.replica, line.text)
        event = replace(line, text=text, rank=rank) if rank else line
        is_start = self._attempts.examine(event)
        if is_start:
            self._stalls.resume(line.replica)
        if line.replica not in self._progress.running and (is_start or self._is_current(line)):
            self._progress.running.append(line.replica)
            self._recorder.state(JobState.RUNNING, line.replica, time=line.time)
        self._exits.announced(event, max(1, self._progress.starts.get(line.replica, 0)))
        if failure := self._exits.read(event):
            self._attempts.add_failure(failure)
        if (code := self._exits.kept(event)) is not None:
            self._record_kept(line, code)
        if restarts_in_place(event):
            self._progress.failures = without_node(self._progress.failures, line.replica)
        if finding := runtime_finding(event, len(self._progress.reported)):
            self._report(finding, line.replica)
        self._stalls.read(event)
        self._recorder.reports(event)
        self._note(self._job.notice(event), line.replica)
        return event

    def _is_current(self, line: LogEvent) -> bool:
        """Whether a line is from a container of the present attempt: the log may be later than the
        state. Not every container says when it starts.
        """
        starts = self._progress.starts.get(line.replica, 0)
        return not starts or starts >= self._progress.attempt

    def _record_kept(self, line: LogEvent, code: int) -> None:
        """A node has failed, and stays: the job has failed, however it ends."""
        self._recorder.state(JobState.FAILED, line.replica, code, time=line.time)
        self._progress.kept = (
            self._progress.kept or f"{line.replica} has failed with exit code {code}"
        )

    def _note(self, noticed: Finding | None, replica: str) -> None:
        """Keep the facts that the cloud's own code found in a line, each code once."""
        if noticed and noticed.code not in [known.code for known in self._progress.noticed]:
            self._progress.noticed.append(noticed)
            self._report(noticed, replica)

    def _record_service_message(self, line: LogEvent) -> None:
        """A message of the service about the job is shown beside the state that the job is in."""
        state = self._progress.state
        is_news = state is not None and line.text != f"Job is {state.value}."
        if state is JobState.RUNNING and line.time < (self._progress.running_since or ""):
            return  # it is about the wait for machines, which is over
        if state is not None and not state.is_final and is_news:
            self._recorder.state(state, reason=line.text, time=line.time)
