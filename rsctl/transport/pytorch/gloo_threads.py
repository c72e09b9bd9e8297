"""Lets gloo's threads finish before a group or an interpreter ends: PyTorch does not.

A gloo thread that releases its last collective needs the interpreter's lock. If the interpreter has
ended by then, the thread aborts the process ("terminate called without an active exception"); if a
model is being deallocated, which waits for the thread with the lock held, both wait for ever. On a
busy machine this ended about one in five of plain DistributedDataParallel scripts whose training
had succeeded. Destroying the groups does not help: the threads live as long as a model holds its
group.
"""

from __future__ import annotations

import glob
import os
import pathlib
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any

_NAME = "gloo"
_SECONDS = 1.0
_POLL_SECONDS = 0.002
_IDLE_POLLS = 3


def wait() -> None:
    """Wait, for a second at most, until gloo's threads have nothing to do. Linux only."""
    until = time.monotonic() + _SECONDS
    idle = 0
    while idle < _IDLE_POLLS and time.monotonic() < until:
        # Sleeping also gives up the interpreter's lock, which such a thread may wait for.
        time.sleep(_POLL_SECONDS)
        idle = 0 if _is_busy() else idle + 1


def join_without_lock(groups: Iterable[Any]) -> None:
    """Have these process groups, when they are freed, join gloo's threads without Python's lock.

    Torch before 2.8 holds the lock while it frees a group, whose backend joins its threads; both
    wait for ever if such a thread needs the lock to release a tensor. A backend alone is freed
    without the lock, so each is kept until its group has been freed.
    """
    for group in groups:
        backends = [group._get_backend(device) for device in group._device_types]
        weakref.finalize(group, backends.clear).atexit = False


def _is_busy() -> bool:
    """Whether a thread of gloo is running, or is about to.

    Older versions of torch, such as 2.8, give these threads no name. Where no thread has gloo's
    name, each counts that has the name of the process and that Python has not started.
    """
    threads: list[tuple[str, str, bool]] = []
    for stat in glob.glob("/proc/self/task/*/stat"):
        try:
            number, _, rest = pathlib.Path(stat).read_text(errors="replace").partition(" (")
        except OSError:
            continue  # It has just ended.
        name, _, state = rest.rpartition(") ")
        threads.append((number, name, not state.startswith("S")))
    named = [is_running for _, name, is_running in threads if _NAME in name]
    if named:
        return any(named)
    of_python = {str(thread.native_id) for thread in threading.enumerate()}
    of_python.add(str(threading.get_native_id()))  # after a fork, Python has its parent's
    default = {name for number, name, _ in threads if number == str(os.getpid())}
    return any(
        is_running and name in default and number not in of_python
        for number, name, is_running in threads
    )
