"""The time by Google's clock, because this machine's clock may be wrong."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

_WORTH_CORRECTING = 2.0  # seconds; an HTTP date has whole ones


class ServerClock:
    """Seconds since 1970, at an even pace, corrected by the dates of Google's answers."""

    def __init__(self) -> None:
        self._ahead = time.time() - time.monotonic()

    def now(self) -> float:
        """The present."""
        return time.monotonic() + self._ahead

    def correct(self, date: str | None) -> None:
        """Correct the offset with an answer's `Date` header; ignores an invalid date."""
        try:
            server_time = parsedate_to_datetime(date or "").timestamp()
        except (TypeError, ValueError):
            return
        if abs(server_time - self.now()) > _WORTH_CORRECTING:
            self._ahead = server_time - time.monotonic()
