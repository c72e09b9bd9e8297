"""Errors of the store as findings."""

from __future__ import annotations

import os
import resource
import sqlite3
from pathlib import Path

from rsctl.atomic_file import FULL
from rsctl.findings import Finding, RsctlError, Severity, error

_HARDLY_ANY = 64 << 10


class StoreError(RsctlError, sqlite3.Error):
    """The database failed. Also a sqlite3.Error, for callers that continue without it."""


class DiskFull(StoreError):
    """The database cannot be written because there is no space."""


def is_full(problem: Exception, path: Path) -> bool:
    """Whether a file cannot be used because of missing space, a quota or a size limit."""
    if isinstance(problem, DiskFull):
        return True
    if isinstance(problem, OSError):
        return problem.errno in FULL
    # Python 3.10 has no codes of SQLite's errors.
    if not isinstance(problem, sqlite3.OperationalError):
        return False
    return "disk is full" in str(problem) or (
        "disk I/O error" in str(problem)
        and (_space(path.parent) < _HARDLY_ANY or is_at_limit(path))
    )


def is_at_limit(path: Path) -> bool:
    """Whether a database or its log is about as large as this process may make a file.

    SQLite reports a write beyond that limit as an error of the disk.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return False
    files = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
    sizes = [file.stat().st_size for file in files if file.exists()]
    return limit < 2 * _HARDLY_ANY or max(sizes, default=0) > limit - _HARDLY_ANY


def damaged(run: str, why: str, severity: Severity) -> Finding:
    """A run that cannot be read."""
    message = f"cannot read {run}: {why}"
    remedy = f"remove its records: rsctl forget {run}"
    return Finding(severity=severity, code="damaged", message=message, remedy=remedy)


def not_found(reference: str, matches: list[str]) -> Finding:
    """A reference that names no run, or several."""
    if matches:
        names = ", ".join(matches[:4]) + (", ..." if matches[4:] else "")
        return error(
            "run", f"{reference!r} matches several runs: {names}", "give more characters of the ID"
        )
    if reference == "@last":
        return error("run", "there are no runs yet", "start one: rsctl submit JOB")
    return error("run", f"there is no run {reference!r}", "see `rsctl list`")


def bench_given(reference: str) -> Finding:
    """A reference to a bench in the place of a run; `rsctl list` shows both."""
    remedy = f"show it: rsctl bench status {reference}   its runs: rsctl list --cells"
    return error("run", f"{reference} is a bench, and not a run", remedy)


def _space(folder: Path) -> int:
    """Bytes that this user may write there."""
    try:
        file_system = os.statvfs(folder)
    except OSError:
        return 0
    return file_system.f_bavail * file_system.f_frsize
