"""Where histories lie: files, gs://, s3://, and git:REF:PATH. Appends are safe beside others.

A file is locked while a line is written to it. An object in a bucket is replaced only in the
version that was read, and read again if another writer was faster.
"""

from __future__ import annotations

import fcntl
import os
import random
import shlex
import stat
import time
from pathlib import Path

from rsctl.bench.baseline_files import BUCKETS, open_object
from rsctl.bench.git_files import read_committed, working_file
from rsctl.bench.history import History, HistoryRecord, decode_history, encode_record
from rsctl.clients.storage import Bucket, ObjectChanged
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.git_location import GIT
from rsctl.job.shell_words import path_word

LARGEST = 64 << 20
"""Bytes that a history may have."""

_TYPE = "application/x-ndjson"
_TRIES = 20
_PAUSE = 0.05  # seconds, at most that times the number of the try, before an object is read again


def read_history(location: str, folder: str = ".") -> History:
    """The history at a location. Paths and git's repository are relative to `folder`.

    Raises RsctlError if it does not exist or is invalid.
    """
    if location.startswith(GIT):
        data = read_committed(location, folder, LARGEST)
    elif location.startswith(BUCKETS):
        bucket, name = _object(location)
        loaded = bucket.load(name, LARGEST + 1)
        if loaded is None:
            raise _missing(location, "it does not exist")
        data = loaded.data
    else:
        data = _read_file(os.path.join(folder, location), location)
    return decode_history(_require_small(data, location), location)


def append_record(record: HistoryRecord, location: str, folder: str = ".") -> str:
    """Append a record to a history, which is created if it does not exist; returns where.

    Of git:REF:PATH it writes PATH in the working tree, to be committed. A record that
    exists is not written again. Raises RsctlError, also if the history is invalid.
    """
    if location.startswith(BUCKETS):
        _append_to_object(record, location)
        return location
    is_in_git = location.startswith(GIT)
    path = working_file(location, folder) if is_in_git else Path(folder, location)
    try:
        _append_to_file(record, path, location)
    except OSError as problem:
        why = problem.strerror or str(problem)
        message = f"cannot write {path}: {why}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("write", message)) from None
    return str(path)


def _append_to_file(record: HistoryRecord, path: Path, location: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_APPEND
    with open(os.open(path, flags, 0o666), "r+b", buffering=0) as file:
        _require_regular(file.fileno(), location)
        fcntl.flock(file, fcntl.LOCK_EX)
        data = _require_small(_read_all(file.fileno()), location)
        kept, line = _appended(record, data, location)
        if kept < len(data):  # what a killed writer has left
            os.ftruncate(file.fileno(), kept)
        written = 0
        try:
            while written < len(line):
                written += file.write(line[written:]) or 0
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), kept)
            raise


def _append_to_object(record: HistoryRecord, location: str) -> None:
    bucket, name = _object(location)
    for attempt in range(1, _TRIES + 1):
        loaded = bucket.load(name, LARGEST + 1)
        data = _require_small(loaded.data, location) if loaded else b""
        kept, line = _appended(record, data, location)
        if not line:
            return
        try:
            bucket.replace(name, data[:kept] + line, _TYPE, loaded.version if loaded else "")
            return
        except ObjectChanged:
            time.sleep(random.uniform(0, _PAUSE * attempt))  # noqa: S311 - keeps writers apart
    message = f"cannot append to {location}: other writers replaced it {_TRIES} times meanwhile"
    raise RsctlError(ExitCode.ENVIRONMENT, error("history", message, "run the command again"))


def _appended(record: HistoryRecord, data: bytes, location: str) -> tuple[int, bytes]:
    """How many bytes of a history to keep, and the line to write after them; empty if it is there.

    Raises RsctlError if the history is invalid, before it grows further.
    """
    known = decode_history(data, location).records
    if any(_is_same(record, other) for other in known):
        return len(data), b""
    line = encode_record(record)
    tail = data.rpartition(b"\n")[2]
    if not tail:
        return len(data), line
    try:
        decode_history(tail + b"\n", location)
    except RsctlError:
        return len(data) - len(tail), line
    return len(data), b"\n" + line


def _is_same(one: HistoryRecord, other: HistoryRecord) -> bool:
    """Whether two records say the same, whenever they were written."""
    return (one.job, one.commit, one.of, one.cells) == (
        other.job,
        other.commit,
        other.of,
        other.cells,
    )


def _read_file(path: str, location: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            _require_regular(file.fileno(), location)
            return file.read(LARGEST + 1)
    except FileNotFoundError:
        raise _missing(location, "it does not exist") from None
    except OSError as problem:
        message = f"cannot read the history {location}: {problem.strerror or problem}"
        raise RsctlError(ExitCode.USAGE, error("history", message)) from None


def _read_all(descriptor: int) -> bytes:
    data = b""
    while len(data) <= LARGEST and (block := os.pread(descriptor, 1 << 20, len(data))):
        data += block
    return data


def _require_regular(descriptor: int, location: str) -> None:
    """Raise RsctlError for a pipe or a device, which nothing may ever write or read."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        message = f"cannot use {location} as a history: it is not a regular file"
        raise RsctlError(ExitCode.USAGE, error("history", message, "give the path of a file"))


def _require_small(data: bytes, location: str) -> bytes:
    if len(data) > LARGEST:
        message = f"{location} is larger than {LARGEST >> 20} MiB"
        raise RsctlError(ExitCode.USAGE, error("history", message, "start a new file"))
    return data


def _object(location: str) -> tuple[Bucket, str]:
    return open_object(location, "history", "gs://bucket/history.jsonl")


def _missing(location: str, why: str) -> RsctlError:
    """The error of code `no-history`, after which a first record may create the history."""
    path, value = shlex.quote(path_word(location)), shlex.quote(location)
    remedy = f"create one: rsctl history add {path} BENCH, or rsctl gate JOB --record {value}"
    message = f"cannot read the history {location}: {why}"
    return RsctlError(ExitCode.USAGE, error("no-history", message, remedy))
