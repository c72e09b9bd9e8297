"""The destination folder of results: nothing is written outside it, even if it contains links.

Paths are relative, with `/`. Every folder on the way is opened by its own name in its parent and
never through a link, so a link that points outside, even one created meanwhile, is an error.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident

from rsctl.atomic_file import FULL
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.fetch.names import part_file

INDEX = ".rsctl-get"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Directory:
    """DIR of `rsctl get`, made if it does not exist. Its methods raise RsctlError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: dict[int, tuple[str, int]] = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise disk_error(str(path), problem) from None

    def close(self) -> None:
        """Close it."""
        for _, folder in self._open.values():
            os.close(folder)
        os.close(self._root)

    def open_index(self) -> int:
        """The index file of fetched files, open for reading and appending."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with explained(INDEX):
            return os.open(INDEX, flags, 0o666, dir_fd=self._root)

    def folds_case(self) -> bool:
        """Whether `A` and `a` are one file here; query it after the index exists."""
        with suppress(OSError):
            os.stat(INDEX.upper(), dir_fd=self._root, follow_symlinks=False)
            return True
        return False

    def free(self) -> int:
        """Bytes that can still be written."""
        with explained(str(self.path)):
            return shutil.disk_usage(self.path).free

    def require_space(self, needed: int, what: str, options: str) -> None:
        """Raise FolderFull unless so many bytes fit; `options` select less."""
        if needed > (free := self.free()):
            message = f"{what}, but only {free:,} are free"
            remedy = f"free disk space, select less with {options}, or use another folder"
            raise FolderFull(ExitCode.ENVIRONMENT, error("disk", message, remedy))

    def stat(self, path: str) -> os.stat_result | None:
        """A file's facts; None if no regular file is there."""
        try:
            with self._folder(path, make=False) as folder:
                found = os.stat(_name(path), dir_fd=folder, follow_symlinks=False)
        except (OSError, RsctlError):
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    def open(self, path: str) -> int:
        """A regular file, for reading."""
        with explained(path), self._folder(path, make=False) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return os.open(_name(path), flags, dir_fd=folder)

    def open_part(self, path: str) -> int:
        """The part file of an incomplete download, for reading and writing."""
        with explained(path), self._folder(path, make=True) as folder:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return os.open(_name(part_file(path)), flags, 0o666, dir_fd=folder)

    def open_new_part(self, path: str) -> int:
        """The part file, emptied."""
        with explained(path), self._folder(path, make=True) as folder:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            name = _name(part_file(path))
            try:
                return os.open(name, flags, 0o666, dir_fd=folder)
            except FileExistsError:
                os.unlink(name, dir_fd=folder)
                return os.open(name, flags, 0o666, dir_fd=folder)

    def drop_part(self, path: str) -> None:
        """Remove the part file if it exists."""
        with suppress(OSError, RsctlError), self._folder(path, make=False) as folder:
            os.unlink(_name(part_file(path)), dir_fd=folder)

    def link(self, path: str, target: str) -> bool:
        """Create a link to another path below this folder; returns whether it did not exist yet.

        It replaces another link, and nothing else.
        """
        text = posixpath.relpath(target, posixpath.dirname(path) or ".")
        with explained(path), self._folder(path, make=True) as folder:
            name, part = _name(path), _name(part_file(path))
            with suppress(FileNotFoundError):
                if not stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                if os.readlink(name, dir_fd=folder) == text:
                    return False
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)
            os.symlink(text, part, dir_fd=folder)
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True

    def finish(self, path: str) -> os.stat_result:
        """Rename a complete part to its name, replacing an existing file; returns the file's
        facts.
        """
        with explained(path), self._folder(path, make=True) as folder:
            name = _name(path)
            os.replace(_name(part_file(path)), name, src_dir_fd=folder, dst_dir_fd=folder)
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    @contextmanager
    def _folder(self, path: str, make: bool) -> Iterator[int]:
        """The folder that a file is in; each thread keeps its last one open."""
        folder, thread = path.rpartition("/")[0], get_ident()
        before = self._open.get(thread)
        if before is None or before[0] != folder:
            self._open[thread] = folder, self._open_folder(path, make)
            if before is not None:
                os.close(before[1])
        yield self._open[thread][1]

    def _open_folder(self, path: str, make: bool) -> int:
        current = os.dup(self._root)
        try:
            for index, name in enumerate(path.split("/")[:-1]):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=current)
                try:
                    inner = os.open(name, _FOLDER, dir_fd=current)
                except OSError as problem:
                    if problem.errno not in (errno.ELOOP, errno.ENOTDIR):
                        raise
                    raise self._no_folder("/".join(path.split("/")[: index + 1])) from None
                os.close(current)
                current = inner
        except BaseException:
            os.close(current)
            raise
        return current

    def _no_folder(self, path: str) -> RsctlError:
        message = f"{path} must be a folder, but is a file or a link"
        remedy = f"remove {self.path / path}, or use another folder"
        return RsctlError(ExitCode.USAGE, error("destination", message, remedy))


class FolderFull(RsctlError):
    """The disk is full."""


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise RsctlError for errors of a file in this folder."""
    try:
        yield
    except OSError as problem:
        raise disk_error(path, problem) from None


def write_all(file: int, block: bytes, path: str) -> None:
    """Write a whole block: where space ends in it, the system writes a part and reports nothing."""
    left = memoryview(block)
    with explained(path):
        while left:
            left = left[os.write(file, left) :]


def disk_error(path: str, problem: OSError) -> RsctlError:
    """The error for a file that cannot be written."""
    message = f"cannot write {path[:300]}: {problem.strerror}"
    if problem.errno in FULL:
        remedy = "free disk space and run the command again: it continues where it stopped"
        return FolderFull(ExitCode.ENVIRONMENT, error("disk", message, remedy))
    is_taken = problem.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST)
    remedy = "remove the existing file, or use another folder"
    return RsctlError(
        ExitCode.USAGE if is_taken else ExitCode.ENVIRONMENT,
        error("destination", message, remedy),
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
