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
    wait_until(lambda: set(_thread_states(pid)) == {"T"}, f"process {pid} to stop")


def _thread_states(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]
