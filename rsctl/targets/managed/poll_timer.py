"""When to ask again."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from rsctl.clients.pace import Pace


class PollTimer:
    """Something that is asked now and then: first at once, then after waits that grow.

    Waits are in seconds, and scaled by the pace's factor.
    """

    def __init__(
        self,
        pace: Pace,
        first: float,
        longest: float,
        growth: float = 1.3,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._first, self._longest = first * pace.factor, longest * pace.factor
        self._growth = growth
        self._clock = clock
        self._wait = self._first
        self._next = clock()

    def is_now(self) -> bool:
        """Whether it is time."""
        return self._clock() >= self._next

    def done(self, is_news: bool = False) -> None:
        """It was asked; after news it is asked again soon."""
        self._wait = self._first if is_news else min(self._wait * self._growth, self._longest)
        self._next = self._clock() + self._wait

    def now(self) -> None:
        """Have it asked at once, and soon again."""
        self._wait, self._next = self._first, self._clock()
