"""One bench: its cells, the results of their runs, their samples, and its end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import sleep
from typing import Any

from rsctl.api.arguments import check_number
from rsctl.api.reconcile import is_elsewhere
from rsctl.api.run_handle import Run
from rsctl.bench.cancel import cancel_bench, request_cancel
from rsctl.bench.folder import BenchFolder
from rsctl.bench.formats.html import html_table
from rsctl.bench.paired_results import own_results
from rsctl.bench.records import Benches, BenchRecord, Cell
from rsctl.bench.results import Results
from rsctl.bench.summary import (
    CellStatistic,
    CellSummary,
    counts,
    done,
    format_cell,
    state_text,
    summarize,
)
from rsctl.findings import ExitCode, JobState
from rsctl.job.tracking import NOTIFY
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import now

CANCEL_SECONDS = 60.0
_WATCH_SECONDS = 0.5


class Bench:
    """A bench of the store. It keeps nothing open: any thread may use it, and several at once.

    `record` is its record as last read; `reload`, `watch` and `cancel` read it again.
    """

    def __init__(self, record: BenchRecord) -> None:
        self.record = record
        self._trackers: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Bench {self.id}: {self.state.value}, {self.done} of {self.total} runs>"

    def _repr_html_(self) -> str:
        cells = self.summary()
        names = list(dict.fromkeys(name for cell in cells for name in cell.metrics))
        rows = [["CELL", "RUNS", *names]]
        for cell in cells:
            found = [str(cell.metrics.get(name, CellStatistic())) for name in names]
            rows.append([format_cell(cell.values), str(len(cell.runs)), *found])
        return html_table(f"{self!r}; values are medians of runs", rows)

    @property
    def id(self) -> str:
        """The bench's id."""
        return self.record.bench

    @property
    def state(self) -> JobState:
        """The state as of `record`; a bench whose process died is still in progress here."""
        return self.record.state

    @property
    def exit_code(self) -> ExitCode:
        """The worst exit code of its runs; while runs are missing, the code of an interrupted
        bench.
        """
        return self.record.exit_code

    @property
    def cells(self) -> list[Cell]:
        """The values of each cell by key path, such as `{"workers.count": 2}`."""
        return self.record.cells

    @property
    def total(self) -> int:
        """The planned number of runs."""
        return len(self.record.cells) * self.record.repeat

    @property
    def done(self) -> int:
        """How many of its runs have succeeded."""
        return done(self.record)

    @property
    def is_complete(self) -> bool:
        """Whether every repetition of every cell has succeeded."""
        return self.record.is_complete

    @property
    def is_driven(self) -> bool:
        """Whether a process runs it at present."""
        return BenchFolder(self.id).is_driven()

    @property
    def state_text(self) -> str:
        """Its state; `incomplete` if it has not ended and no process runs it."""
        return state_text(self.record)

    @property
    def driver_log(self) -> Path:
        """The output of a process that runs it in the background."""
        return BenchFolder(self.id).log

    def reload(self) -> BenchRecord:
        """The stored record of the bench. Raises RsctlError."""
        with closing(Store()) as store:
            self.record = Benches(store).get(self.id) or self.record
        return self.record

    def watch(self) -> Iterator[BenchRecord]:
        """The state of the bench, now and after each change, until no process runs it."""
        yield self.record
        while not self.state.is_final:
            is_driven, before = self.is_driven, self.record
            if is_driven:
                sleep(_WATCH_SECONDS)
            if self.reload() != before:
                yield self.record
            if not is_driven:
                return

    def neighbours(self, since: str | None = None) -> list[str]:
        """The other runs that are active on this machine; with a time, those that were since its
        own runs after that time began.
        """
        with closing(Store()) as store:
            found = [run for run in store.unfinished(since=since) if not is_elsewhere(run)]
        own = self.record.all_runs
        default = None if since else now()
        begun = min((run.created for run in found if run.run in own), default=default)
        return [
            run.run
            for run in found
            if begun is not None
            and run.run not in own
            and (run.ended > begun if run.ended else RunFolder(run.run).is_supervised())
        ]

    def counts(self, cell: int) -> dict[JobState, int]:
        """How many repetitions of a cell are in which state; those not begun are not counted."""
        return counts(self.record, cell)

    def runs(self) -> list[Run]:
        """The run of each repetition that has begun, by cell and repetition."""
        with closing(Store()) as store:
            records = [store.get(trial.run) for trial in self.record.latest().values()]
        return [Run(record) for record in records if record is not None]

    def summary(self) -> list[CellSummary]:
        """Each cell with the samples of its runs that have succeeded."""
        with closing(Store()) as store:
            return summarize(store, self.record)

    def results(self, repetitions: range | None = None) -> Results:
        """The measurements, for comparison and for a gate: of all repetitions or of some of
        them. A paired bench has those of its candidate.
        """
        with closing(Store()) as store:
            return own_results(store, self.record, repetitions)

    def request_cancel(self) -> None:
        """Request that its unfinished runs end, and wait for none. Raises RsctlError."""
        with closing(Store()) as store:
            request_cancel(store, self.record)

    def cancel(self, timeout: float = CANCEL_SECONDS) -> BenchRecord:
        """End all its runs, and start no more; returns the record afterwards.

        Leaves a bench that has ended unchanged. Raises RsctlError (exit code 6) if runs are still
        active after `timeout` seconds.
        """
        check_number("timeout", timeout)
        if not self.state.is_final:
            with closing(Store()) as store:
                self.record = cancel_bench(store, self.record, timeout)
        return self.record

    def start_trackers(self) -> None:
        """Have its runs sent to the trackers of its job, by a process that outlives this one."""
        from rsctl.results.tracking.background import start_bench

        with suppress(OSError):
            self._trackers = start_bench(self.id)

    def wait_for_trackers(self, timeout: float) -> list[str]:
        """Wait for the process of `start_trackers`, a second if it sends messages only; the ids of
        runs with unsent data.
        """
        from rsctl.results.tracking.background import MESSAGE_SECONDS
        from rsctl.results.tracking.cursor import unfinished

        if self._trackers is None:
            return []
        with suppress(subprocess.TimeoutExpired):
            has_trackers = self.record.spec.get("tracking")
            self._trackers.wait(timeout if has_trackers else MESSAGE_SECONDS)
        self.reload()
        return [
            run.id
            for run in self.runs()
            if any(tracker.kind != NOTIFY for tracker, _ in unfinished(run.record))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `rsctl bench list -o json` prints it: without the job file."""
        record = self.record
        return {
            "bench": record.bench,
            "name": record.name,
            "target": record.target,
            "state": record.state.value,
            "driven": self.is_driven,
            "created": record.created,
            "ended": record.ended,
            "exit_code": int(record.exit_code),
            "repeat": record.repeat,
            "images": record.images,
            "trials": [
                {
                    "cell": record.cells[trial.cell],
                    "repetition": trial.repetition,
                    "attempt": trial.attempt,
                    "run": trial.run,
                    "state": trial.state.value,
                    "exit_code": trial.exit_code,
                    "reason": trial.reason,
                }
                for trial in sorted(record.trials, key=lambda trial: trial.key)
            ],
        }
