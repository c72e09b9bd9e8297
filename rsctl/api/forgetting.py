"""Removes runs from the store, with their logs."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import msgspec

from rsctl.api.arguments import check_text
from rsctl.api.prune.uses import used_runs
from rsctl.api.reconcile import ignore, reconcile_run
from rsctl.bench.records import Benches
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.runs.forget import forget
from rsctl.runs.home import run_directory
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store, StoreError
from rsctl.runs.store_errors import DiskFull
from rsctl.targets import in_cloud

_CLOSING_SECONDS = 10.0
"""The process that has recorded a run's end uses its folder for a moment longer."""


class Forgotten(msgspec.Struct, frozen=True):
    """A forgotten run: the folders that remain, and the job that may still run in a cloud."""

    run: str
    kept: list[Path]
    left: str | None = None


def forget_run(reference: str, *, force: bool = False) -> Forgotten:
    """Remove a run from the store, with its log; its outputs and checkpoints stay.

    Raises RsctlError if it has not ended or a tracker lacks data of it, unless `force`, if it has a
    supervisor, and if another run or a bench uses files of its folder that would be removed.
    """
    check_text("reference", reference)
    with closing(Store()) as store:
        name = store.identify(reference)
        going = _unfinished(store, name)
        if going is not None and not force:
            raise RsctlError(ExitCode.USAGE, _goes_on(going))
        if not force:
            _require_sent(store, name)
        _require_unused(store, name)
        left = going.url if going and in_cloud(going.url) else None
        seconds = 0.0 if going else _CLOSING_SECONDS
        return Forgotten(name, forget(store, name, seconds=seconds), left)


def _unfinished(store: Store, name: str) -> RunRecord | None:
    """The run if it has not ended by its last known state; None also if it is damaged."""
    try:
        record = store.get(name)
        if record and not record.state.is_final and not in_cloud(record.url):
            reconcile_run(record, ignore)
            record = store.get(name)
    except StoreError:
        return None
    return None if record is None or record.state.is_final else record


def _require_sent(store: Store, name: str) -> None:
    """Raise RsctlError if a tracker has not received all data of a run."""
    from rsctl.results.tracking.background import lacking

    try:
        record = store.get(name)
    except StoreError:
        return
    if record and (lacks := lacking(record)):
        message, send = lacks
        remedy = f"{send}   or remove the run without sending: --force"
        raise RsctlError(ExitCode.USAGE, error("run", message, remedy))


def _require_unused(store: Store, name: str) -> None:
    """Raise RsctlError if another run or a bench points into the folder of a run.

    On a full disk benches cannot be read, and the run makes the space for that.
    """
    users = [(run.run, run.plan) for run in store.runs() if run.run != name]
    with suppress(DiskFull):
        users += [(b.bench, b.spec) for b in Benches(store).benches() if name not in b.all_runs]
    for user, value in users:
        if name in used_runs(value, is_everything=False):
            message = f"{user} uses the files of {name} in {run_directory(name)}"
            remedy = f"remove {user} before it, if you no longer need its results"
            raise RsctlError(ExitCode.USAGE, error("run", message, remedy))


def _goes_on(run: RunRecord) -> Finding:
    message = f"{run.run} is {run.state.value}, according to its last known state"
    remedy = f"cancel it: rsctl cancel {run.run}   or remove it without cancelling: --force"
    return error("run", message, remedy)
