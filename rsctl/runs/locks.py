"""Lock files: a lock belongs to an open file, so it is free as soon as its holder has ended."""

from __future__ import annotations

import fcntl
import os
from functools import cache
from pathlib import Path

from rsctl.atomic_file import open_regular

_MOST_BYTES = 100
_NO_SIGNAL = "no-signal"


@cache
def _machine() -> str:
    """The machine, since its last start, or the container, whose process numbers are this one's."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # there is no /proc
        return os.uname().nodename


def try_lock(path: Path) -> int | None:
    """Take the lock of a file, made if it does not exist; its descriptor, or None if it is held.

    Raises OSError.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # a read-only disk still shows that the lock is held
        if is_locked(path):
            return None
        raise
    is_taken = False
    try:
        is_taken = _lock(file, fcntl.LOCK_EX, path)
    finally:
        if not is_taken:
            os.close(file)
    return file if is_taken else None


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file. Raises OSError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        return not _lock(file, fcntl.LOCK_SH, path)
    finally:
        os.close(file)


def _lock(file: int, kind: int, path: Path) -> bool:
    """Whether the lock is taken. Raises OSError, for example on a file system without locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as problem:
        why = f"its file system refuses to lock files: {problem.strerror}"
        raise OSError(problem.errno, why, str(path)) from None
    return True


def write_holder(lock: int, process: int, takes_signal: bool = True) -> None:
    """Write the process id of the lock's holder, whether SIGTERM asks it to end its work and
    nothing else, and the machine where it has this id, in one piece.
    """
    kind = "" if takes_signal else _NO_SIGNAL
    os.pwrite(lock, f"{process:<10}{kind:<10}{_machine()}".encode(), 0)


def holder(path: Path, takes_signal: bool = False) -> int | None:
    """The process id in a file whose lock is held; None if it is free, or with `takes_signal` if
    its holder must get no SIGTERM, or is on another machine or in another container.
    """
    if not is_locked(path):
        return None
    with open_regular(path) as file:
        words = file.read(_MOST_BYTES).decode(errors="replace").split()
    if takes_signal and any(word != _machine() for word in words[1:]):
        return None
    return int(words[0]) if words and words[0].isdigit() else None
