"""Where baselines lie: files, gs://, s3://, and git:REF:PATH."""

from __future__ import annotations

import os
import re
import subprocess
from difflib import get_close_matches
from pathlib import Path

from rsctl.atomic_file import write_file
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import Bucket, ObjectUrl
from rsctl.clients.storage.buckets import open_bucket
from rsctl.findings import ExitCode, RsctlError, error

LARGEST = 16 << 20
"""Bytes that a baseline may have."""

_GIT_SECONDS = 60
_GIT = "git:"
_BUCKETS = ("gs://", "s3://")
_REF = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_./@{}^~+-]*")


def is_location(reference: str) -> bool:
    """Whether a reference says where a baseline lies, rather than naming a run or a bench."""
    if reference.startswith((*_BUCKETS, _GIT)):
        return True
    return os.path.sep in reference or reference.endswith(".json") or os.path.isfile(reference)


def read_bytes(location: str, folder: str) -> bytes:
    """What lies there, at most one byte more than `LARGEST`. Raises RsctlError."""
    if location.startswith(_GIT):
        return _from_git(location, folder)
    if location.startswith(_BUCKETS):
        return _read_object(location)
    try:
        with open(os.path.join(folder, location), "rb") as file:
            return file.read(LARGEST + 1)
    except OSError as problem:
        beside = os.path.dirname(os.path.join(folder, location)) or "."
        names = os.listdir(beside) if os.path.isdir(beside) else []
        close = get_close_matches(os.path.basename(location), names, n=1)
        hint = f"did you mean {close[0]!r}? else " if close else ""
        message = f"cannot read the baseline {location}: {problem.strerror}"
        remedy = f"{hint}make one: rsctl gate BENCH --baseline {location} --update-baseline"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, remedy)) from None


def write_bytes(data: bytes, location: str, folder: str) -> str:
    """Write to a file, gs:// or s3://; returns where. Raises RsctlError.

    Of git:REF:PATH it writes PATH in the working tree, to be reviewed and committed.
    """
    if location.startswith(_GIT):
        location = os.path.join(_top(location, folder), location.split(":", 2)[-1])
    if location.startswith(_BUCKETS):
        _write_object(location, data)
        return location
    path = Path(folder, location)
    write_file(path, data)
    return str(path)


def _from_git(location: str, folder: str) -> bytes:
    """The file of a commit, read by git from the repository that `folder` is in."""
    ref, path = _parts(location)
    done = _git(["show", f"{ref}:{path}"], location, folder)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        message = f"cannot read {location}: {lines[-1] if lines else 'git failed'}"
        remedy = "a shallow clone lacks other branches: git fetch origin REF, then git:origin/REF:…"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, remedy))
    return done.stdout


def _top(location: str, folder: str) -> str:
    """The folder of the working tree that `folder` is in."""
    _parts(location)
    done = _git(["rev-parse", "--show-toplevel"], location, folder)
    if done.returncode:
        message = f"cannot write {location}: {folder} is in no working tree of git"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, "give --baseline FILE"))
    return done.stdout.decode(errors="surrogateescape").rstrip("\n")


def _parts(location: str) -> tuple[str, str]:
    """The commit and the path of git:REF:PATH. Raises RsctlError."""
    _, ref, path = [*location.split(":", 2), "", ""][:3]
    is_inside = path and not path.startswith(("/", "-")) and ".." not in path.split("/")
    if not _REF.fullmatch(ref) or not is_inside or "\0" in path:
        message = f"{location!r} is no git:REF:PATH"
        remedy = "such as git:origin/main:bench/baseline.json; PATH begins at the repository's root"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, remedy))
    return ref, path


def _git(arguments: list[str], location: str, folder: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", folder, *arguments]
    try:
        return subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except FileNotFoundError:
        finding = error("baseline", f"cannot use {location}: git is not installed", "install git")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except subprocess.TimeoutExpired:
        finding = error("baseline", f"git did not answer within {_GIT_SECONDS} s for {location}")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None


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


def _object(location: str) -> tuple[Bucket, str]:
    """The bucket, and the object's name in it. Raises RsctlError."""
    parts = ObjectUrl.parse(location)
    if not parts.bucket or not parts.name:
        message = f"{location!r} names no object"
        raise RsctlError(
            ExitCode.USAGE, error("baseline", message, "such as gs://bucket/name.json")
        )
    return open_bucket(location, Endpoints.of_environment(), path="gate.baseline"), parts.name


def _no_object(location: str) -> RsctlError:
    remedy = f"make one: rsctl gate BENCH --baseline {location} --update-baseline"
    return RsctlError(ExitCode.USAGE, error("baseline", f"there is no {location}", remedy))
