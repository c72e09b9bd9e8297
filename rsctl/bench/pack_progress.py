"""The progress of a packed job: which slots have begun and ended, by the marks in its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from rsctl.bench.packed import Pack, slot_of
from rsctl.bench.prepare import BenchPlan
from rsctl.bench.records import SIDE, Trial
from rsctl.bench.summary import format_value
from rsctl.node.slots import FOLDERS, folder_of_slot
from rsctl.runs.slots import Mark, SlotEnd, SlotMarks, keep_slot
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import Event, FindingEvent, LogEvent
from rsctl.targets.base import new_run


class PackProgress:
    """Reads the marks of a packed job. `has_begun` has the numbers of the slots that have; `shown`
    are the runs of slots whose end has been shown.
    """

    def __init__(self, pack: Pack) -> None:
        self.has_begun: set[int] = set()
        self.shown = {trial.run for trial in pack.trials if trial.state.is_final}
        self._trials = {slot_of(trial): trial for trial in pack.trials}
        self._marks = SlotMarks()
        self._began: dict[int, dict[str, Mark]] = {}
        self._ended: dict[int, dict[str, Mark]] = {}
        self._current: dict[str, int] = {}

    def take(self, events: Iterable[Event]) -> Iterator[tuple[Trial, list[Event]]]:
        """The lines and findings of the job, each with the slot that it belongs to."""
        shown = [e for e in events if isinstance(e, (LogEvent, FindingEvent))]
        for slot, part in groupby(shown, self._slot_at):
            if slot in self._trials:
                yield self._trials[slot], list(part)

    def trial(self, slot: int) -> Trial | None:
        """The trial of a slot that has not ended."""
        found = self._trials.get(slot)
        return None if found is None or found.state.is_final else found

    def ends(self, workers: int) -> list[SlotEnd]:
        """The slots that have ended on all workers."""
        return [
            SlotEnd(slot, self._began[slot], ended)
            for slot, ended in sorted(self._ended.items())
            if len(ended) == workers and self._began.get(slot, {}).keys() >= ended.keys()
        ]

    def _slot_at(self, event: LogEvent | FindingEvent) -> int:
        replica = event.replica or ""
        mark = self._marks.read(event) if isinstance(event, LogEvent) else None
        if mark is not None:
            marks = self._ended if mark.has_ended else self._began
            marks.setdefault(mark.slot, {})[replica] = mark
            self.has_begun.add(mark.slot)
            self._current[replica] = mark.slot
        return self._current.get(replica, max(self.has_begun, default=0))


def keep_ended(
    store: Store, prepared: BenchPlan, trial: Trial, job: RunRecord, end: SlotEnd
) -> RunRecord | None:
    """Record a slot that has ended as a run; None if its metrics are not stored yet."""
    cell = prepared.cells[trial.cell]
    record = new_run(cell.submission, settings_of(prepared, trial.cell))
    planned = record.run.encode()
    text = msgspec.json.encode(record.plan).replace(planned, job.run.encode())
    plan: dict[str, Any] = msgspec.json.decode(text)
    folders = {name: plan["env"][name] for name in FOLDERS if plan["env"].get(name)}
    plan["env"] |= {name: folder_of_slot(path, end.slot) for name, path in folders.items()}
    run = trial.run
    plan |= {"run": run, "image": job.plan["image"], "pools": job.plan["pools"]}
    record = msgspec.structs.replace(record, run=run, url=f"{record.target}://{run}", plan=plan)
    limit = cell.submission.job.limits.timeout
    is_late = prepared.target.info.is_managed
    return keep_slot(store, job, record, end, float(limit) if limit else None, is_late)


def settings_of(prepared: BenchPlan, cell: int) -> list[str]:
    """The settings of a cell's job that are not in its file."""
    values = prepared.cells[cell].values
    varied = [f"{k}={format_value(value)}" for k, value in values.items() if k != SIDE]
    fixed = [s for s in prepared.settings if s.partition("=")[0] not in values]
    return [*fixed, *varied]
