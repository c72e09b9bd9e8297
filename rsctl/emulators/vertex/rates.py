"""Requests a minute, and the answer to one too many."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_MINUTE = 60.0


class Rate:
    """Counts the requests of the last minute; a minute is 60 seconds times a factor."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._times: deque[float] = deque()
        self._lock = threading.Lock()

    def take(self, limit: int, pace: float) -> bool:
        """Whether one more is within the limit; if so it counts."""
        now = self._now()
        with self._lock:
            while self._times and self._times[0] <= now - _MINUTE * pace:
                self._times.popleft()
            if len(self._times) >= limit:
                return False
            self._times.append(now)
            return True


def exceeded(service: str, metric: str, limit: str, number: str) -> tuple[str, list[Any]]:
    """The message and the details of a 429; `number` is the project's. No Retry-After comes."""
    consumer = f"projects/{number}"
    message = (
        f"Quota exceeded for quota metric '{metric}' and limit '{metric} per minute' of service "
        f"'{service}' for consumer 'project_number:{number}'."
    )
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "googleapis.com",
        "metadata": {"service": service, "consumer": consumer, "quota_limit": limit},
    }
    return message, [detail]
