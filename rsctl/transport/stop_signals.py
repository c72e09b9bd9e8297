"""Signals that ask a process to end, waited for without a lock.

`threading.Event` would not do: its `set` takes a lock that the main thread holds now and then in
its `wait`, so that a handler which came then would wait for itself, forever.
"""

from __future__ import annotations

import os
import select
import signal


class StopSignals:
    """Handles these signals from now on; main thread only, one at a time."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = frozenset(numbers)
        self._have_come = False
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float | None = None) -> bool:
        """Whether one has come; waits as long for it, unless another signal ends the wait."""
        if not self._have_come and select.select([self._woken], [], [], seconds)[0]:
            self._have_come = not self._numbers.isdisjoint(os.read(self._woken, 4096))
        return self._have_come
