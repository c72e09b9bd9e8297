"""Signals to a supervisor."""

from __future__ import annotations

import subprocess
import sys

from tests.kit.polling import DEADLINE_SECONDS

REPLACED = """
import os, selectors, signal
from rsctl.targets.local.signals import Cancelled, Signals

signals = Signals(selectors.DefaultSelector())

def interrupted(by):
    try:
        with signals.interruptible():
            try:
                os.kill(os.getpid(), by)
            except Cancelled:
                pass
            raise SystemError("a function returned a result with an exception set")
    except Exception as problem:
        return type(problem)

assert interrupted(signal.SIGCHLD) is SystemError
assert interrupted(signal.SIGTERM) is Cancelled
"""


def test_a_cancellation_as_a_child_ends_is_one() -> None:
    """CPython 3.10 and 3.11 may replace the exception of a handler when another signal arrives."""
    subprocess.run([sys.executable, "-c", REPLACED], check=True, timeout=DEADLINE_SECONDS)
