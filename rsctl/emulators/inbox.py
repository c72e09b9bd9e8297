"""What happens to a job from outside its thread, one thing after the other."""

from __future__ import annotations

import queue
import time
from typing import NamedTuple, Optional, Union

_LONGEST_WAIT = 3600.0


class Ended(NamedTuple):
    """The node of this name has ended."""

    name: str
    code: int


class Preempt(NamedTuple):
    """This machine is taken away, the last one if none is named."""

    machine: Optional[str]


class Cancel(NamedTuple):
    """Somebody wants the job to end."""


class _Close(NamedTuple):
    pass


Event = Union[Ended, Preempt, Cancel]


class Closed(Exception):
    """The emulator ends: no more is to be said or done."""


class Inbox:
    """Events for one thread, from many."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event | _Close] = queue.SimpleQueue()
        self.is_cancelled = False

    def put(self, event: Event) -> None:
        """Have something heard of."""
        self._events.put(event)

    def close(self) -> None:
        """Make whoever waits raise Closed."""
        self._events.put(_Close())

    def next(self, until: float) -> Event | None:
        """The next event, or None at a time of the monotonic clock. Raises Closed."""
        wait = min(max(until - time.monotonic(), 0.0), _LONGEST_WAIT)
        try:
            event = self._events.get(timeout=wait) if wait else self._events.get_nowait()
        except queue.Empty:
            return None
        if isinstance(event, _Close):
            raise Closed
        self.is_cancelled |= isinstance(event, Cancel)
        return event

    def wait(self, until: float) -> bool:
        """Let a time come; False at once if the job is to end. Raises Closed."""
        while not self.is_cancelled and time.monotonic() < until:
            self.next(until)
        return not self.is_cancelled

    def sleep(self, until: float) -> None:
        """Let a time come, whoever wants the job to end. Raises Closed."""
        while time.monotonic() < until:
            self.next(until)
