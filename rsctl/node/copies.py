"""Copies of data on a node's own disk: many files at a time, checked, once over restarts.

A file appears under its name when all of it is there, and a marker is written when all files are: a
copy that was cut short is continued by the next start, and never used as it is. What is copied is
a mounted file system, whose sizes are checked; checksums it does not have.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import functools
import glob
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from rsctl.node.errors import CONFIGURATION, TEMPORARY, LaunchError
from rsctl.node.file_parts import NO_SPACE, Changed, File, copy_files


@dataclass(frozen=True)
class CopyRequest:
    """The data to copy: a file or folder, or the files `names` below it; and the destination.

    `marker` is the path of the file that marks a complete copy. `name` is the input's. `is_shared`
    is whether the disk has other jobs and users: the marker's folder is then this user's alone, and
    ends with the last process on this machine that uses it.
    """

    name: str
    source: str
    target: str
    marker: str
    names: tuple[str, ...] | None = None
    is_shared: bool = False


@dataclass
class Copied:
    """The copied bytes of this start, the seconds, and the skipped entries."""

    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    left_out: list[str] = field(default_factory=list)


def copy(wanted: CopyRequest) -> Copied | None:
    """Have the data on this disk; None if it has been there before. Raises LaunchError.

    Another node of the job on this machine waits, and finds it.
    """
    try:
        with _locked(wanted):
            return None if _is_complete(wanted) else _copy(wanted)
    except OSError as problem:
        raise _failed(wanted, problem) from None
    except Changed as problem:
        raise _changed(wanted, str(problem)) from None


@contextmanager
def _locked(wanted: CopyRequest) -> Iterator[None]:
    """Hold the lock of a copy if other processes may make it. Raises OSError."""
    path, name = os.path.split(wanted.marker)
    if not wanted.is_shared:  # any user of the container may read it
        os.makedirs(path, exist_ok=True)
        yield
        return
    folder = _use(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(f"{name}.lock", flags, 0o600, dir_fd=folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@functools.cache
def _use(path: str) -> int:
    """Have a folder that only this user can change, and a share in its lock until this process
    ends. Raises OSError.

    On a cluster other users have the same disk, and could have put their data there.
    """
    while True:
        os.makedirs(path, mode=0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(folder)
        if found.st_uid != os.geteuid():
            os.close(folder)
            raise OSError(errno.EPERM, "the folder belongs to another user", path)
        fcntl.flock(folder, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):  # a node that has ended has just removed it
            if os.path.samestat(found, os.lstat(path)):
                break
        os.close(folder)
    atexit.register(_remove_unused, path, folder)
    _remove_left(path)
    return folder


def _remove_left(path: str) -> None:
    """Remove the copies of killed jobs beside a folder, which fill the disk."""
    parent = glob.escape(os.path.dirname(path))
    for lock in glob.glob(os.path.join(parent, "rsctl-*", ".*.complete.lock")):
        left = os.path.dirname(lock)
        with suppress(OSError):
            other = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            if os.fstat(other).st_uid == os.geteuid() and left != path:
                _remove_unused(left, other)
            os.close(other)


def _remove_unused(path: str, folder: int) -> None:
    """Remove a folder of copies, unless another node on this machine uses it."""
    with suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for data in glob.glob(os.path.join(glob.escape(path), "*")):
            shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(path)  # last its locks: if this process is killed, the next job finds them


def _copy(wanted: CopyRequest) -> Copied:
    """Raises OSError and Changed."""
    began, copied = time.monotonic(), Copied()
    files = list(_files(wanted, copied))
    missing = [file for file in files if not _is_there(file)]
    _require_space(wanted, missing)
    _copy_missing(wanted, missing)
    copied.files, copied.bytes = len(missing), sum(file.size for file in missing)
    copied.seconds = time.monotonic() - began
    _write_marker(wanted, files)
    return copied


def count(folder: str) -> dict[str, float]:
    """The files and bytes below a folder that the platform has filled."""
    sizes = [
        os.lstat(os.path.join(where, name)).st_size
        for where, _, names in os.walk(folder)
        for name in names
    ]
    return {"files": len(sizes), "bytes": sum(sizes)}


def _files(wanted: CopyRequest, copied: Copied) -> Iterator[File]:
    """All files to have. Raises OSError."""
    if wanted.names is not None:
        for name in wanted.names:
            path = os.path.join(wanted.source, name)
            yield _file(path, os.path.join(wanted.target, name), os.stat(path))
        return
    facts = os.stat(wanted.source)
    if not stat.S_ISDIR(facts.st_mode):
        yield _file(wanted.source, wanted.target, facts)
        return
    os.makedirs(wanted.target, exist_ok=True)
    root = os.path.realpath(wanted.source)
    for folder, folders, names in os.walk(root, onerror=_raise):
        inside = os.path.join(wanted.target, os.path.relpath(folder, root))
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*sorted(names), *links]:
            path = os.path.join(folder, name)
            found = _inside(path, root)
            if found is None:
                copied.left_out.append(os.path.relpath(path, root))
            else:
                yield _file(path, os.path.normpath(os.path.join(inside, name)), found)


def _inside(path: str, root: str) -> os.stat_result | None:
    """The facts of a file; None for a link that points outside the data, and for other types of
    files.
    """
    try:
        facts = os.stat(path)
    except OSError as problem:
        if problem.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return None
    real = os.path.realpath(path) if os.path.islink(path) else path
    is_inside = real.startswith(root.rstrip("/") + "/")
    return facts if is_inside and stat.S_ISREG(facts.st_mode) else None


def _file(path: str, target: str, facts: os.stat_result) -> File:
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return File(path, target, facts.st_size, facts.st_mtime_ns)


def _raise(problem: OSError) -> None:
    raise problem


def _is_there(file: File) -> bool:
    """Whether an earlier start has copied this version: a file has the time of its source."""
    try:
        facts = os.lstat(file.target)
    except FileNotFoundError:
        return False
    known = (facts.st_size, facts.st_mtime_ns)
    return stat.S_ISREG(facts.st_mode) and known == (file.size, file.modified)


def _require_space(wanted: CopyRequest, missing: list[File]) -> None:
    free, needed = (
        shutil.disk_usage(os.path.dirname(wanted.marker)).free,
        sum(file.size for file in missing),
    )
    if needed > free:
        message = (
            f"{wanted.name} needs {needed:,} bytes on this node's disk, which has only {free:,} "
            "free"
        )
        raise _too_small(message, wanted)


def _copy_missing(wanted: CopyRequest, missing: list[File]) -> None:
    """Raises OSError and Changed."""
    total = sum(file.size for file in missing)

    def show(copied: int) -> None:
        print(f"rsctl: {wanted.name}: {copied:,} of {total:,} bytes copied", flush=True)

    copy_files(missing, show)


def _is_complete(wanted: CopyRequest) -> bool:
    try:
        with open(wanted.marker, encoding="utf-8") as marker:
            known = json.load(marker)
    except (OSError, ValueError):
        return False
    return isinstance(known, dict) and known.get("of") == _identity(wanted)


def _write_marker(wanted: CopyRequest, files: list[File]) -> None:
    """Written beside and renamed, when all else is there."""
    known = {"of": _identity(wanted), "files": len(files), "bytes": sum(f.size for f in files)}
    new = f"{wanted.marker}.new"
    with open(new, "w", encoding="utf-8") as marker:
        json.dump(known, marker)
        marker.flush()
        os.fsync(marker.fileno())
    os.replace(new, wanted.marker)


def _identity(wanted: CopyRequest) -> list[object]:
    """The identity in a marker: another source, or another part of the shards, is another copy."""
    names = None if wanted.names is None else list(wanted.names)
    return [wanted.source, wanted.target, names]


def _failed(wanted: CopyRequest, problem: OSError) -> LaunchError:
    where = problem.filename if isinstance(problem.filename, str) else wanted.target
    message = f"cannot copy {wanted.name}: {where[:300]}: {problem.strerror}"
    if problem.errno in NO_SPACE:
        return _too_small(message, wanted)
    remedy = f"Check that {wanted.source} exists and is readable."
    if os.path.dirname(wanted.marker).startswith(where):
        remedy = f"Let the job's user write in {os.path.dirname(where)}"
        if wanted.is_shared and os.path.lexists(where):  # it is another user's, or a link
            remedy = "Submit the job again, which copies to another folder"
        remedy += f", or set inputs.{wanted.name}.mode: mount."
    return LaunchError(TEMPORARY, "input", message, remedy)


def _changed(wanted: CopyRequest, path: str) -> LaunchError:
    message = f"cannot copy {wanted.name}: {path[:300]} changed while it was being read"
    remedy = "Start the job after all other writers have finished."
    return LaunchError(TEMPORARY, "input", message, remedy)


def _too_small(message: str, wanted: CopyRequest) -> LaunchError:
    remedy = f"Set a larger workers.disk, or inputs.{wanted.name}.mode: mount."
    return LaunchError(CONFIGURATION, "disk", message, remedy)
