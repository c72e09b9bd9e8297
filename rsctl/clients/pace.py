"""How long calls to a cloud wait for one another."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

PACE = "RSCTL_CLOUD_PACE"
"""Environment variable: a factor on every wait below, such as 0.01 against an emulator."""

_LONGEST_ASKED = 60.0


@dataclass(frozen=True)
class Pace:
    """Waits in seconds: between two looks at a build, and between two tries of a call."""

    first_look: float = 1.0
    longest_look: float = 6.0
    first_retry: float = 1.0
    longest_retry: float = 30.0
    tries: int = 7
    factor: float = 1.0
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of_environment(cls) -> Pace:
        """The usual pace, times RSCTL_CLOUD_PACE where that is a number."""
        try:
            factor = float(os.environ.get(PACE, "1"))
        except ValueError:
            factor = 1.0
        return cls(factor=max(factor, 0.0))

    def looks(self) -> Iterator[None]:
        """Come again and again, each time after a somewhat longer wait."""
        wait = self.first_look
        while True:
            yield
            self._wait(wait)
            wait = min(wait * 1.3, self.longest_look)

    def before_retry(self, attempt: int, asked: str | None = None) -> None:
        """Wait before try `attempt` (from 1), at random within bounds that double each time.

        `asked` is a Retry-After header: a number of seconds is waited for, up to a minute.
        """
        bound = min(self.first_retry * 2.0**attempt, self.longest_retry)
        least = min(float(asked), _LONGEST_ASKED) if asked and asked.isdecimal() else 0.0
        self._wait(least + random.uniform(0.0, bound))  # noqa: S311 - jitter

    def _wait(self, seconds: float) -> None:
        self.sleep(seconds * self.factor)
