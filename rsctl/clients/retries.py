"""How long clients wait: before another try of a call, and between two polls."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rsctl.clients.endpoints import Endpoints

_LONGEST_ASKED = 60.0


@dataclass(frozen=True)
class RetryPolicy:
    """Waits in seconds, all of them times `time_scale`; `tries` is how often a call is made."""

    first_poll: float = 1.0
    longest_poll: float = 6.0
    first_retry: float = 1.0
    longest_retry: float = 30.0
    tries: int = 7
    time_scale: float = 1.0
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of(cls, endpoints: Endpoints, tries: int = 7) -> RetryPolicy:
        """The usual waits at the scale of some endpoints."""
        return cls(tries=tries, time_scale=endpoints.time_scale)

    def polls(self) -> Iterator[None]:
        """Come again and again, each time after a somewhat longer wait."""
        wait = self.first_poll
        while True:
            yield
            self._wait(wait)
            wait = min(wait * 1.3, self.longest_poll)

    def before_retry(self, attempt: int, asked: str | None = None) -> None:
        """Wait before try `attempt` (from 1), at random within bounds that double each time.

        `asked` is a Retry-After header: a number of seconds is waited for, up to a minute.
        """
        bound = min(self.first_retry * 2.0**attempt, self.longest_retry)
        least = min(float(asked), _LONGEST_ASKED) if asked and asked.isdecimal() else 0.0
        self._wait(least + random.uniform(0.0, bound))  # noqa: S311 - jitter

    def _wait(self, seconds: float) -> None:
        self.sleep(seconds * self.time_scale)
