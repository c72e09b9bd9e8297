"""Log lines of CloudWatch, held back until it is known which replica their stream belongs to.

They wait for a limited time and up to a limited number; then their host is named by a guess.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from rsctl.targets.managed.service import Line
from rsctl.targets.sagemaker.dedup_window import short
from rsctl.targets.sagemaker.hosts import Hosts

_PATIENCE = 60.0
_MOST_HELD = 2000
_LAST_SECOND = 253_402_300_799  # of the year 9999


class Event(NamedTuple):
    """One entry of the log. Times in milliseconds since 1970."""

    id: str
    stream: str
    time: int
    ingested: int
    text: str

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Event:
        """From FilterLogEvents' answer; an entry without an id gets one from what it says."""
        stream, text = str(entry.get("logStreamName", "")), str(entry.get("message", ""))
        moment = int(entry.get("timestamp", 0))
        identity = entry.get("eventId") or _identity(f"{stream} {moment} {text}")
        return cls(str(identity), stream, moment, int(entry.get("ingestionTime", moment)), text)


class PendingLogLines:
    """Turns events into lines, in the order in which they come.

    `patience_factor` scales how many seconds a line waits for its host's name.
    """

    def __init__(
        self, hosts: Hosts, patience_factor: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._hosts = hosts
        self._patience = _PATIENCE * patience_factor
        self._clock = clock
        self._held: dict[str, list[Event]] = {}
        self._since: dict[str, float] = {}

    def take(self, event: Event) -> list[Line]:
        """The lines that can be given now that this event is here; none while its stream waits."""
        stream = event.stream
        self._hosts.learn(stream, event.text)
        replica = self._hosts.replica(stream)
        if replica is None and self._hosts.number(stream) is not None:
            return self._wait(event)
        return [*self._release(stream), *_lines(event, replica)]

    def overdue(self) -> list[Line]:
        """PendingLogLines that have waited for too long."""
        now = self._clock()
        late = [stream for stream, since in self._since.items() if now - since >= self._patience]
        return [line for stream in late for line in self._release(stream)]

    def all(self) -> list[Line]:
        """All lines that wait: nothing more will come."""
        return [line for stream in list(self._held) for line in self._release(stream)]

    def waiting_since(self) -> dict[str, int]:
        """The time of the oldest event that waits, by stream."""
        return {stream: min(e.time for e in events) for stream, events in self._held.items()}

    def waiting_ids(self) -> set[bytes]:
        """The events that wait, as a window knows them."""
        return {short(event.id) for events in self._held.values() for event in events}

    def _wait(self, event: Event) -> list[Line]:
        held = self._held.setdefault(event.stream, [])
        self._since.setdefault(event.stream, self._clock())
        held.append(event)
        return self._release(event.stream) if len(held) >= _MOST_HELD else []

    def _release(self, stream: str) -> list[Line]:
        self._since.pop(stream, None)
        events = self._held.pop(stream, [])
        if not events:
            return []
        replica = self._hosts.replica(stream) or self._hosts.guess(stream)
        return [line for event in events for line in _lines(event, replica)]


def _lines(event: Event, replica: str | None) -> Iterator[Line]:
    """An event is one line, unless a container's log driver has put several into it."""
    text = event.text.removesuffix("\n")
    moment = _stamp(event.time)
    for index, part in enumerate(text.split("\n")):
        identity = f"{event.id}.{index}" if index else event.id
        yield Line(moment, identity, replica, "stdout", part)


def _stamp(milliseconds: int) -> str:
    seconds, rest = divmod(max(milliseconds, 0), 1000)
    return f"{_second(min(seconds, _LAST_SECOND))}.{rest:03}000Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _identity(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
