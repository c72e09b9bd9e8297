"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TypeVar, Union

import msgspec

from rsctl.findings import ExitCode, RsctlError, error

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a write for which there is no space, by the disk, a quota or a limit."""

UNREADABLE = (OSError, ValueError, RecursionError)
"""The errors of reading a file and decoding its JSON. msgspec's own are ValueErrors, but for bytes
that are not UTF-8, and for deep nesting, it raises Python's.
"""

T = TypeVar("T")
Content = Union[bytes, Callable[[IO[bytes]], object]]


def write_file(path: str | Path, content: Content, remedy: str | None = None) -> None:
    """Write bytes, or the output of a function, to a file: the old file stays until the new one is
    complete.

    Folders above it are made. A link stays one; a device or a pipe is written directly. A file that
    was there keeps its permissions. Raises RsctlError; `remedy` is for any cause but a full disk.
    """
    try:
        _write(Path(os.path.realpath(path)), content)
    except OSError as problem:
        if problem.errno in FULL:
            remedy = "free disk space, and run the command again"
        message = f"cannot write {path}: {problem.strerror}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("write", message, remedy)) from None


def temporary_file(
    write: Callable[[IO[bytes]], object],
    code: str,
    work: str,
    remedy: str = "free disk space there",
) -> IO[bytes]:
    """A temporary file with the output of a function, to be read from its beginning.

    Raises RsctlError: its code, and the work that cannot be done, such as "copy the files to".
    """
    import tempfile

    try:
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile())
            write(file)
            file.seek(0)  # writes what is buffered; where that fails, so does closing the file
            stack.pop_all()
            return file
    except OSError as problem:
        folder = tempfile.tempdir or "a temporary folder"
        message = f"cannot {work} {folder}: {problem}"
        raise RsctlError(ExitCode.ENVIRONMENT, error(code, message, remedy)) from None


def open_regular(path: str | Path) -> IO[bytes]:
    """Open a file to read it, and nothing that would be waited for, such as a pipe. Raises OSError.

    `FileNotFoundError` where there is none; links are followed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_json(path: Path, kind: type[T]) -> T | None:
    """The content of a JSON file; None if there is none, or none that can be read."""
    try:
        with open_regular(path) as file:
            return msgspec.json.decode(file.read(), type=kind)
    except UNREADABLE:
        return None


def _write(path: Path, content: Content) -> None:
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        with path.open("wb") as file:
            _fill(file, content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    import tempfile  # a plan writes nothing, and should not wait for it

    beside = tempfile.NamedTemporaryFile(  # noqa: SIM115 - it becomes the file
        dir=path.parent, prefix=f".{path.name[:80]}.", delete=False
    )
    try:
        with beside as file:
            _fill(file, content)
        os.chmod(beside.name, _usual_mode() if mode is None else stat.S_IMODE(mode))
        os.replace(beside.name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside.name)
        raise


def _mode(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return path.stat().st_mode
    return None


def _fill(file: IO[bytes], content: Content) -> None:
    if isinstance(content, bytes):
        file.write(content)
    else:
        content(file)


def _usual_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
