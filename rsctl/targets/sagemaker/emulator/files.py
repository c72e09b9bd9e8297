"""Files between machines and S3; links that containers made are never followed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.ENOENT)
_FOR_ALL = 0o777


class OpenedFile(NamedTuple):
    """A regular file, open: its path below the folder, its size, time and mode."""

    name: str
    size: int
    modified_ns: int
    file: BinaryIO
    mode: int = 0o644


def files(folder: Path) -> Iterator[OpenedFile]:
    """The regular files below a folder, each open until the next; links and such are left out.

    Raises OSError for one that cannot be read.
    """
    if not folder.is_dir():
        return
    for root, folders, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        folders.sort()
        parent = PurePosixPath(os.path.relpath(root, folder))
        for name in sorted(names):
            file = _opened(name, descriptor)
            if file is not None:
                with file:
                    found = os.fstat(file.fileno())
                    mode = stat.S_IMODE(found.st_mode) & _FOR_ALL
                    yield OpenedFile(
                        str(parent / name), found.st_size, found.st_mtime_ns, file, mode
                    )


def links(folder: Path) -> dict[str, str]:
    """The symbolic links below a folder: where each is, and what it leads to. None is followed."""
    if not folder.is_dir():
        return {}
    found = {}
    for root, folders, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        parent = PurePosixPath(os.path.relpath(root, folder))
        for name in sorted([*folders, *names]):
            with suppress(OSError):
                found[str(parent / name)] = os.readlink(name, dir_fd=descriptor)
    return found


def _opened(name: str, folder: int) -> BinaryIO | None:
    """A file, or None if it is not a regular one or no longer exists. Raises OSError."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as problem:
        if problem.errno in _NO_FILE:
            return None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


def text_of(path: Path, most: int) -> str:
    """The beginning of a text file, "" if there is none."""
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return file.read(4 * most).decode(errors="replace")[:most].strip()
    except OSError:
        return ""


def store(objects: FolderObjects, bucket: str, key: str, found: OpenedFile) -> None:
    """Have a file in S3. Raises OSError."""
    if objects.take(bucket, key, found.file) is None:
        raise OSError(f"{key} cannot be stored")


def copy_to(source: Path, target: Path) -> None:
    """Copy a file for any user of a container to write to. Raises OSError."""
    make_folder(target.parent)
    shutil.copyfile(source, target)
    target.chmod(0o666)


def make_folder(folder: Path) -> None:
    """A folder that any user of a container may write to, and those above it that are missing."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(_FOR_ALL)
