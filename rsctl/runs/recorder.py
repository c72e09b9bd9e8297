"""Records states, findings, the first failure and metrics of a run in progress."""

from __future__ import annotations

import os
import resource
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic

import msgspec

from rsctl.findings import Finding, JobState, warning
from rsctl.runs import final_state
from rsctl.runs.folder import RunFolder
from rsctl.runs.profiles import keep_profile
from rsctl.runs.step_times import keep_steps, reported_steps
from rsctl.runs.store import Store
from rsctl.runs.stream.events import (
    Attempt,
    Event,
    Failure,
    FindingEvent,
    LogEvent,
    MetricEvent,
    StateEvent,
    now,
)
from rsctl.runs.stream.journal import tail_lines
from rsctl.runs.stream.metrics import MetricSpec, metric_findings, structured
from rsctl.runs.stream.profiles import reported_profile
from rsctl.runs.versions import keep_versions, reported_versions

_RESERVE_BYTES = 1 << 20
_FLUSH_SECONDS = 1.0
_FLUSH_COUNT = 2000
_READ_AGAIN = 4  # replicas
_TAIL = 1000  # lines
_MOST_WAITING = 50_000
"""The maximum number of metric values that wait for a store that cannot be written."""


class Recorder:
    """Writes to the run's `states.log` and to the store.

    A file of a megabyte is kept as a reserve. When the disk is full, it is removed, so that at
    least the end of the run can be recorded.
    """

    def __init__(self, folder: RunFolder, store: Store) -> None:
        self._folder = folder
        self._run = folder.run
        self._store = store
        self._file = os.open(
            folder.states, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600
        )
        self._reserve = folder.path / "reserve"
        self._is_torn = False  # the last line of the file
        self._metrics: list[MetricEvent] = []
        self._metrics_lost = 0
        self._is_waiting = False  # for a store that cannot be written
        self._problem = ""
        self._replicas: dict[str, StateEvent] = {}
        self._unsaved: dict[str, StateEvent] = {}
        self._flushed = monotonic()
        self._reported: set[str | None] = set()
        self.attempt = 1
        _reserve_space(self._reserve)
        final_state.reserve(folder.run, len(folder.replicas()))

    def state(
        self,
        state: JobState,
        replica: str | None = None,
        exit_code: int | None = None,
        reason: str | None = None,
        time: str | None = None,
    ) -> None:
        """The job or a replica entered a state; now, unless a time is given."""
        event = StateEvent(
            time=time or now(),
            state=state,
            replica=replica,
            attempt=self.attempt,
            exit_code=exit_code,
            reason=reason,
        )
        if replica is not None:
            self._replicas[replica] = self._unsaved[replica] = event
        elif state.is_final:
            final_state.write(self._run, event, self._replicas.values())
        self._record_replicas()
        if replica is None:
            self._save(lambda: self._store.record(self._run, event))
        self._append(event)

    def _record_replicas(self) -> None:
        """Record the states of replicas, and earlier states for which there was no space."""
        for name, event in list(self._unsaved.items()):
            if not self._save(lambda event=event: self._store.record(self._run, event)):  # type: ignore[misc]
                return
            del self._unsaved[name]

    def finding(self, finding: Finding, replica: str | None = None) -> None:
        """A problem or remark for the user."""
        self._reported.add(finding.path)
        self._append(FindingEvent(time=now(), finding=finding, replica=replica))

    def metrics_ended(self, metrics: Mapping[str, MetricSpec], is_success: bool) -> None:
        """Report problems with the metrics of a run that is about to end.

        A regex that was reported before is not reported again for finding nothing.
        """
        self._flush_finally()
        try:
            last = self._store.latest(self._run, "")
        except sqlite3.Error:  # then they are unknown
            return
        for finding in metric_findings(metrics, last, is_success, cache(self._last_lines)):
            if finding.path not in self._reported:
                self.finding(finding)

    def _last_lines(self) -> list[str]:
        """The last lines of a few replicas' logs, without those of rsctl."""
        replicas = self._folder.replicas()[:_READ_AGAIN]
        tails = (tail_lines(self._folder.log(each), each, _TAIL) for each in replicas)
        texts = (line.text for tail in tails for line in tail)
        return [text for text in texts if structured(text) is None]

    def failure(self, failure: Failure) -> None:
        """The first failure of the job."""
        self._save(lambda: self._store.record_failure(self._run, failure))

    def attempt_ended(self, attempt: Attempt) -> None:
        """An attempt is followed by another one; recorded again, the last counts."""
        self._save(lambda: self._store.record_attempt(self._run, attempt))

    def reports(self, line: LogEvent) -> None:
        """Record the machine of a replica, the times of its last steps or the profile of a rank, if
        this line of the runtime reports them.
        """
        if versions := reported_versions(line):
            self._save(lambda: keep_versions(self._store, self._run, line.replica, versions))
        if steps := reported_steps(line):
            self._save(lambda: keep_steps(self._store, self._run, steps))
        if profile := reported_profile(line):
            self._save(lambda: keep_profile(self._store, self._run, profile))

    def metrics(self, metrics: Iterable[MetricEvent]) -> None:
        """Values to be stored soon."""
        self._metrics.extend(metrics)
        if len(self._metrics) >= _FLUSH_COUNT and not self._is_waiting:
            self.flush()

    def flush_if_due(self) -> None:
        """Store the metrics that have waited for a second."""
        if self._metrics and monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Store all waiting metrics; those without space continue to wait."""
        waiting, self._metrics = self._metrics, []
        self._is_waiting = False
        if waiting and not self._save(lambda: self._store.add_metrics(self._run, waiting)):
            self._metrics = waiting[-_MOST_WAITING:]
            self._metrics_lost += len(waiting) - len(self._metrics)
            self._is_waiting = True
        self._flushed = monotonic()

    def _flush_finally(self) -> None:
        """Store all waiting metrics, or only the last value of each series; report lost ones."""
        self.flush()
        effect = ""
        if self._metrics:
            waiting = self._metrics
            self._metrics = list({(each.replica, each.name): each for each in waiting}.values())
            self._metrics_lost += len(waiting) - len(self._metrics)
            self.flush()
            if self._metrics:
                effect = "; the last values shown may differ from the job's last values"
            self._metrics_lost += len(self._metrics)
            self._metrics = []
        if self._metrics_lost:
            message = (
                f"{self._metrics_lost} values of metrics are not stored: {self._problem}{effect}"
            )
            remedy = "free disk space; if the log is complete, it has the values"
            self.finding(warning("metrics-lost", message, remedy))

    def disk_full(self) -> None:
        """Called once, when output can no longer be stored: removes the reserve to make space for
        the rest.
        """
        _free(self._reserve)
        self.finding(_full(self._folder.path))

    def close(self) -> None:
        """Write all waiting data and remove the reserve."""
        self.flush()
        _free(self._reserve)
        os.close(self._file)

    def _append(self, event: Event) -> None:
        line = msgspec.json.encode(event) + b"\n"
        self._save(lambda: self._write_line(line))

    def _write_line(self, line: bytes) -> None:
        rest = b"\n" * self._is_torn + line
        while rest:
            rest = rest[os.write(self._file, rest) :]
            self._is_torn = bool(rest)

    def _save(self, write: Callable[[], object]) -> bool:
        """Write, with the reserve's space if necessary; returns whether it was written.

        A job never ends because its data cannot be recorded.
        """
        for _ in range(2):
            try:
                write()
                return True
            except (sqlite3.Error, OSError) as problem:
                self._problem = getattr(problem, "summary", str(problem))
                _free(self._reserve)
                with suppress(OSError):  # standard error may be a file on the same disk
                    print(f"{now()} cannot write: {problem}", file=sys.stderr, flush=True)
        return False


def _reserve_space(path: Path) -> None:
    try:
        path.write_bytes(bytes(_RESERVE_BYTES))
    except OSError:
        _free(path)


def _free(reserve: Path) -> None:
    """Remove the reserve, unless the disk is read-only, as it is after an error of the disk."""
    with suppress(OSError):
        reserve.unlink()


def _full(folder: Path) -> Finding:
    is_limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    or_limit = ", or a file has reached this process's limit of file sizes" if is_limited else ""
    remedy = "free disk space, or set RSCTL_HOME to a larger disk"
    if is_limited:
        remedy = "raise the limit, `ulimit -f unlimited`, or free disk space"
    lost = "logs are incomplete from here on, the job continues"
    return warning("disk-full", f"the disk of {folder} is full{or_limit}: {lost}", remedy)
