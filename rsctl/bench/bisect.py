"""A search for the first bad one of several commits, some of which may not be testable.

The order is the one of `git bisect`: the middle of what remains; next to a commit that has to be
skipped, the nearest one that has not been tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Optional


class Mark(str, Enum):
    """The result of a commit."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


class Remaining(NamedTuple):
    """How far a search is: the first bad commit is after `good` and not after `bad`.

    `next` is the index to test, None at the end. `tests` is how many more there are about.
    """

    good: int
    bad: int
    next: Optional[int]
    tests: int

    @property
    def suspects(self) -> range:
        """The indexes of the commits that may be the first bad one."""
        return range(self.good + 1, self.bad + 1)


def remaining(count: int, marks: Mapping[int, Mark]) -> Remaining:
    """The state of a search in so many commits, of which the first is good and the last bad."""
    bad = min((i for i, mark in marks.items() if mark is Mark.BAD), default=count - 1)
    earlier = (i for i, mark in marks.items() if mark is Mark.GOOD and i < bad)
    good = max(earlier, default=0)
    middle = (good + bad) / 2
    open_ones = [i for i in range(good + 1, bad) if marks.get(i) is not Mark.SKIPPED]
    chosen = min(open_ones, key=lambda i: (abs(i - middle), i), default=None)
    return Remaining(good, bad, chosen, len(open_ones).bit_length())
