"""RSCTL_HOME: the folder of runs and store, and files for this user alone."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from rsctl.user_folders import data_folder


def home() -> Path:
    """The folder of the runs and the store. It may not exist yet."""
    return data_folder()


def is_rehearsed(run: str) -> bool:
    """Whether a run is a rehearsal: its cloud is an emulator."""
    return (run_directory(run) / "rehearsal.json").exists()


def run_directory(run: str) -> Path:
    """The folder of one run: its request, logs, outputs and checkpoints."""
    return home() / "runs" / run


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone. Raises OSError.

    Does not change existing folders.
    """
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process may make it at the same time
            folder.mkdir(mode=0o700)
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def private_file(path: Path) -> None:
    """Make a file for this user alone; remove other users' access to an existing file of this user.

    An existing file is not opened: closing it would release the locks of this process on it, such
    as SQLite's. Raises OSError.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        status = path.stat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            path.chmod(0o600)
