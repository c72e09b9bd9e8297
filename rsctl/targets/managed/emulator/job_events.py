"""Events of a job, in a queue for its thread."""

from __future__ import annotations

import queue
import time
from typing import NamedTuple, Optional, Union

_LONGEST_WAIT = 3600.0


class NodeExited(NamedTuple):
    """The node of this name has ended."""

    name: str
    code: int


class Preempt(NamedTuple):
    """This machine is taken away, the last one if none is named."""

    machine: Optional[str]


class Cancel(NamedTuple):
    """The job must end."""


class _Close(NamedTuple):
    pass


Event = Union[NodeExited, Preempt, Cancel]


class Closed(Exception):
    """The emulator ends, and the job's thread with it."""


class EventQueue:
    """The events of one job: written by many threads, read by the job's."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event | _Close] = queue.SimpleQueue()
        self.is_cancelled = False

    def put(self, event: Event) -> None:
        """Add an event."""
        self._events.put(event)

    def close(self) -> None:
        """Make all waiting threads raise Closed."""
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
        """Wait until a time; False at once if the job is cancelled. Raises Closed."""
        while not self.is_cancelled and time.monotonic() < until:
            self.next(until)
        return not self.is_cancelled

    def sleep(self, until: float) -> None:
        """Wait until a time, also if the job is cancelled. Raises Closed."""
        while time.monotonic() < until:
            self.next(until)
