"""The items that a prune removes and keeps, and its limits."""

from __future__ import annotations

from typing import Literal, NamedTuple, Optional

import msgspec

from rsctl.findings import JobState
from rsctl.runs.stream.events import now, seconds_between

Kind = Literal["run", "bench", "folder", "bucket", "image", "checkout", "bisect"]


class Item(msgspec.Struct, kw_only=True):
    """An item to remove. `size` is in bytes on disk, with the run's part of the database; `runs`
    are the runs of a bench.

    A folder belongs to a run or bench that is no longer in the store. A bucket is the folder that
    stands for a bucket in rehearsals. A checkout has the files of a commit, the baseline of paired
    gates or a commit of a bisection. A bisect is the state of a search that has not ended. The
    `ended` of an image is the time of its build, that of a checkout its last use.
    """

    kind: Kind
    name: str
    size: int
    state: Optional[JobState] = None
    ended: Optional[str] = None
    runs: list[str] = []


class Kept(NamedTuple):
    """An item that has reached the limits, and why it is kept."""

    name: str
    reason: str


class PruneLimits(NamedTuple):
    """The limits: an item is removed if it ended `seconds` ago and is not among the `newest` runs.

    With `has_results`, also outputs and checkpoints below RSCTL_HOME.
    """

    seconds: float
    newest: int
    has_results: bool = False

    def is_past(self, ended: str | None) -> bool:
        """Whether something ended long enough ago."""
        return ended is not None and seconds_between(ended, now()) >= self.seconds
