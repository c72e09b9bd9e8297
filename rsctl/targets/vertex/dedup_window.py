"""Deduplication of log entries that are read again: the recent entries that have been returned.

Entries may become visible later than younger ones. So recent entries are read again, and hashes of
64 bits distinguish new entries from returned ones.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from struct import iter_unpack, pack
from typing import Any

MOST = 4096
"""The maximum number of noted entries; readers stop reading ahead before there are more."""

PAGE = 1000
"""The most entries that one reading has."""

_UNKNOWN = ""  # the time of an entry that another reader noted
_FORGOTTEN = 4 * MOST


class DedupWindow:
    """The entries that have already been returned.

    `settled` is the time before which all entries have been returned, with nine digits as
    `nanosecond_time`.
    """

    def __init__(self, cursor: Mapping[str, Any], created: str) -> None:
        self.settled: str = str(cursor.get("settled") or created)
        # A cursor has no room for times. Until such an entry is read again, it cannot be settled.
        self._given = dict.fromkeys(_unpacked(cursor.get("given")), _UNKNOWN)
        # Not in the cursor: only a service that repeats entries out of order makes use of it.
        self._forgotten: deque[int] = deque()
        self._forgotten_set: set[int] = set()

    def __len__(self) -> int:
        return len(self._given)

    def take(self, time: str, insert_id: str) -> bool:
        """Note an entry; returns whether it is new."""
        # An insertId is unique only among the entries of one timestamp.
        key = _hash(f"{time}/{insert_id}")
        is_new = key not in self._given and key not in self._forgotten_set
        if is_new or key in self._given:  # a forgotten one is older than `settled`: no need for it
            self._given[key] = time
        return is_new

    def settle(self, time: str) -> None:
        """Entries older than this are no longer expected."""
        if time <= self.settled:
            return
        self.settled = time
        for key in [key for key, at in self._given.items() if at != _UNKNOWN and at < time]:
            del self._given[key]
            self._forget(key)

    def has_room(self) -> bool:
        """Whether to read beyond the noted entries.

        Some room is kept for late entries between the entries that another reader has noted.
        """
        kept = 0 if self.is_resumed else PAGE
        return len(self._given) + PAGE + kept <= MOST

    @property
    def is_resumed(self) -> bool:
        """Whether another reader has noted entries that this reader has not read yet."""
        return _UNKNOWN in self._given.values()

    def forget_unseen(self) -> None:
        """All entries since `settled` have been read: drop notes of another reader that were not
        confirmed.
        """
        for key in [key for key, at in self._given.items() if at == _UNKNOWN]:
            del self._given[key]

    @property
    def newest(self) -> str:
        """The time of the youngest entry that is noted."""
        return max(self._given.values(), default=self.settled) or self.settled

    @property
    def middle(self) -> str:
        """The median time of the noted entries."""
        times = sorted(self._given.values())
        return (times[len(times) // 2] if times else "") or self.settled

    def cursor(self) -> dict[str, Any]:
        """The cursor: at most some 54 kB, for a log of any length and pace."""
        # One page may come after `has_room` was asked for the last time.
        keys = list(self._given)[-(MOST + PAGE) :]
        packed = base64.b64encode(pack(f"<{len(keys)}Q", *keys)).decode()
        return {"settled": self.settled, "given": packed}

    def _forget(self, key: int) -> None:
        self._forgotten.append(key)
        self._forgotten_set.add(key)
        if len(self._forgotten) > _FORGOTTEN:
            self._forgotten_set.discard(self._forgotten.popleft())


def _hash(text: str) -> int:
    data = text.encode(errors="backslashreplace")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _unpacked(packed: Any) -> list[int]:
    try:
        data = base64.b64decode(str(packed or ""), validate=True)
        return [key for (key,) in iter_unpack("<Q", data)]
    except ValueError:
        return []
