"""The slots of a packed job: a run of its own for each, out of the log and the metrics of the job.

The launcher of each worker marks the begin and the end of a slot, see `rsctl.node.slots`. Where a
mark is read, a metric SLOT_MARK is stored too, so that the values of a slot are those between.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Optional

import msgspec

from rsctl.findings import JobState
from rsctl.node.structured_lines import lock_of
from rsctl.runs.exit_reports import ExitReports, runtime_finding
from rsctl.runs.failures import first_failure
from rsctl.runs.folder import RunFolder
from rsctl.runs.home import private_folder, run_directory
from rsctl.runs.recorder import Recorder
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure, LogEvent
from rsctl.runs.stream.journal import JournalReader
from rsctl.runs.stream.metrics import CHECKED, SLOT_MARK, mark_value
from rsctl.runs.stream.structured import record_of

_MOST_LOST = 50
"""The number of marks in a row that a log may lack."""
_COPIED = ("rehearsal.json", "origin.json")


class Mark(NamedTuple):
    """The begin of a slot on a worker, or its end, with the exit code of the worker's command.

    `why` is `timeout` or `node` if the command was ended, `offset` the mark's place in the
    worker's log, `value` that of the metric SLOT_MARK.
    """

    slot: int
    replica: str
    has_ended: bool
    code: int
    why: Optional[str]
    time: str
    offset: int
    value: float


class SlotMarks:
    """Reads the marks of a job's log; a line that a program of the job has printed is not one."""

    def __init__(self) -> None:
        self._locks: dict[str, str] = {}

    def read(self, line: LogEvent) -> Mark | None:
        """The mark in a line; None for any other line."""
        record = record_of(line.text, "slots", "slot") if line.rank is None else {}
        if not record:
            return None
        if record["rsctl"] == "slots":
            self._locks.setdefault(line.replica, str(record.get("lock")))
            return None
        key, slot, code = str(record.get("key")), record.get("number"), record.get("code", 0)
        value = mark_value(key)
        if type(slot) is not int or type(code) is not int or value is None:
            return None
        if not self._fits(line.replica, key):
            return None
        ended, why = record.get("state") == "ended", record.get("why")
        return Mark(slot, line.replica, ended, code, why, line.time, int(line.id), value)

    def _fits(self, replica: str, key: str) -> bool:
        """Whether a key leads to the one before it; then it is the one that the next leads to."""
        lock, wanted = key, self._locks.get(replica)
        for _ in range(_MOST_LOST):
            lock = lock_of(lock)
            if lock == wanted:
                self._locks[replica] = key
                return True
        return False


class SlotEnd(NamedTuple):
    """A slot that has ended on all workers: the marks of its begin and end, by worker."""

    slot: int
    began: dict[str, Mark]
    ended: dict[str, Mark]

    @property
    def state(self) -> JobState:
        """How it ended."""
        marks = self.ended.values()
        if any(mark.why == "timeout" for mark in marks):
            return JobState.EXPIRED
        return JobState.FAILED if any(mark.code for mark in marks) else JobState.SUCCEEDED


def keep_slot(
    store: Store,
    job: RunRecord,
    run: RunRecord,
    end: SlotEnd,
    limit: float | None,
    has_late_lines: bool,
) -> RunRecord | None:
    """Record a slot of a job as a run of its own, which is `run` without its end; returns it.

    What an earlier, killed call has recorded is replaced. None if the metrics of the slot are not
    stored yet; a job that has ended has all that it will have. `limit` is the time limit of a slot,
    in seconds. `has_late_lines` is of a cloud's log. Raises StoreError and OSError.
    """
    windows = _windows(store, job.run, end)
    if len(windows) < len(end.ended) and not job.state.is_final:
        return None
    folder = RunFolder(run.run)
    store.forget(run.run)
    shutil.rmtree(folder.path, ignore_errors=True)
    private_folder(folder.path)
    lock = folder.lock()  # no process takes it for a run whose supervisor has been killed
    try:
        description = RunFolder(job.run).description()
        folder.create(msgspec.structs.replace(description, run=run.run, timeout=limit))
        began = min(mark.time for mark in end.began.values())
        run = msgspec.structs.replace(run, created=began)
        store.add(run)
        _copy_metrics(store, job.run, run.run, windows, end, has_late_lines)
        for worker, mark in end.ended.items():
            source = RunFolder(job.run).log(worker)
            _copy_log(source, folder.log(worker), end.began[worker].offset, mark.offset)
        for name in _COPIED:
            if (run_directory(job.run) / name).exists():
                shutil.copyfile(run_directory(job.run) / name, folder.path / name)
        with closing(Recorder(folder, store)) as recorder:
            _record(recorder, folder, end, began, limit)
    finally:
        os.close(lock)
    return store.get(run.run)


def _record(
    recorder: Recorder, folder: RunFolder, end: SlotEnd, began: str, limit: float | None
) -> None:
    """Record the states of a slot, and all that its log has besides metrics."""
    recorder.state(JobState.STARTING, time=began)
    for worker, mark in end.began.items():
        recorder.state(JobState.RUNNING, worker, time=mark.time)
    recorder.state(JobState.RUNNING, time=max(mark.time for mark in end.began.values()))
    reports: list[Failure] = []
    for worker in end.ended:
        reports += _read_log(recorder, folder, worker)
    for worker, mark in end.ended.items():
        state, why = _state_of(mark)
        recorder.state(state, worker, mark.code, why, mark.time)
    reason, ended = None, max(mark.time for mark in end.ended.values())
    if end.state is JobState.EXPIRED:
        reason = f"limits.timeout of {limit:.10g} s" if limit else "its time limit"
    elif end.state is JobState.FAILED:
        own = [m for m in end.ended.values() if m.code and m.why is None] or end.ended.values()
        unreported = [Failure(replica=m.replica, time=m.time, exit_code=m.code) for m in own]
        failure = first_failure(reports or unreported, folder)
        recorder.failure(failure)
        reason = failure.reason
    recorder.state(end.state, exit_code=int(end.state.exit_code), reason=reason, time=ended)


