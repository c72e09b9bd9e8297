"""How long to wait for machines that a target does not have at the moment."""

from __future__ import annotations

import random

from rsctl.bench.active_run import CAPACITY
from rsctl.findings import RsctlError

_FIRST, _LONGEST = 15.0, 120.0
_PATIENCE = 600.0


class Backoff:
    """Waits that double, each at random between half and all of it.

    `patience` is how long in seconds to continue while none of the bench's own runs can be waited
    for; 10 minutes by default. `factor` scales all waits. Times are of the caller's clock.
    """

    def __init__(self, patience: float | None, factor: float) -> None:
        self._patience = (patience or _PATIENCE) * factor
        self._factor = factor
        self.reset()

    def reset(self) -> None:
        """Machines were had, or have become free."""
        self._until = 0.0
        self._bound = _FIRST
        self._since: float | None = None

    def is_over(self, now: float) -> bool:
        """Whether it is time to try again."""
        return now >= self._until

    def is_about(self, problem: RsctlError) -> bool:
        """Whether a refusal means that no machines are available."""
        return any(finding.code in CAPACITY for finding in problem.findings)

    def wait(self, now: float, others_run: bool) -> float | None:
        """Wait from now on; how many seconds, or None if it has been long enough.

        While `others_run`, machines will become free.
        """
        self._since = now if others_run or self._since is None else self._since
        if now - self._since > self._patience:
            return None
        seconds = random.uniform(self._bound / 2, self._bound) * self._factor  # noqa: S311 - jitter
        self._until = now + seconds
        self._bound = min(self._bound * 2, _LONGEST)
        return seconds
