"""Removes the selected items in sequence.

The next prune finds everything that a killed prune leaves: a bench is removed before its runs,
which then are ordinary runs, a run's folder is marked before its record is removed
(`rsctl.runs.forget`), and a bench's folder without a record is a leftover.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from rsctl.api.prune.items import Item, Kept, PruneLimits
from rsctl.api.prune.selection import has_ended
from rsctl.bench.checkouts import remove_checkout
from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.forget import forget, remove_entry, remove_folder
from rsctl.runs.home import home, private_folder
from rsctl.runs.locks import try_lock
from rsctl.runs.store import Store

_LOCK = "prune.lock"
_POLL_SECONDS = 0.2


@contextmanager
def one_at_a_time(on_wait: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process prunes this RSCTL_HOME; calls `on_wait` before it waits.

    Raises RsctlError if the folder cannot be written.
    """
    try:
        private_folder(home())
        lock = try_lock(home() / _LOCK)
        if lock is None:
            on_wait()
        while lock is None:
            sleep(_POLL_SECONDS)
            lock = try_lock(home() / _LOCK)
    except OSError as problem:
        message = f"cannot write {home()}: {problem.strerror}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("store", message)) from None
    try:
        yield
    finally:
        os.close(lock)


def remove(store: Store, item: Item, limits: PruneLimits) -> Kept | None:
    """Remove a run, a bench, a folder or a bucket; returns why it is kept, if it is.

    Raises RsctlError if something cannot be removed.
    """
    if item.kind == "bench":
        return _remove_bench(store, item, limits)
    if item.kind == "run":
        return _remove_run(store, item.name, limits)
    if item.kind == "checkout":
        return _remove_checkout(item.name)
    if item.kind == "bisect":
        remove_tree(home() / "bisect" / item.name)
        return None
    if item.kind == "folder":
        remove_folder(item.name, limits.has_results)
        remove_tree(BenchFolder(item.name).path)
    else:
        remove_tree(bucket_path(item.name))
    return None


def _remove_checkout(name: str) -> Kept | None:
    try:
        is_removed = remove_checkout(name)
    except OSError as problem:
        message = f"{problem.filename} stays: {problem.strerror}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("run-folder", message)) from None
    return None if is_removed else Kept(name, "a gate checks it out")


def bucket_path(location: str) -> Path:
    """The folder of a bucket `gs://NAME` or `s3://NAME`."""
    scheme, _, name = location.partition("://")
    return home() / "rehearsal" / scheme / name


def remove_tree(path: Path) -> None:
    """Remove a folder. Raises RsctlError."""
    try:
        remove_entry(path)
    except OSError as problem:
        message = f"{problem.filename} stays: {problem.strerror}"
        remedy = f"remove it yourself: sudo rm -r {shlex.quote(str(path))}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("run-folder", message, remedy)) from None


def _remove_bench(store: Store, item: Item, limits: PruneLimits) -> Kept | None:
    """Its lock is held meanwhile, so that no process continues it."""
    benches, folder = Benches(store), BenchFolder(item.name)
    try:
        lock = folder.lock()
    except OSError as problem:
        message = f"cannot write {folder.path}: {problem.strerror}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("run-folder", message)) from None
    if lock is None:
        return Kept(item.name, "another process has continued it")
    try:
        bench = benches.get(item.name)
        if bench is not None and not bench.state.is_final:
            return Kept(item.name, "another process has continued it")
        if not all(has_ended(store, run) for run in item.runs):
            return Kept(item.name, "one of its runs is in use")
        benches.forget(item.name)
        remove_tree(folder.path)
        kept = [_remove_run(store, run, limits) for run in item.runs]
        return next(filter(None, kept), None)
    finally:
        os.close(lock)


def _remove_run(store: Store, run: str, limits: PruneLimits) -> Kept | None:
    if not has_ended(store, run):
        return Kept(run, "it is in use")
    try:
        forget(store, run, limits.has_results)
    except RsctlError as problem:
        if problem.exit_code is not ExitCode.USAGE:
            raise
        return Kept(run, "it is in use")
    return None
