"""Copies files by many threads, in parts: large ones by several at a time, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk that is full."""

_THREADS = 16
_SEGMENT_BYTES = 64 << 20
"""A file is read by as many threads as it has parts of this size."""

_BLOCK = 4 << 20
_WAITING = 4 * _THREADS  # parts that are handed out at once
_TRIES = 4
_SHOW_SECONDS = 30.0


class Changed(Exception):
    """A file is not what it was when it was listed."""


@dataclass
class File:
    """A file to copy, with the size and time of when it was listed; its parts come in any order."""

    path: str
    target: str
    size: int
    modified: int
    left: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def part(self) -> str:
        """Where its content is until all of it is there: beside it, with a name of its own."""
        folder, name = os.path.split(self.target)  # a name may be as long as can be
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
        return os.path.join(folder, f".{digest}.rsctl-part")


def copy_files(files: list[File], show: Callable[[int], None]) -> None:
    """Copy files; `show` gets now and then how many bytes have been copied.

    Raises OSError and Changed.
    """
    # Costs a launch that copies nothing 4 ms.
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

    stop, copied, shown = threading.Event(), 0, time.monotonic()
    parts = ((file, at) for file in files for at in _offsets(file))
    pool, waiting = ThreadPoolExecutor(_THREADS), set[Future[int]]()
    try:
        while True:
            for file, at in islice(parts, _WAITING - len(waiting)):
                waiting.add(pool.submit(_copy_part, file, at, stop))
            if not waiting:
                return
            ended, waiting = wait(waiting, _SHOW_SECONDS, FIRST_COMPLETED)
            copied += sum(future.result() for future in ended)
            if time.monotonic() - shown > _SHOW_SECONDS:
                shown = time.monotonic()
                show(copied)
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _offsets(file: File) -> range:
    """Where its parts begin; an empty file has one. Its folder and its space are made."""
    os.makedirs(os.path.dirname(file.target), exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(file.part)
    handle = os.open(file.part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(handle, file.size)
    finally:
        os.close(handle)
    offsets = range(0, max(file.size, 1), _SEGMENT_BYTES)
    file.left = len(offsets)
    return offsets


def _copy_part(file: File, start: int, stop: threading.Event) -> int:
    """Copy one part, and give the file its name if it was the last; the part's bytes.

    Raises OSError and Changed.
    """
    end = min(start + _SEGMENT_BYTES, file.size)
    for attempt in range(1, _TRIES + 1):
        try:
            _copy_bytes(file, start, end, stop)
            break
        except OSError as problem:
            if problem.errno in NO_SPACE or attempt == _TRIES or stop.is_set():
                raise
            stop.wait(2.0**attempt / 4)
    with file.lock:
        file.left -= 1
        if file.left == 0 and not stop.is_set():
            _finish(file)
    return end - start


def _copy_bytes(file: File, start: int, end: int, stop: threading.Event) -> None:
    with open(file.path, "rb", buffering=0) as source:
        handle = os.open(file.part, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            buffer = memoryview(bytearray(min(_BLOCK, end - start)))
            while start < end and not stop.is_set():
                count = os.preadv(source.fileno(), [buffer[: end - start]], start)
                if not count:
                    raise Changed(file.path)
                _write(handle, buffer[:count], start)
                start += count
        finally:
            os.close(handle)


def _write(handle: int, left: memoryview, start: int) -> None:
    """Write a whole block, of which one call may take a part only."""
    while left:
        count = os.pwrite(handle, left, start)
        left, start = left[count:], start + count


def _finish(file: File) -> None:
    facts = os.stat(file.path)
    if (facts.st_size, facts.st_mtime_ns) != (file.size, file.modified):
        raise Changed(file.path)
    os.utime(file.part, ns=(file.modified, file.modified))
    os.replace(file.part, file.target)
