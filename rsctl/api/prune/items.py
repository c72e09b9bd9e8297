"""The items that a prune removes and keeps, and its limits."""

from __future__ import annotations

from typing import Literal, NamedTuple, Optional

import msgspec

from rsctl.findings import JobState
from rsctl.runs.stream.events import now, seconds_between

Kind = Literal["run", "bench", "folder", "bucket", "image"]


class Item(msgspec.Struct, kw_only=True):
    """Something that goes. `size` is in bytes on disk, with the run's part of the database; `runs`
    are those of a bench.

    A folder is what is left of a run or bench that the store does not know any more. A bucket is
    the folder that stands for one in rehearsals. Of an image, `ended` is when it was built.
    """

    kind: Kind
    name: str
    size: int
    state: Optional[JobState] = None
    ended: Optional[str] = None
    runs: list[str] = []


class Kept(NamedTuple):
    """Something that has reached the limits, and why it stays."""

    name: str
    reason: str


class PruneLimits(NamedTuple):
    """The items that are old enough: that ended `seconds` ago, and are not among the `newest` runs.

    With `has_results`, also outputs and checkpoints below RSCTL_HOME.
    """

    seconds: float
    newest: int
    has_results: bool = False

    def is_past(self, ended: str | None) -> bool:
        """Whether something ended long enough ago."""
        return ended is not None and seconds_between(ended, now()) >= self.seconds
