"""Downloads one file: keeps an existing one, resumes an interrupted download, and verifies it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rsctl.clients.errors import NoAnswer, no_answer
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.storage import ObjectChanged, StoredObject
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.fetch.digests import Digest
from rsctl.runs.fetch.directory import Directory, explained, write_all
from rsctl.runs.fetch.index import Index, IndexEntry
from rsctl.runs.fetch.sources import DownloadSource

_BLOCK = 1 << 20
_TRIES = 3  # of a file that changes, or arrives damaged
_SYNCED_FROM = 1 << 20  # a crash of the machine must not leave these half-written
_CONTINUED_FROM = _BLOCK  # a smaller file starts again from its beginning

State = Literal["fetched", "unchanged"]


class Task(NamedTuple):
    """A file to download, and its path below the folder."""

    path: str
    source: DownloadSource
    found: StoredObject

    @property
    def version(self) -> str:
        """The object, and its version."""
        text = f"{self.source.location}|{self.found.name}|{self.found.version}"
        return text.encode(errors="backslashreplace").decode()  # file names may be any bytes


@dataclass
class DownloadContext:
    """Shared state of all downloads. `advance` gets the number of bytes that have arrived, now or
    in an earlier call.
    """

    directory: Directory
    index: Index
    retries: RetryPolicy
    advance: Callable[[int], object]
    stop: threading.Event = field(default_factory=threading.Event)


class Stopped(Exception):
    """An error of another download ends all of them."""


def fetch_file(task: Task, context: DownloadContext) -> tuple[IndexEntry, State]:
    """Download a file unless it exists. Raises RsctlError and Stopped."""
    for left in reversed(range(_TRIES)):
        try:
            return _fetch_version(task, context)
        except ObjectChanged:
            current = task.source.find(task.found.name)
            if current is None or not left:
                raise
            task = task._replace(found=current)
        except _Damaged as damaged:
            if not left:
                raise damaged.problem from None
    raise AssertionError


def receive_part(task: Task, context: DownloadContext) -> Digest:
    """Download a whole file into its part file, and check it. Raises RsctlError and Stopped."""
    for _ in range(_TRIES):
        try:
            return _receive(task, context)
        except _Damaged as damaged:
            problem = damaged.problem
    raise problem


class _Damaged(Exception):
    def __init__(self, problem: RsctlError) -> None:
        super().__init__()
        self.problem = problem


def _fetch_version(task: Task, context: DownloadContext) -> tuple[IndexEntry, State]:
    path, size = task.path, task.found.size
    if entry := context.index.find(path, task.version):
        context.advance(size)
        return entry, "unchanged"
    digest = Digest(task.source.digests(task.found))
    there = context.directory.stat(path) if digest.algorithm else None
    if (
        there is not None
        and there.st_size == size
        and _hash_file(context.directory.open(path), digest, context)
    ):
        context.advance(size)
        return context.index.add(path, task.version, there, digest.algorithm), "unchanged"
    digest = _receive(task, context)
    found = context.directory.finish(path)
    return context.index.add(path, task.version, found, digest.algorithm), "fetched"


def _receive(task: Task, context: DownloadContext) -> Digest:
    path, size = task.path, task.found.size
    digest = Digest(task.source.digests(task.found))
    is_known = context.index.part(path) == task.version
    directory = context.directory
    file = directory.open_part(path) if is_known else directory.open_new_part(path)
    try:
        if (
            not is_known and size >= _CONTINUED_FROM
        ):  # noted once no part of another version is there
            context.index.begin(path, task.version)
        position = _kept(file, size, digest, context)
        context.advance(position)
        try:
            _receive_rest(task, file, position, digest, context)
            if not digest.fits:
                raise _Damaged(_wrong_checksum(task, digest))
        except (_Damaged, ObjectChanged):
            context.directory.drop_part(path)
            context.advance(-os.lseek(file, 0, os.SEEK_CUR))
            raise
        if size >= _SYNCED_FROM:
            with explained(path):
                os.fsync(file)
    finally:
        os.close(file)
    return digest


def _kept(file: int, size: int, digest: Digest, context: DownloadContext) -> int:
    """The size of the part from an earlier call, whose bytes go into the digest."""
    position = os.fstat(file).st_size
    if position > size:
        os.ftruncate(file, 0)
        position = 0
    _digest(file, digest, context)
    return os.lseek(file, position, os.SEEK_SET)


def _receive_rest(
    task: Task, file: int, position: int, digest: Digest, context: DownloadContext
) -> None:
    failures, size = 0, task.found.size
    while position < size:
        try:
            for block in task.source.stream(task.found, position):
                _check(context)
                if position + len(block) > size:
                    raise ObjectChanged(task.found.name)
                write_all(file, block, task.path)
                digest.update(block)
                position += len(block)
                failures = 0
                context.advance(len(block))
            if position < size:
                raise no_answer(
                    task.source.location,
                    f"the download of {task.found.name[:200]!r} was interrupted",
                )
        except NoAnswer:
            failures += 1
            if failures >= context.retries.tries:
                raise
            context.retries.before_retry(failures)


def _hash_file(file: int, digest: Digest, context: DownloadContext) -> bool:
    """Whether a file here has the expected content."""
    try:
        _digest(file, digest, context)
    finally:
        os.close(file)
    return digest.fits


def _digest(file: int, digest: Digest, context: DownloadContext) -> None:
    while block := os.read(file, _BLOCK):
        _check(context)
        digest.update(block)


def _check(context: DownloadContext) -> None:
    if context.stop.is_set():
        raise Stopped


def _wrong_checksum(task: Task, digest: Digest) -> RsctlError:
    name = task.found.name[:200]
    message = (
        f"the downloaded {name!r} has a different {digest.algorithm} checksum than "
        f"{task.source.location}"
    )
    remedy = "run the command again; if the error persists, check the network and its proxy"
    return RsctlError(ExitCode.ENVIRONMENT, error("checksum", message, remedy))
