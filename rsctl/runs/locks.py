"""Lock files: a lock belongs to an open file, so it is free as soon as its holder has ended."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from rsctl.atomic_file import open_regular

_MOST_BYTES = 100
_NO_SIGNAL = "no-signal"


def try_lock(path: Path) -> int | None:
    """Take the lock of a file, made if it does not exist; its descriptor, or None if it is held.

    Raises OSError.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file. Raises OSError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def write_holder(lock: int, process: int, takes_signal: bool = True) -> None:
    """Write the process id of the lock's holder, and whether SIGTERM asks it to end its work and
    nothing else, in one piece.
    """
    os.pwrite(lock, f"{process:<10}{'' if takes_signal else _NO_SIGNAL:<10}".encode(), 0)


def holder(path: Path, takes_signal: bool = False) -> int | None:
    """The process id in a file whose lock is held; None if it is free, or with `takes_signal` if
    its holder must get no SIGTERM.
    """
    if not is_locked(path):
        return None
    with open_regular(path) as file:
        words = file.read(_MOST_BYTES).decode(errors="replace").split()
    if takes_signal and _NO_SIGNAL in words:
        return None
    return int(words[0]) if words and words[0].isdigit() else None
