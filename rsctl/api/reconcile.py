"""Reconciles runs with their jobs; an error of one run is a warning about that run alone."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from contextlib import closing, suppress

from msgspec.structs import replace

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs.final_state import with_final_state
from rsctl.runs.home import is_rehearsed
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.runs.waiting import Waiting, waiting_of
from rsctl.targets import get, in_cloud

OnOutdated = Callable[[str, "tuple[Finding, ...]"], None]
"""Gets the id of a run that may be out of date, and why; nothing if that was reported before of
another run."""

ABOUT_RECORDS = frozenset({"damaged", "records-lost"})
"""The codes of findings about the stored records themselves; others say why a run may be out of
date."""


def ignore(_run: str, _findings: tuple[Finding, ...]) -> None:
    """For callers that ignore why a run may be out of date."""


def reconcile_all(runs: Iterable[RunRecord], on_outdated: OnOutdated) -> None:
    """Reconcile runs, each by itself.

    If this environment cannot reach a cloud, for example without credentials, the cloud is not
    asked again for every other run.
    """
    lost: set[str] = set()
    for run in runs:
        is_in_cloud = is_elsewhere(run)
        if is_in_cloud and run.target in lost:
            on_outdated(run.run, ())
        elif reconcile_run(run, on_outdated) is ExitCode.ENVIRONMENT and is_in_cloud:
            lost.add(run.target)


def is_elsewhere(run: RunRecord) -> bool:
    """Whether the job of a run is not on this machine."""
    return in_cloud(run.url) is not None and not is_rehearsed(run.run)


def reconcile_run(run: RunRecord, on_outdated: OnOutdated) -> ExitCode:
    """Reconcile a run with its job; if that fails, return its last known state.

    Any error is a warning about this one run: it must not affect other runs.
    """
    try:
        if emulator.is_lost(run.run):
            clean_up_dead_emulators()
        get(run.target).reconcile(run.run)
        return ExitCode.SUCCEEDED
    except Exception as problem:  # noqa: BLE001 - a damaged folder may raise anything
        failure = problem if isinstance(problem, RsctlError) else _unforeseen(problem)
    finally:
        with suppress(Exception):
            get(run.target).release(run.run)
    warnings = tuple(replace(finding, severity="warning") for finding in failure.findings)
    on_outdated(run.run, warnings)
    return failure.exit_code


def reconciled(run: RunRecord) -> RunRecord:
    """A run, reconciled; if that is not possible, the reason was reported when it was found."""
    if not run.state.is_final:
        with suppress(RsctlError):
            get(run.target).reconcile(run.run)
    return latest(run)


def awaited(run: RunRecord) -> RunRecord:
    """A run whose end a caller waits for, reconciled.

    Raises DiskFull if the run has ended and its end cannot be recorded, and ResultUnknown if its
    target has not told the state for long.
    """
    if not run.state.is_final:
        try:
            get(run.target).reconcile(run.run)
        except ResultUnknown:
            raise
        except DiskFull:
            if not latest(run).state.is_final:
                raise
        except RsctlError:  # it was reported as it was found
            pass
    return latest(run)


def latest(run: RunRecord) -> RunRecord:
    """The stored record of a run."""
    with closing(Store()) as store:
        return with_final_state(store.get(run.run) or run)


def read_waiting(run: str) -> Waiting | None:
    """Why a run waits for machines, by the store; None if it does not wait."""
    with closing(Store()) as store:
        record = store.get(run)
    return waiting_of(record) if record is not None else None


def _unforeseen(problem: Exception) -> RsctlError:
    remedy = "to remove its records: rsctl forget"
    if isinstance(problem, OSError):
        if problem.errno == errno.EROFS:
            remedy = "make its disk writable"
        file = f"{problem.filename}: " if problem.filename else ""
        message = f"{file}{problem.strerror or problem}"
    else:
        message = f"{type(problem).__name__}: {problem}"
    return RsctlError(ExitCode.REFUSED, error("run", message, remedy))


def clean_up_dead_emulators() -> None:
    """Remove the nodes that killed emulators have left."""
    from rsctl.targets.managed.emulator.nodes.owner import clean_up_dead

    clean_up_dead()
