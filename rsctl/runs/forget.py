"""Removes a run: its record and its folder go, outputs and checkpoints stay."""

from __future__ import annotations

import shutil
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import Store

_THE_JOBS_OWN = ("outputs", "checkpoints")


def forget(store: Store, run: str) -> list[Path]:
    """Remove a run from the store and its folder; returns the folders with files that stay.

    Raises RsctlError if the run is supervised, or something cannot be removed.
    """
    folder = RunFolder(run)
    if folder.path.is_dir() and folder.is_supervised():
        message = f"somebody looks after {run}: it runs, or its log is read"
        remedy = f"end it first: rsctl cancel {run}"
        raise RsctlError(ExitCode.USAGE, error("run", message, remedy))
    store.forget(run)
    try:
        return _remove(folder.path)
    except OSError as problem:
        message = f"{run} is forgotten, but {problem.filename} stays: {problem.strerror}"
        remedy = f"remove it yourself: sudo rm -r {folder.path}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("run-folder", message, remedy)) from None


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(True for _ in folder.iterdir())


def _remove(folder: Path) -> list[Path]:
    kept = [folder / name for name in _THE_JOBS_OWN if _has_files(folder / name)]
    for entry in [*folder.iterdir()] if folder.is_dir() else []:
        if entry in kept:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if folder.is_dir() and not kept:
        folder.rmdir()
    return kept
