"""How many requests a minute, or in another time, an emulator takes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_MINUTE = 60.0


class RequestLimit:
    """Counts the requests of the last `span` seconds."""

    def __init__(self, span: float = _MINUTE, now: Callable[[], float] = time.monotonic) -> None:
        self._span = span
        self._now = now
        self._times: deque[float] = deque()
        self._lock = threading.Lock()

    def allows(self, limit: int, pace: float) -> bool:
        """Whether one more is within the limit; if so it counts. `pace` is a factor on the span."""
        now = self._now()
        with self._lock:
            while self._times and self._times[0] <= now - self._span * pace:
                self._times.popleft()
            if len(self._times) >= limit:
                return False
            self._times.append(now)
            return True
