"""Where baselines lie: files, gs://, s3://, and git:REF:PATH."""

from __future__ import annotations

import os
import shlex
import stat
from difflib import get_close_matches
from pathlib import Path

from rsctl.atomic_file import write_file
from rsctl.bench.git_files import read_committed, working_file
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import Bucket, ObjectUrl
from rsctl.clients.storage.buckets import open_bucket
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.git_location import GIT

LARGEST = 16 << 20
"""Bytes that a baseline may have."""

BUCKETS = ("gs://", "s3://")
"""How the locations of objects begin."""


def is_location(reference: str) -> bool:
    """Whether a reference says where a baseline lies, rather than naming a run or a bench."""
    if reference.startswith((*BUCKETS, GIT)):
        return True
    is_path = os.path.sep in reference and "://" not in reference  # the URL of a job names a run
    return is_path or reference.endswith(".json") or os.path.isfile(reference)


def read_bytes(location: str, folder: str) -> bytes:
    """The content of the location, at most one byte more than `LARGEST`. Raises RsctlError."""
    if location.startswith(GIT):
        return read_committed(location, folder, LARGEST)
    if location.startswith(BUCKETS):
        return _read_object(location)
    _refuse_pipe(os.path.join(folder, location), location, "read the baseline")
    path = os.path.join(folder, location)
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST + 1)
    except OSError as problem:
        beside = os.path.dirname(path) or "."
        names = os.listdir(beside) if os.path.isdir(beside) and not os.path.exists(path) else []
        close = get_close_matches(os.path.basename(location), names, n=1)
        hint = f"did you mean {close[0]!r}? otherwise " if close else ""
        message = f"cannot read the baseline {location}: {problem.strerror}"
        given = location if folder == "." else os.path.relpath(path)  # as an option names it
        remedy = f"{hint}{_how_to_create(given)}"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, remedy)) from None


def write_bytes(data: bytes, location: str, folder: str) -> str:
    """Write to a file, gs:// or s3://; returns where. Raises RsctlError.

    Of git:REF:PATH it writes PATH in the working tree, to be reviewed and committed.
    """
    if location.startswith(BUCKETS):
        _write_object(location, data)
        return location
    is_in_git = location.startswith(GIT)
    path = working_file(location, folder) if is_in_git else Path(folder, location)
    _refuse_pipe(str(path), location, "write")
    write_file(path, data)
    return str(path)


def _refuse_pipe(place: str, location: str, verb: str) -> None:
    """Raise RsctlError for a named pipe, which nothing may ever write or read.

    One that the shell has opened, such as /dev/fd/63 of `<(command)`, has no path of its own.
    """
    try:
        is_pipe = stat.S_ISFIFO(os.stat(os.path.realpath(place)).st_mode)
    except (OSError, ValueError):
        return
    if is_pipe:
        message = f"cannot {verb} {location}: it is a pipe"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, "give the path of a file"))


def _read_object(location: str) -> bytes:
    bucket, name = _object(location)
    data = b""
    while len(data) <= LARGEST and (block := bucket.read(name, len(data))):
        data += block
    if not data:
        raise _no_object(location)
    return data


def _write_object(location: str, data: bytes) -> None:
    bucket, name = _object(location)
    bucket.replace(name, data, "application/json")


def open_object(
    location: str, code: str, example: str, path: str | None = None
) -> tuple[Bucket, str]:
    """The bucket, and the object's name in it. `path` is the field of the job that names it.

    Raises RsctlError, with a `code` and an `example` if the location names no object.
    """
    parts = ObjectUrl.parse(location)
    if not parts.bucket or not parts.name:
        finding = error(code, f"{location!r} does not name an object", f"for example {example}")
        raise RsctlError(ExitCode.USAGE, finding)
    return open_bucket(location, Endpoints.of_environment(), path=path), parts.name


def _object(location: str) -> tuple[Bucket, str]:
    return open_object(location, "baseline", "gs://bucket/name.json", "gate.baseline")


def _no_object(location: str) -> RsctlError:
    message = f"{location} does not exist"
    return RsctlError(ExitCode.USAGE, error("baseline", message, _how_to_create(location)))


def _how_to_create(location: str) -> str:
    return f"create one: rsctl gate BENCH --baseline {shlex.quote(location)} --update-baseline"
