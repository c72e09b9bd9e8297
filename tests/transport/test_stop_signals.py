"""Signals that ask a process to end."""

from __future__ import annotations

import subprocess
import sys

from tests.kit.polling import DEADLINE_SECONDS

# A signal comes to the main thread before each step of its wait in turn.
SIGNALLED = """
import os, signal, sys
from rsctl.transport import stop_signals

for step in range(10):
    left = [step]
    def trace(frame, event, _):
        if frame.f_code.co_filename != stop_signals.__file__:
            return None
        if event == "line":
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            left[0] -= 1
        return trace
    signals = stop_signals.StopSignals(signal.SIGTERM)
    sys.settrace(trace)
    signals.wait(0.0)
    sys.settrace(None)
    if left[0] >= 0:  # the wait has fewer steps
        os.kill(os.getpid(), signal.SIGTERM)
    assert signals.wait(60.0), step
"""


def test_one_at_any_moment_ends_the_wait() -> None:
    subprocess.run([sys.executable, "-c", SIGNALLED], check=True, timeout=DEADLINE_SECONDS)


OTHERS = """
import os, signal
from rsctl.transport.stop_signals import StopSignals

signal.signal(signal.SIGUSR1, lambda *_: None)
signals = StopSignals(signal.SIGTERM, signal.SIGINT)
assert not signals.wait(0.0)
os.kill(os.getpid(), signal.SIGUSR1)
assert not signals.wait(60.0)
os.kill(os.getpid(), signal.SIGINT)
assert signals.wait()
assert signals.wait()
"""


def test_other_signals_do_not_count() -> None:
    subprocess.run([sys.executable, "-c", OTHERS], check=True, timeout=DEADLINE_SECONDS)
