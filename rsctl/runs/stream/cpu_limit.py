"""A limit on the CPU time of code that cannot be trusted to end, such as a user's regex.

Python's `re` takes exponential time on some expressions, holds the interpreter meanwhile, and can
only be stopped by a signal: it looks for them while it matches. The timer counts this process's
own CPU time, so that a busy machine does not shorten it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

BURST_SECONDS = 0.5
"""CPU seconds that may be used without a pause."""

PER_CHARACTER = 5e-6
"""CPU seconds that each character of the input adds, up to `BURST_SECONDS`."""


class TooSlow(Exception):
    """The time is used up; the function was stopped in the middle."""


class CpuLimit:
    """Allows `BURST_SECONDS`, refilled by the size of the input.

    It holds in the main thread only, where signals arrive; in others it runs without a limit.
    """

    def __init__(self) -> None:
        self._credit = BURST_SECONDS

    def run(self, size: int, function: Callable[[], T]) -> T:
        """Call the function, whose input has `size` characters. Raises TooSlow."""
        if threading.current_thread() is not threading.main_thread():
            return function()
        if signal.getsignal(signal.SIGVTALRM) is not _ALARM.ring:
            signal.signal(signal.SIGVTALRM, _ALARM.ring)
        self._credit = min(BURST_SECONDS, self._credit + size * PER_CHARACTER)
        _ALARM.is_armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, self._credit)
        try:
            return function()
        finally:
            _ALARM.is_armed = False
            self._credit, _ = signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class _Alarm:
    def __init__(self) -> None:
        self.is_armed = False
        self.ring = self._ring  # one object, to compare with the result of `signal`

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_armed:
            self.is_armed = False
            raise TooSlow


_ALARM = _Alarm()
