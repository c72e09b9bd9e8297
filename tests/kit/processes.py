"""Processes that a test freezes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.kit.polling import wait_until


def freeze(pid: int) -> None:
    """Stop a process by SIGSTOP; returns when all of its threads have stopped.

    `kill` returns before that: until the thread that gets the signal has a processor, the others
    go on, which on a busy machine is long enough for what must not happen any more.
    """
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _have_threads_stopped(pid), f"process {pid} to stop")


def _have_threads_stopped(pid: int) -> bool:
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # one that was there has ended
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
