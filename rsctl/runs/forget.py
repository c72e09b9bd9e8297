"""Removes a run: its record and its folder; outputs and checkpoints only on request.

The folder is marked before the record is removed. So a marked folder without a record comes from a
killed process, and `unfinished_removals` finds it.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.folder import RunFolder
from rsctl.runs.home import home
from rsctl.runs.store import Store
from rsctl.runs.store_errors import DiskFull

RESULTS = ("outputs", "checkpoints")
"""The folders that the job itself writes to."""

_MARK = "forgotten"
_LOCK = "supervisor.lock"
_POLL_SECONDS = 0.05
_TIMES = 3  # another process may make a file in a folder that is being removed


def forget(store: Store, run: str, with_results: bool = False, seconds: float = 0.0) -> list[Path]:
    """Remove a run from the store and its folder; returns the folders with files that stay.

    `seconds` is how long to wait for a process that uses the run: the process that recorded its end
    uses it for a moment longer. Raises RsctlError if the run still has a supervisor after that, or
    if something cannot be removed.
    """
    folder = RunFolder(run)
    lock = _lock(folder, seconds)
    try:
        with suppress(OSError):
            (folder.path / _MARK).touch()
        try:
            store.forget(run)
        except DiskFull:  # its files are the space that the database needs
            kept = remove_folder(run, with_results)
            _forget_at_last(store, run)
            return kept
        return remove_folder(run, with_results)
    finally:
        if lock is not None:
            os.close(lock)


def _forget_at_last(store: Store, run: str) -> None:
    try:
        store.forget(run)
    except DiskFull as problem:
        message = f"the files of {run} are removed, but its record remains: {problem}"
        remedy = f"free disk space, then: rsctl forget {run}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("store", message, remedy)) from None


def remove_folder(run: str, with_results: bool = False) -> list[Path]:
    """Remove the folder of a run that is no longer in the store; returns the remaining paths.

    Raises RsctlError if something cannot be removed.
    """
    path = RunFolder(run).path
    kept = [] if with_results else [path / name for name in RESULTS if _has_files(path / name)]
    try:
        _remove(path, kept)
    except OSError as problem:
        message = (
            f"removed the records of {run}, but {problem.filename} remains: {problem.strerror}"
        )
        remedy = f"remove it yourself: sudo rm -r {shlex.quote(str(path))}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("run-folder", message, remedy)) from None
    return kept


def unfinished_removals(store: Store) -> list[str]:
    """The runs whose records are gone, but whose folders are only marked."""
    marked = [path.parent.name for path in sorted((home() / "runs").glob(f"*/{_MARK}"))]
    return without_record(store, marked)


def leftover_results(store: Store) -> list[str]:
    """The runs that have only outputs and checkpoints."""
    folders = sorted((home() / "runs").glob("*"))
    return without_record(store, [path.name for path in folders if _has_results_alone(path)])


def folders_without_run(store: Store) -> list[str]:
    """The runs of which there is a folder with more than results, and neither a record nor a
    process: a submission was killed, or the store was removed. Raises StoreError.
    """
    folders = [path for path in sorted((home() / "runs").glob("*")) if path.is_dir()]
    names = [path.name for path in folders if not _has_results_alone(path)]
    return [name for name in without_record(store, names) if _is_free(RunFolder(name))]


def _is_free(folder: RunFolder) -> bool:
    """Whether no process has the run; False also if that is unknown."""
    try:
        return not folder.is_supervised()
    except OSError:
        return False


def without_record(store: Store, runs: Collection[str]) -> list[str]:
    """The folders of runs that are not in the store. Raises StoreError."""
    recorded = store.ids() if runs else set()
    return [run for run in runs if run not in recorded]


def _lock(folder: RunFolder, seconds: float) -> int | None:
    """The lock of a run, so that no process continues it meanwhile; None if it has no folder."""
    if not folder.path.is_dir():
        return None
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            with suppress(BlockingIOError):
                return folder.lock()
            time.sleep(_POLL_SECONDS)
        return folder.lock()
    except BlockingIOError:
        message = f"{folder.run} is in use: it is running, or a process reads its log"
        remedy = f"cancel it first: rsctl cancel {folder.run}"
        raise RsctlError(ExitCode.USAGE, error("run", message, remedy)) from None
    except OSError:  # its folder cannot be written: no other process takes the lock either
        return None


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(True for _ in folder.iterdir())


def _has_results_alone(folder: Path) -> bool:
    try:
        names = set(os.listdir(folder))
    except OSError:
        return False
    return bool(names) and names <= set(RESULTS)


def _remove(folder: Path, kept: Collection[Path]) -> None:
    """Remove all except the kept paths; the mark and the lock last."""
    if folder.is_symlink():
        return folder.unlink()
    for again in range(_TIMES):
        if not folder.is_dir():
            return
        for entry in sorted(folder.iterdir(), key=lambda path: path.name in (_MARK, _LOCK)):
            if entry not in kept:
                remove_entry(entry)
        if kept:
            return
        try:
            return folder.rmdir()
        except OSError as problem:
            if problem.errno != errno.ENOTEMPTY or again == _TIMES - 1:
                raise


def remove_entry(entry: Path) -> None:
    """Remove a file or a folder, if it exists. Raises OSError."""
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    except FileNotFoundError:  # two may remove it at once
        return
    except RecursionError:  # a job can make more levels than shutil can remove
        why = "its folders are nested too deeply"
        raise OSError(errno.ENAMETOOLONG, why, str(entry)) from None
