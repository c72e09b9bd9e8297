"""Watches a run in a cloud: collects it, unless another process of this machine does."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic, sleep

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs.folder import RunFolder
from rsctl.runs.home import private_folder
from rsctl.runs.placements import PlacementEnd
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets.managed.collector import Collector
from rsctl.targets.managed.contact import Contact
from rsctl.targets.managed.endpoints import endpoints_of
from rsctl.targets.managed.progress import kept_progress
from rsctl.targets.managed.service import CloudJob

_TRY_SECONDS = 1.0
_NOTED_SECONDS, _SILENT_SECONDS = 5.0, 120.0
_QUIET_SECONDS, _QUIET_SECONDS_AT_END = 3.0, 45.0
_IDLE_SECONDS = 0.05
_GONE = "its emulator has ended; rsctl has removed the rest of the job"


class RunWatcher:
    """Takes the run's lock if it is free, and keeps it until it is closed.

    `find_job` finds the run's job, or makes it if the run is between two placements; None if there
    is none (yet). `move` takes a run to its next placement if its job has ended for lack of
    capacity.
    """

    def __init__(
        self,
        run: str,
        find_job: Callable[[str], CloudJob | None],
        move: Callable[[str, PlacementEnd], None],
    ) -> None:
        self._folder = RunFolder(run)
        self._find_job, self._move = find_job, move
        self._store = Store()
        self._lock: int | None = None
        self._collector: Collector | None = None
        self._try_at = 0.0
        self._contact = Contact(endpoints_of(run).time_scale)

    def step(self) -> bool:
        """Collect new data, unless another process does; whether no more will come.

        Raises RsctlError each time when a call fails, and ResultUnknown when that has lasted too
        long.
        """
        try:
            return self._step()
        except DiskFull:
            raise
        except RsctlError as problem:
            self._contact.failed()
            record = self._store.get(self._folder.run)
            if record is None or not self._contact.is_refused_for_long:
                raise
            raise ResultUnknown(record, *problem.findings) from None

    def _step(self) -> bool:
        if self._collector is None and monotonic() < self._try_at:
            return False
        if self._is_over():
            return True
        collector = self._open()
        if collector is not None:
            if self._folder.unwatched_seconds() > _NOTED_SECONDS:
                self._folder.note_watched()
            self._end_with_emulator(collector)  # first: an ended emulator has no key either
            collector.step()
            self._end_with_emulator(collector)
            self._go_on(collector)
        return self._is_over()

    def collect(self) -> None:
        """Collect what the job has printed so far; after the job's end until the log is complete.

        Does nothing if another process collects. Raises RsctlError.
        """
        if self._is_over():
            return
        collector = self._open()
        if collector is not None:
            self._end_with_emulator(collector)
            _until_quiet(collector, endpoints_of(self._folder.run).time_scale)
            self._end_with_emulator(collector)
            self._go_on(collector)
            collector.require_log()

    def silence(self) -> list[Finding]:
        """Why the cloud has not answered the last call of this watcher; empty if it has."""
        return self._collector.silence() if self._collector is not None else []

    @property
    def has_lock(self) -> bool:
        """Whether the run is this watcher's to collect."""
        return self._lock is not None

    @property
    def has_ended(self) -> bool:
        """Whether this process has seen the job's end."""
        return self._collector is not None and self._collector.has_ended

    def poll_now(self) -> None:
        """Poll soon for the effect of a request that was sent to the job."""
        if self._collector is not None:
            self._collector.poll_now()

    def close(self) -> None:
        """Release the run, so that another process may collect it."""
        if self._collector is not None:
            self._collector.close()
        if self._lock is not None:
            os.close(self._lock)
        self._store.close()

    def _end_with_emulator(self, collector: Collector) -> None:
        """End a rehearsal's emulator when all data is here; if it ended before, the job is lost."""
        if collector.is_complete:
            emulator.end(self._folder.run)
        elif emulator.is_lost(self._folder.run):
            collector.abandon(_GONE)

    def _go_on(self, collector: Collector) -> None:
        """Move the run to its next placement if there was no capacity at this one."""
        end = collector.end_of_placement
        if end is not None:
            collector.close()
            self._collector, self._try_at = None, 0.0
            self._move(self._folder.run, end)

    def _open(self) -> Collector | None:
        """The collector, if this process can take the lock and the run has a job."""
        if self._collector is None and monotonic() >= self._try_at:
            self._try_at = monotonic() + _TRY_SECONDS
            self._try_to_open()
        return self._collector

    def _try_to_open(self) -> None:
        if self._lock is None:
            try:
                private_folder(self._folder.path)
                self._lock = self._folder.lock()
            except BlockingIOError:
                self._require_progress()
                return
        job = self._find_job(self._folder.run)
        record = self._store.get(self._folder.run)
        if job is not None and record is not None:
            self._collector = Collector(self._folder, self._store, job, record, self._contact)

    def _require_progress(self) -> None:
        """Raise RsctlError if the process that has the lock does not collect the run: one that was
        suspended, or that keeps an iterator of the run's events without reading it.
        """
        record, seconds = self._store.get(self._folder.run), self._folder.unwatched_seconds()
        process = self._folder.supervisor()
        if process is None or record is None or seconds < _SILENT_SECONDS:
            return
        if not record.is_located:  # it may be building the image
            return
        message = f"process {process} watches {record.run}, and has not updated it for "
        message += f"{seconds:.0f} s"
        remedy = f"resume it (fg), or end it: kill {process}"
        if process == os.getpid():
            remedy = "close the iterator of the run's events in this process"
        raise RsctlError(ExitCode.REFUSED, error("watcher", message, remedy))

    def _is_over(self) -> bool:
        if self._collector is not None:
            return self._collector.is_over
        record = self._store.get(self._folder.run)
        return record is None or _is_complete(self._store, record)


def _until_quiet(collector: Collector, time_scale: float) -> None:
    """Until no line from before this call arrives: a job may print without a pause."""
    called, quiet_since = "", monotonic()
    while not collector.is_over and collector.end_of_placement is None:
        longest = _QUIET_SECONDS_AT_END if collector.has_ended else _QUIET_SECONDS
        has_lines = collector.step()
        called = called or collector.present
        if has_lines and (collector.has_ended or collector.oldest_line <= called):
            quiet_since = monotonic()
        elif monotonic() - quiet_since > longest * time_scale:
            return
        elif not has_lines:
            sleep(min(_IDLE_SECONDS, _IDLE_SECONDS * time_scale))


def _is_complete(store: Store, run: RunRecord) -> bool:
    """Whether all data is here, or the run never had a job."""
    progress = kept_progress(store, run.run)
    if progress is None:
        return run.state.is_final and not run.is_located
    return progress.is_complete