def _state_of(mark: Mark) -> tuple[JobState, str | None]:
    if mark.why is not None:
        stopped = "at its time limit" if mark.why == "timeout" else "after another node had failed"
        return JobState.CANCELLED, f"stopped {stopped}"
    return (JobState.FAILED if mark.code else JobState.SUCCEEDED), None


def _read_log(recorder: Recorder, folder: RunFolder, worker: str) -> list[Failure]:
    """Record findings and other reports; returns the failures that the ranks have reported."""
    exits, reports = ExitReports({}), []
    reader = JournalReader(folder.log(worker), worker)
    while batch := reader.read():
        for line in batch:
            exits.announced(line)
            if failure := exits.read(line):
                reports.append(failure)
            if finding := runtime_finding(line):
                recorder.finding(finding, worker)
            recorder.reports(line)
    reader.close()
    return reports


def _copy_log(source: Path, target: Path, begin: int, last: int) -> None:
    """Copy the lines from one offset up to the line at another."""
    with open(source, "rb") as log, open(target, "wb") as own:
        log.seek(begin)
        left = last - begin
        while left > 0 and (part := log.read(min(left, 1 << 20))):
            own.write(part)
            left -= len(part)
        own.write(log.readline())


_LAST_ROW = 1 << 62
_COLUMNS = "(worker, first_row, begun, last_row, ended, previous_row, next_row)"
_COPY = """
INSERT INTO metrics (run, time, replica, name, step, value)
SELECT ?, m.time, m.replica, m.name, m.step, m.value FROM metrics m
LEFT JOIN slot_windows w ON w.worker = substr(m.replica, 1, instr(m.replica || '/', '/') - 1)
WHERE m.run = ? AND m.rowid BETWEEN ? AND ? AND m.name <> ? AND CASE
  WHEN w.worker IS NULL THEN substr(m.replica, 1, 7) <> 'worker-' AND m.time BETWEEN ? AND ?
  WHEN ? THEN m.time BETWEEN w.begun AND w.ended
    AND (m.time > w.begun OR m.rowid > w.previous_row)
    AND (m.time < w.ended OR m.rowid < w.next_row)
  ELSE m.rowid BETWEEN w.first_row AND w.last_row
END ORDER BY m.rowid
"""
_COPY_CHECKS = """
INSERT INTO metrics (run, time, replica, name, step, value)
SELECT ?, time, replica, name, step, value FROM metrics
WHERE run = ? AND substr(name, 1, ?) = ? AND time < ? ORDER BY rowid
"""


class _Window(NamedTuple):
    """The stored marks of a worker's slot: row and time of both.

    `previous` and `next` are the rows of the worker's marks that have the time of its begin or its
    end and are of other slots, or rows beyond all: many lines can have one time, since CloudWatch
    keeps milliseconds, and a node's output is read in blocks.
    """

    worker: str
    first: int
    begin: str
    last: int
    end: str
    previous: int
    next: int


def _windows(store: Store, run: str, end: SlotEnd) -> list[_Window]:
    query = "SELECT replica, value, rowid, time FROM metrics WHERE run=? AND name=? ORDER BY rowid"
    stored: dict[str, dict[float, tuple[int, str]]] = {}
    for replica, value, row, time in store.rows(query, run, SLOT_MARK):
        stored.setdefault(replica, {}).setdefault(value, (row, time))
    found = []
    for worker, mark in end.ended.items():
        marks = stored.get(worker, {})
        begin, last = (marks.get(m.value) for m in (end.began[worker], mark))
        if begin is not None and last is not None:
            before = [row for row, time in marks.values() if time == begin[1] and row < begin[0]]
            after = [row for row, time in marks.values() if time == last[1] and row > last[0]]
            beyond = max(before, default=-1), min(after, default=_LAST_ROW)
            found.append(_Window(worker, *begin, *last, *beyond))
    return found


def _copy_metrics(
    store: Store, job: str, run: str, windows: list[_Window], end: SlotEnd, by_time: bool
) -> None:
    """Copy the values between the marks: by their rows or, where lines of a log come late, by their
    times, and by rows where these are equal. Replicas without marks, such as reducers, have the
    times of the whole slot. The readings of the job's `checks`, which precede all slots, are copied
    too.
    """
    first = min((window.first for window in windows), default=0)
    rows = (0, _LAST_ROW) if by_time else (first, max((w.last for w in windows), default=0))
    begin = min(mark.time for mark in end.began.values())
    last = max(mark.time for mark in end.ended.values())
    with store.transaction() as db:
        db.execute(f"CREATE TEMP TABLE IF NOT EXISTS slot_windows {_COLUMNS}")
        db.execute("DELETE FROM slot_windows")
        db.executemany("INSERT INTO slot_windows VALUES (?, ?, ?, ?, ?, ?, ?)", windows)
        db.execute(_COPY_CHECKS, (run, job, len(CHECKED), CHECKED, begin))
        db.execute(_COPY, (run, job, *rows, SLOT_MARK, begin, last, by_time))
