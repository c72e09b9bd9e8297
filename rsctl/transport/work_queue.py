"""Handles of operations under way, and the thread that calls their callbacks."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

from rsctl.transport.engine_interface import ClientEngine
from rsctl.transport.errors import TransportError

Callback = Callable[["QueuedAllReduce"], None]


class QueuedAllReduce:
    """One all-reduce."""

    def __init__(self, queue: WorkQueue, sequence: int) -> None:
        self._queue = queue
        self.sequence = sequence
        """The operation's number, from 1, the same on all workers."""

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the buffer holds the result.

        Raises TransportError if the operation failed, and TimeoutError after `timeout` seconds;
        then the operation continues.
        """
        if not self._queue.engine.wait(self.sequence, timeout):
            self._queue.check()
            raise TimeoutError(f"operation {self.sequence} is not finished after {timeout} s")

    def done(self) -> bool:
        """Whether the buffer holds the result."""
        return self._queue.engine.completed >= self.sequence

    def error(self) -> TransportError | None:
        """Why it failed; None if it is done or still under way."""
        return None if self.done() else self._queue.error()

    def on_done(self, callback: Callback) -> None:
        """Call this with the work when it is done or has failed, from a thread of the transport.

        Callbacks come in the order of operations and should be short.
        """
        self._queue.call(self, callback)


class WorkQueue:
    """All queue of a transport; calls their callbacks, from a thread that starts with the first."""

    def __init__(self, engine: ClientEngine, names: Sequence[str], hosted: int = 0) -> None:
        self.engine = engine
        self._names, self._hosted = names, hosted
        self._waiting: deque[tuple[QueuedAllReduce, Callback]] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def error(self) -> TransportError | None:
        """Why the engine has failed."""
        failure = self.engine.failure()
        return None if failure is None else failure.error(self._names, self._hosted)

    def check(self) -> None:
        """Raise TransportError if the engine has failed."""
        error = self.error()
        if error is not None:
            raise error

    def call(self, work: QueuedAllReduce, callback: Callback) -> None:
        """Call back when this work has ended."""
        with self._changed:
            self._waiting.append((work, callback))
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="rsctl-callbacks", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Call the remaining callbacks, now that the engine has stopped, and end the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if not self._waiting:
                    return
                work, callback = self._waiting.popleft()
            self.engine.wait(work.sequence, None)
            try:
                callback(work)
            except Exception:  # noqa: BLE001 - the others' callbacks must come anyway
                sys.excepthook(*sys.exc_info())
