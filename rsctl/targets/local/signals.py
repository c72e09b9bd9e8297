"""The signals to a supervisor: two cancel its job, and it ignores a closed terminal's."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_CANCEL_SIGNALS = (signal.SIGTERM, signal.SIGINT)
KEPT_SIGNALS = (*_CANCEL_SIGNALS, signal.SIGHUP)
"""The signals that are blocked until a supervisor handles, or ignores, them."""


class Cancelled(Exception):
    """A signal has cancelled the job, in a part that is `interruptible`."""


class Signals:
    """Handles this process's signals. Each of them, a child's end too, wakes the selector.

    The selector's key has the data None; its file must be read, but its content has no meaning.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.is_cancelled = False
        self._is_interruptible = False
        read_end, write_end = os.pipe()
        for end in (read_end, write_end):
            os.set_blocking(end, False)
        selector.register(read_end, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _CANCEL_SIGNALS:
            signal.signal(number, self._on_cancel)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT_SIGNALS)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """For code that does not use the selector: raises Cancelled in it immediately."""
        self._is_interruptible = True
        try:
            if self.is_cancelled:
                raise Cancelled
            yield
        except SystemError:
            if not self.is_cancelled:
                raise
            # CPython 3.10 and 3.11 replace the exception of a handler by this one if another
            # signal, such as that of a child's end, arrives meanwhile.
            raise Cancelled from None
        finally:
            self._is_interruptible = False

    def _on_cancel(self, _number: int, _frame: FrameType | None) -> None:
        self.is_cancelled = True
        if self._is_interruptible:
            self._is_interruptible = False
            raise Cancelled
