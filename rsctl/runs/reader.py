"""Reads a local run's folder as events in order of time, while it is written or afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from time import monotonic

import msgspec

from rsctl.atomic_file import UNREADABLE, open_regular
from rsctl.runs.folder import RunFolder
from rsctl.runs.stream.events import Cursor, Event, FindingEvent, LogEvent, StateEvent
from rsctl.runs.stream.journal import JournalReader, allow_many_files, tail_offset
from rsctl.runs.stream.merge import OrderedMerge

STATES = "states"
_REORDER_SECONDS = 0.05  # from a line's stamp to its write


class StateReader:
    """Reads `states.log` from an offset on."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.offset = offset
        self.ended = False
        self._path = path
        self._decoder = msgspec.json.Decoder(StateEvent | FindingEvent)

    def read(self) -> list[StateEvent | FindingEvent]:
        """The events since the last read; skips a damaged line."""
        try:
            with open_regular(self._path) as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self.offset += end
        events = []
        for line in data[:end].splitlines():
            try:
                events.append(self._decoder.decode(line))
            except UNREADABLE:
                continue
        self.ended = self.ended or any(map(ends_job, events))
        return events


def ends_job(event: Event) -> bool:
    """Whether this is the end of the job."""
    return isinstance(event, StateEvent) and event.replica is None and event.state.is_final


class RunReader:
    """The events in a run's folder from a cursor on, in order; advances the cursor as it reads.

    `ended` says that the last read found the job's end, so that it returned everything.
    """

    def __init__(self, folder: RunFolder, since: Cursor) -> None:
        allow_many_files()
        self.ended = False
        self._since = since
        self._states = StateReader(folder.states, since.get(STATES, 0))
        self._logs = [
            JournalReader(folder.log(name), name, since.get(name, 0)) for name in folder.replicas()
        ]
        self._merge: OrderedMerge[LogEvent | StateEvent | FindingEvent] = OrderedMerge(
            [self._states, *self._logs]
        )
        self._latest: tuple[float, str] | None = None  # when it was read, and its own time

    def read(self, complete: bool) -> list[Event]:
        """The next events; `complete` means that nothing more is being written."""
        horizon = None if complete or self._states.ended else self._horizon()
        events = self._merge.read(horizon)
        self.ended = self._states.ended and horizon is None
        if not self._merge.waiting(0):
            self._since[STATES] = self._states.offset
        for index, log in enumerate(self._logs, start=1):
            waiting = self._merge.waiting(index)
            first = waiting[0] if waiting else None
            self._since[log.replica] = int(first.id) if isinstance(first, LogEvent) else log.offset
        ahead = [w[-1].time for w in map(self._merge.waiting, range(len(self._logs) + 1)) if w]
        self._latest = self._latest or ((monotonic(), max(ahead)) if ahead else None)
        return list(events)

    def _horizon(self) -> str:
        """The time up to which nothing more is written: a moment ago, or the latest event that was
        read a moment ago, if its time is later. This clock may have gone back, and the one of a
        cloud may be ahead.
        """
        horizon = _just_before_now()
        if self._latest and monotonic() - self._latest[0] > _REORDER_SECONDS:
            horizon, self._latest = max(horizon, self._latest[1]), None
        return horizon

    def close(self) -> None:
        """Close the files."""
        for log in self._logs:
            log.close()


def cursor_before_last(folder: RunFolder, lines: int) -> Cursor:
    """A cursor from which at least the last `lines` lines of a run follow."""
    cursor = {r: tail_offset(folder.log(r), lines) for r in folder.replicas()}
    return {**cursor, STATES: 0}


def _just_before_now() -> str:
    moment = datetime.now(timezone.utc) - timedelta(seconds=_REORDER_SECONDS)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
