"""Deduplication of log events: the events that have been read, and the time to read again from.

Events come late: a host's agent sends them in batches, and hosts lag behind each other. So every
pass over the log begins before the newest known event, and the ids of read events are kept. A pass
begins as far back as it can without a further request, since a page holds many events; in a flood
of lines it begins some seconds back, and now and then two minutes.

A cursor cannot have all ids. For the other events it has the last read time of each stream, since
an agent sends the events of one stream in their order. That is not enough for the newest events: if
a batch arrives in the middle of a pass, this pass reads its later part, and the next pass its
beginning. The `low` of a stream is the time up to which it has been read without such a gap.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

SHALLOW, GAPS, DEEP, DEEPEST = 10_000, 30_000, 120_000, 300_000
"""How far back passes go, in milliseconds: in a flood, for gaps, now and then, and at most."""

_FREE = 2000  # events that are always read again, and ids that a cursor always has
_MOST_IN_CURSOR = 20_000  # ids
_MOST = 200_000  # events whose ids are kept
_MOST_MARKS = 2000  # streams
_SLICE = 100  # milliseconds
_ID_BYTES = 6  # enough to distinguish the events of one slice


_Low = tuple[int, frozenset[bytes]]


class DedupWindow:
    """Times are milliseconds since 1970, as in CloudWatch.

    IDs are kept as hashes, in slices of a tenth of a second. `floor` is the time from which all
    entries read are known; nothing before it is ever read. `kept` is a cursor: from `sure` on its
    IDs are complete, before that its marks count.
    """

    def __init__(self, floor: int, kept: Mapping[str, Any] | None = None) -> None:
        kept = kept or {}
        self.floor = self.newest = int(kept.get("floor", floor))
        self._sure = int(kept.get("sure", self.floor))
        self._marks = {s: (int(t), set(_pieces(ids))) for s, (t, ids) in _items(kept, "marks")}
        lows = {s: (int(t), frozenset(_pieces(ids))) for s, (t, ids) in _items(kept, "lows")}
        self._lows: dict[str, _Low] = lows
        self._read_before = dict(lows)
        self._slices = {int(index): set(_pieces(ids)) for index, ids in _items(kept, "seen")}
        self._count = sum(map(len, self._slices.values()))
        self.newest = max([self.newest, *(index * _SLICE for index in self._slices)])

    def take(self, identity: str, stream: str, time: int, ingested: int) -> bool:
        """Whether an event is new; records it.

        A host's clock may run ahead, so an event's time is limited by the service's time.
        """
        key = event_key(identity)
        # Ids from before `sure` did not fit into the cursor. The stream's order stands in for them.
        if time < self._sure and stream in self._read_before:
            until, last = self._read_before[stream]
            if time < until or key in last:
                return False
        ids = self._slices.setdefault(time // _SLICE, set())
        if key in ids:
            return False
        ids.add(key)
        self._count += 1
        self.newest = max(self.newest, min(time, ingested))
        until, last_ones = self._marks.get(stream, (-1, set()))
        # Events of one stream may share a millisecond: their ids tell which were read.
        if time > until:
            self._marks[stream] = (time, {key})
        elif time == until:
            last_ones.add(key)
        return True

    def begin(self, is_deep: bool) -> int:
        """Begin a pass: the time where it starts; removes entries that no pass needs."""
        self._forget()
        count, start = 0, self.newest - SHALLOW
        for index in self._newest_first():
            count += len(self._slices[index])
            if count > _FREE:
                break
            start = min(start, index * _SLICE)
        else:  # one page holds all: to read as far back as is allowed costs no further request
            start = self.newest - DEEPEST
        start = min(start, max(self._first_gap(), self.newest - GAPS))
        if is_deep:
            start = min(start, self.newest - DEEP)
        self._least = self.newest - DEEP
        self._reached = self._current_marks()
        self._start = max(start, self.newest - DEEPEST, self.floor)
        return self._start

    def end(self) -> None:
        """End the pass: events known at its start now have no gap in the part that it read."""
        # The marks of the pass's begin, not those of now: a batch that came in the middle of the
        # pass may have events before the point where the pass already was.
        for stream, mark in self._reached.items():
            if self._start <= max(self._low(stream), self._least):
                self._lows[stream] = mark

    def cursor(self, held: Container[str], without: set[bytes]) -> dict[str, Any]:
        """The position where another reader continues, with a bounded number of IDs.

        `held` are streams to read again from before the floor, `without` the IDs of their entries
        that were read and not returned.
        """
        gap = self._first_gap()
        seen, seen_since = self._newest_ids(gap, without)
        # Where the ids do not reach back to the gap, the next reader could not know what it reads
        # twice there. It must not read the gap again then, and so the marks become the lows.
        lows = self._lows if seen_since <= gap else self._current_marks()
        sure = max(seen_since, self.newest - DEEPEST, self.floor, self._sure)
        floor = min(sure, max(self.newest - DEEP, self.floor))
        marks = {
            stream: (time, ids)
            for stream, (time, ids) in self._marks.items()
            if not ids & without and (stream in held or floor <= time)
        }
        return {
            "floor": floor,
            "sure": sure,
            "seen": {str(index): _text(ids) for index, ids in seen.items()},
            "marks": {stream: [time, _text(ids)] for stream, (time, ids) in marks.items()},
            "lows": {s: [lows[s][0], _text(lows[s][1])] for s in marks if s in lows},
        }

    def _newest_ids(self, gap: int, without: set[bytes]) -> tuple[dict[int, set[bytes]], int]:
        """The newest ids, as many as a cursor may have, by slice; and from which time they are
        complete.

        A cursor has more room for those since the first gap, which will be read again.
        """
        newest: dict[int, set[bytes]] = {}
        count = 0
        for index in self._newest_first():
            ids, end = self._slices[index] - without, (index + 1) * _SLICE
            count += len(ids)
            if newest and count > (_MOST_IN_CURSOR if end > gap else _FREE):
                return newest, end
            if ids:
                newest[index] = ids
        return newest, self.newest - DEEPEST

    def _current_marks(self) -> dict[str, _Low]:
        return {stream: (time, frozenset(ids)) for stream, (time, ids) in self._marks.items()}

    def _first_gap(self) -> int:
        """The time from which unread events may exist before read ones."""
        gaps = [
            self._low(stream)
            for stream, (time, _) in self._marks.items()
            if stream not in self._lows or time > self._low(stream)
        ]
        return max(min(gaps, default=self.newest), self.newest - DEEP)

    def _low(self, stream: str) -> int:
        return self._lows[stream][0] if stream in self._lows else self.floor

    def _newest_first(self) -> Iterator[int]:
        return iter(sorted(self._slices, reverse=True))

    def _forget(self) -> None:
        """Drop entries that no pass reaches any longer, and the oldest if there are too many."""
        least = (self.newest - DEEPEST) // _SLICE
        for index in sorted(self._slices):
            if index >= least and self._count <= _MOST:
                break
            self._count -= len(self._slices.pop(index))
            self.floor = max(self.floor, (index + 1) * _SLICE)
        by_age = sorted(self._marks, key=lambda stream: self._marks[stream][0])
        for stream in by_age[:-_MOST_MARKS]:
            del self._marks[stream]
            self._lows.pop(stream, None)


def event_key(identity: str) -> bytes:
    """An event's id as a hash."""
    return hashlib.blake2b(identity.encode(), digest_size=_ID_BYTES).digest()


def _items(kept: Mapping[str, Any], name: str) -> Any:
    return kept.get(name, {}).items()


def _pieces(text: str) -> Iterator[bytes]:
    ids = base64.b64decode(text)
    return (ids[start : start + _ID_BYTES] for start in range(0, len(ids), _ID_BYTES))


def _text(ids: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(ids))).decode()
