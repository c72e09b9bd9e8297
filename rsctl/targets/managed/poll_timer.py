"""When something is polled again: at growing intervals."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class PollTimer:
    """Is due at once, and after each poll when an interval has passed that grows.

    Intervals are in seconds, and multiplied by `time_scale`.
    """

    def __init__(
        self,
        time_scale: float,
        first: float,
        longest: float,
        growth: float = 1.3,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._first, self._longest = first * time_scale, longest * time_scale
        self._growth = growth
        self._clock = clock
        self._interval = self._first
        self._due = clock()

    def is_due(self) -> bool:
        """Whether it is time."""
        return self._clock() >= self._due

    def restart(self, is_news: bool = False) -> None:
        """A poll was made; after news the next is due soon."""
        self._interval = (
            self._first if is_news else min(self._interval * self._growth, self._longest)
        )
        self._due = self._clock() + self._interval

    def expire(self) -> None:
        """Be due at once, and soon again."""
        self._interval, self._due = self._first, self._clock()
