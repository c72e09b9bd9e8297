"""The time of the next request for a page of a log: intervals within the API's quota.

FilterLogEvents has a quota of 5 requests a second for an account and region, which other clients
use too. So rsctl makes at most two a second while there are further pages, and otherwise one in 1
to 10 seconds: soon while lines arrive, and after many pages as long as these have taken.
"""

from __future__ import annotations

import random
from collections.abc import Callable

_PAGE = 0.5
_SHORTEST, _LONGEST = 1.0, 10.0
_LONGEST_AT_START, _LONGEST_AT_END = 5.0, 2.0
_GROWTH = 1.5
_FIRST_BACKOFF, _LONGEST_BACKOFF = 2.0, 30.0
_DEEP = 60.0


class PageTimer:
    """Times the requests for one log. Intervals are in seconds, and scaled by `factor`."""

    def __init__(self, factor: float, clock: Callable[[], float]) -> None:
        self._factor = factor
        self._clock = clock
        self._next = clock()
        self._wait = _SHORTEST
        self._backoff = 0.0
        self._has_lines = self._is_finishing = False
        self._deep_at = clock()  # another reader may have left late lines

    def is_due(self) -> bool:
        """Whether a request may be made."""
        return self._clock() >= self._next

    def page_follows(self) -> None:
        """There is a further page."""
        self._backoff = 0.0
        self._after(_PAGE)

    def pass_ended(self, pages: int, has_lines: bool) -> None:
        """A pass of so many pages has ended; `has_news` says whether they had new lines."""
        self._backoff = 0.0
        self._has_lines = self._has_lines or has_lines
        longest = _LONGEST if self._has_lines else _LONGEST_AT_START
        longest = _LONGEST_AT_END if self._is_finishing else longest
        self._wait = _SHORTEST if has_lines else min(self._wait * _GROWTH, longest)
        self._after(max(self._wait, min(pages * _PAGE, _LONGEST) if pages > 1 else 0.0))

    def back_off(self) -> None:
        """Record a missing answer, or an answer that asks the client to retry later."""
        self._backoff = min(max(self._backoff * 2, _FIRST_BACKOFF), _LONGEST_BACKOFF)
        self._after(self._backoff * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    def finish(self) -> None:
        """The job has ended: the next request is due immediately, unless it backs off, and then
        often.
        """
        self._is_finishing = True
        self._wait = _SHORTEST
        if not self._backoff:
            self._next = min(self._next, self._clock() + _PAGE * self._factor)

    def is_deep_pass_due(self) -> bool:
        """Whether the next pass goes far back; if so, not again for a minute."""
        if self._clock() < self._deep_at:
            return False
        self._deep_at = self._clock() + _DEEP * self._factor
        return True

    def _after(self, seconds: float) -> None:
        self._next = self._clock() + seconds * self._factor
