"""Merges sources, each in order of time, into one stream in order of time.

Each source is read a block at a time, so memory does not grow with the length of the logs. Events
older than every source's frontier are returned; the sort merges the sources' buffers, which are
already in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

_time = attrgetter("time")
_LOW_WATER = 200  # lines left of a source below which its next block is read


class Timed(Protocol):
    """An object with a time."""

    @property
    def time(self) -> str:
        """RFC 3339, as of all events."""


T = TypeVar("T", bound=Timed)
T_co = TypeVar("T_co", bound=Timed, covariant=True)


class EventSource(Protocol[T_co]):
    """Events in order of time."""

    def read(self) -> Sequence[T_co]:
        """The next block, empty if there is nothing new (yet)."""


class OrderedMerge(Generic[T]):
    """Merges sources; buffers each source's events until the others have reached their time."""

    def __init__(self, sources: Sequence[EventSource[T]]) -> None:
        self._sources = sources
        self._buffers: list[list[T]] = [[] for _ in sources]
        self._latest = [""] * len(sources)

    def read(self, horizon: str | None) -> list[T]:
        """The events whose order is final by now; may be empty.

        `horizon` is the time up to which a source that has nothing new is believed to be
        complete; None means that nothing more is written at all.
        """
        frontier = [f for f in map(self._fill, range(len(self._sources))) if f is not None]
        if horizon is not None:
            frontier.append(horizon)
        watermark = min(frontier, default=None)
        ready: list[T] = []
        for index, buffer in enumerate(self._buffers):
            end = len(buffer) if watermark is None else bisect_right(buffer, watermark, key=_time)
            ready += buffer[:end]
            self._buffers[index] = buffer[end:]
        ready.sort(key=_time)
        return ready

    def waiting(self, index: int) -> list[T]:
        """The lines that have been read from a source and not yet returned."""
        return self._buffers[index]

    def _fill(self, index: int) -> str | None:
        """Top up a source's buffer; returns its frontier, or None if it has nothing more."""
        buffer = self._buffers[index]
        if len(buffer) < _LOW_WATER:
            block = self._sources[index].read()
            if not block:
                return None
            buffer += block
            # Not the last one's: the clock may have gone back between two states.
            self._latest[index] = max(self._latest[index], *map(_time, block))
        return self._latest[index]
