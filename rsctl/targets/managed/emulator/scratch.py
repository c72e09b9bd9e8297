"""Folders for temporary files of an emulator, which go with it however it ends.

They hold keys and what jobs write. A folder is locked by its owner as long as that lives, so that
the next emulator knows whose owner has been killed, and removes those.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "rsctl-emulated-"


class ScratchFolder:
    """A new folder for this user alone, until it is closed. Raises OSError."""

    def __init__(self) -> None:
        sweep()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = _lock(self.path)
            if lock is not None and self.path.is_dir():
                self._lock = lock
                return
            if lock is not None:  # another process removed it just before it was locked
                os.close(lock)

    def close(self) -> None:
        """Remove it; harmless if it is closed already."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep() -> None:
    """Remove the folders of this user's emulators that were killed."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    if folder.lstat().st_uid != os.geteuid() or (lock := _lock(folder)) is None:
        return
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """The lock on a folder; None if another process has it, or the path is not a folder."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
