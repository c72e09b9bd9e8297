"""The time of the next poll, at growing intervals."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class PollTimer:
    """Is due immediately, and again when an interval has passed that grows with each poll.

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
        """Whether a poll is due."""
        return self._clock() >= self._due

    def restart(self, is_news: bool = False) -> None:
        """Record a poll; after changes the next is due soon."""
        self._interval = (
            self._first if is_news else min(self._interval * self._growth, self._longest)
        )
        self._due = self._clock() + self._interval

    def expire(self) -> None:
        """Make the next poll due immediately, and another one soon."""
        self._interval, self._due = self._first, self._clock()
