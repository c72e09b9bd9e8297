"""The log entries of a project's jobs, in order."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from rsctl.runs.stream.events import now
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.log_entries import SERVICE, StoredLogEntry, read_line

_LONGEST = 250 << 10
"""Bytes of text in one entry; the API allows 256 KiB for all of it."""


class LogRange(NamedTuple):
    """Entries of one job, or of all (None), with times within [low, high]."""

    job: str | None = None
    low: str = ""
    high: str = "~"


class LogStore:
    """Entries by job. Lines are written from many threads."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._entries: dict[str, list[StoredLogEntry]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def write(self, job: str, task: str, stream: str, text: str, at: str | None = None) -> None:
        """A line of a container; a very long one becomes several entries."""
        for piece in _pieces(text):
            severity, payload, is_json = read_line(task, stream, piece, self._behaviour.payload)
            self._append(job, task, severity, payload, is_json, at or now())

    def write_service_entry(
        self, job: str, text: str, severity: str = "INFO", state: str = ""
    ) -> None:
        """An entry of the service itself on a job."""
        self._append(job, SERVICE, severity, text, False, now(), state)

    def entries(self, span: LogRange, is_descending: bool, after: tuple[str, str] | None = None,
                ) -> Iterator[StoredLogEntry]:  # fmt: skip
        """The entries that are readable now, in order of (time, insertId), after the key
        `after`.
        """
        present = time.monotonic()
        with self._lock:
            jobs = [span.job] if span.job is not None else list(self._entries)
            parts = [_slice(self._entries.get(job, []), span, is_descending, after) for job in jobs]
        found = heapq.merge(*parts, key=_key, reverse=is_descending)
        return (entry for entry in found if entry.visible <= present)

    def errors(self, job: str, task: str, most: int) -> list[str]:
        """The last texts that a replica has written to stderr, whether they can be read or not."""
        with self._lock:
            entries = reversed(self._entries.get(job, []))
            errors = (e.payload for e in entries if e.task == task and e.severity == "ERROR")
            return list(itertools.islice(errors, most))[::-1]

    def drop(self, job: str) -> None:
        """Forget a job's entries."""
        with self._lock:
            self._entries.pop(job, None)

    def _append(
        self, job: str, task: str, severity: str, payload: str, is_json: bool, at: str,
        state: str = "",
    ) -> None:  # fmt: skip
        kept = self._behaviour
        with self._lock:
            number = next(self._numbers)
            is_late = kept.late_every > 0 and number % kept.late_every == 0
            delay = (kept.late_by if is_late else kept.ingest) * kept.pace
            entry = StoredLogEntry(at, f"e{number:011x}", job, task, severity, payload, is_json,
                          time.monotonic() + delay, state)  # fmt: skip
            entries = self._entries.setdefault(job, [])
            if entries and _key(entries[-1]) > _key(entry):
                insort(entries, entry, key=_key)
            else:
                entries.append(entry)


def _slice(
    entries: list[StoredLogEntry],
    span: LogRange,
    is_descending: bool,
    after: tuple[str, str] | None,
) -> Iterator[StoredLogEntry]:
    """The entries of one job, a copy: late ones are inserted while others read."""
    first = bisect_left(entries, (span.low, ""), key=_key)
    last = bisect_left(entries, (span.high, "~"), key=_key)
    if after is not None and is_descending:
        last = min(last, bisect_left(entries, after, key=_key))
    elif after is not None:
        first = max(first, bisect_left(entries, (after[0], after[1] + "\0"), key=_key))
    part = entries[first:last]
    return reversed(part) if is_descending else iter(part)


def _key(entry: StoredLogEntry) -> tuple[str, str]:
    return (entry.time, entry.insert_id)


def _pieces(text: str) -> Iterator[str]:
    """Parts that fit into an entry, cut between characters."""
    content = text.encode(errors="replace")
    if len(content) <= _LONGEST:
        yield text
        return
    while content:
        end = _LONGEST
        while end < len(content) and content[end] & 0xC0 == 0x80:
            end -= 1
        yield content[:end].decode(errors="replace")
        content = content[end:]
