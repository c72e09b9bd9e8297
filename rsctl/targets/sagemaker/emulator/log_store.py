"""The events of the log group of training jobs, by stream."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from rsctl.targets.sagemaker.emulator.behaviour import Behaviour

GROUP = "/aws/sagemaker/TrainingJobs"

Key = tuple[int, str]


class Event(NamedTuple):
    """One event. `time` and `ingested` in milliseconds since 1970; `visible` is a time of the
    monotonic clock from which on it can be read.
    """

    time: int
    id: str
    stream: str
    text: str
    ingested: int
    visible: float

    @property
    def key(self) -> Key:
        """The order of events."""
        return (self.time, self.id)


class LogStore:
    """Events by stream. Lines are written from many threads."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._streams: dict[str, list[Event]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def write(self, stream: str, text: str, at: int) -> None:
        """Have a line in a stream, which is there from then on. An event is never empty."""
        kept = self._behaviour
        with self._lock:
            number = next(self._numbers)
            is_late = kept.late_every > 0 and number % kept.late_every == 0
            delay = (kept.late_by if is_late else kept.ingest) * kept.pace
            ingested = int((time.time() + delay) * 1000)
            event = Event(
                at, f"{number:056d}", stream, text or " ", ingested, time.monotonic() + delay
            )
            events = self._streams.setdefault(stream, [])
            if events and events[-1].key > event.key:
                insort(events, event)
            else:
                events.append(event)

    def streams(self, prefix: str = "") -> list[str]:
        """The streams that something can be read of, in order."""
        now = time.monotonic()
        with self._lock:
            found = [
                name
                for name, events in self._streams.items()
                if name.startswith(prefix) and any(event.visible <= now for event in events)
            ]
        return sorted(found)

    def has(self, stream: str) -> bool:
        """Whether something can be read of a stream."""
        return stream in self.streams(stream)

    @property
    def is_there(self) -> bool:
        """Whether the group is: it comes with its first event."""
        return bool(self.streams())

    def events(self, streams: list[str], low: int, high: int, after: Key) -> Iterator[Event]:
        """The events of some streams that are readable now, with times from `low` up to `high`, in
        order and after a key.
        """
        now = time.monotonic()
        with self._lock:
            parts = [_slice(self._streams.get(name, []), low, high, after) for name in streams]
        found = heapq.merge(*parts) if len(parts) > 1 else itertools.chain(*parts)
        return (event for event in found if event.visible <= now)

    def before(self, stream: str, low: int, high: int, key: Key) -> Iterator[Event]:
        """As `events` of one stream, but backwards from a key."""
        now = time.monotonic()
        with self._lock:
            part = _slice(self._streams.get(stream, []), low, high, (low, ""))
        return (e for e in reversed(part) if e.visible <= now and e.key < key)


def _slice(events: list[Event], low: int, high: int, after: Key) -> list[Event]:
    """A copy: late events are inserted while others read."""
    first = bisect_left(events, max((low, ""), (after[0], after[1] + "\0")), key=lambda e: e.key)
    last = bisect_left(events, (high + 1, ""), key=lambda e: e.key)
    return events[first:last]
