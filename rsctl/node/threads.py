"""Signal masks of the launcher's threads: stop signals are handled by its main thread alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from rsctl.node.rank import STOP_SIGNALS


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Threads that are started within never receive a stop signal, nor do those they start."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, signal.SIGCHLD))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
