"""Removes runs from the store, with their logs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec

from rsctl.api.reconcile import ignore, reconcile_run
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.runs.forget import forget
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store, StoreError
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

    Raises RsctlError if it has not ended, unless `force`, and if it has a supervisor.
    """
    with closing(Store()) as store:
        name = store.identify(reference)
        going = _unfinished(store, name)
        if going is not None and not force:
            raise RsctlError(ExitCode.USAGE, _goes_on(going))
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


def _goes_on(run: RunRecord) -> Finding:
    message = f"{run.run} is {run.state.value}, according to its last known state"
    remedy = f"cancel it: rsctl cancel {run.run}   or remove it without cancelling: --force"
    return error("run", message, remedy)
