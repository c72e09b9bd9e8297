"""Log lines of CloudWatch, held back until their stream's replica is known.

They wait for a limited time and up to a limited number; then their host gets a guessed name.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from rsctl.runs.stream.events import LogEvent
from rsctl.targets.managed.service import SERVICE
from rsctl.targets.sagemaker.dedup_window import event_key
from rsctl.targets.sagemaker.hosts import Hosts

_LONGEST_WAIT = 60.0
_MOST_WAITING = 2000
_LAST_SECOND = 253_402_300_799  # of the year 9999


class LogEntry(NamedTuple):
    """One entry of the log. Times in milliseconds since 1970."""

    id: str
    stream: str
    time: int
    ingested: int
    text: str

    @classmethod
    def of(cls, entry: dict[str, Any]) -> LogEntry:
        """From FilterLogEvents' answer; an entry without an id gets one from its content."""
        stream, text = str(entry.get("logStreamName", "")), str(entry.get("message", ""))
        moment = int(entry.get("timestamp", 0))
        identity = entry.get("eventId") or _identity(f"{stream} {moment} {text}")
        return cls(str(identity), stream, moment, int(entry.get("ingestionTime", moment)), text)


class PendingLogLines:
    """Turns log entries into lines, in the order of arrival.

    `wait_factor` scales how many seconds a line waits for its host's replica.
    """

    def __init__(
        self, hosts: Hosts, wait_factor: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._hosts = hosts
        self._longest_wait = _LONGEST_WAIT * wait_factor
        self._clock = clock
        self._waiting: dict[str, list[LogEntry]] = {}
        self._since: dict[str, float] = {}

    def take(self, event: LogEntry) -> list[LogEvent]:
        """The lines that can be returned after this event; none while its stream waits."""
        stream = event.stream
        self._hosts.examine(stream, event.text)
        replica = self._hosts.replica(stream)
        if replica is None and self._hosts.number(stream) is not None:
            return self._wait(event)
        return [*self._release(stream), *_lines(event, replica)]

    def take_overdue(self) -> list[LogEvent]:
        """The lines that have waited for too long."""
        now = self._clock()
        late = [
            stream for stream, since in self._since.items() if now - since >= self._longest_wait
        ]
        return [line for stream in late for line in self._release(stream)]

    def take_all(self) -> list[LogEvent]:
        """All waiting lines, after the last event."""
        return [line for stream in list(self._waiting) for line in self._release(stream)]

    def oldest_waiting(self) -> dict[str, int]:
        """The time of the oldest event that waits, by stream."""
        return {stream: min(e.time for e in events) for stream, events in self._waiting.items()}

    def waiting_ids(self) -> set[bytes]:
        """The keys of the waiting events, as in the window."""
        return {event_key(event.id) for events in self._waiting.values() for event in events}

    def _wait(self, event: LogEntry) -> list[LogEvent]:
        waiting = self._waiting.setdefault(event.stream, [])
        self._since.setdefault(event.stream, self._clock())
        waiting.append(event)
        return self._release(event.stream) if len(waiting) >= _MOST_WAITING else []

    def _release(self, stream: str) -> list[LogEvent]:
        self._since.pop(stream, None)
        events = self._waiting.pop(stream, [])
        if not events:
            return []
        replica = self._hosts.replica(stream) or self._hosts.guess(stream)
        return [line for event in events for line in _lines(event, replica)]


def _lines(event: LogEntry, replica: str | None) -> Iterator[LogEvent]:
    """An event is one line, unless a container's log driver has put several into it."""
    text = event.text.removesuffix("\n")
    moment = _stamp(event.time)
    for index, part in enumerate(text.split("\n")):
        identity = f"{event.id}.{index}" if index else event.id
        yield LogEvent(moment, replica or SERVICE, identity, "stdout", part)


def _stamp(milliseconds: int) -> str:
    seconds, rest = divmod(max(milliseconds, 0), 1000)
    return f"{_second(min(seconds, _LAST_SECOND))}.{rest:03}000Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _identity(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
