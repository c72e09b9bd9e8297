"""Functions that the commands with the argument RUN share."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from rsctl import api
from rsctl.api.reconcile import ABOUT_RECORDS
from rsctl.cli.errors import show_error
from rsctl.cli.show import print_message, show_findings
from rsctl.cli.silence import silence_told
from rsctl.cli.tracking import resume_tracking
from rsctl.findings import ExitCode, RsctlError
from rsctl.runs.findings import NO_ANSWER
from rsctl.runs.folder import RunFolder
from rsctl.runs.stream.journal import tail_lines

if TYPE_CHECKING:
    from rsctl.api import Bench, Finding, Run


def find_run(reference: str, *, asks_cloud: bool = True) -> Run:
    """Return a run, updated; shows why it may be out of date. Raises RsctlError if there is none.

    A run in a cloud is updated only if `asks_cloud`: not for a command that itself asks the cloud
    next, and shows its error. Sends unsent data to its trackers in the background.
    """
    is_reconciled = asks_cloud or not api.awaited_clouds(reference)
    with silence_told(reference) if is_reconciled else nullcontext():
        handle = api.run(reference, on_outdated=show_outdated, is_reconciled=is_reconciled)
    resume_tracking(handle.record)
    return handle


def find_run_collected(reference: str) -> Run:
    """Return a run, as `find_run` does, with its log and metrics.

    Raises RsctlError, also if the cloud refuses; shows why it gives no answer.
    """
    handle = find_run(reference, asks_cloud=False)
    with silence_told(handle.id):
        handle.collect()  # before it is reconciled, which would tell the same error
    return find_run(handle.id)


def find_run_or_bench(reference: str) -> Run | Bench:
    """Return a run, as `find_run` does, or a bench. Raises RsctlError if none or several match."""
    with silence_told(reference):
        handle = api.find(reference, on_outdated=show_outdated)
    if isinstance(handle, api.Run):
        resume_tracking(handle.record)
    return handle


def find_collected(reference: str) -> tuple[Run | Bench, int]:
    """Return a run with its log and metrics, or a bench, and 0. Raises RsctlError as of `find_run`.

    If the cloud of a run cannot be asked, shows why and how old the stored data is; returns the
    exit code of that error.
    """
    handle = api.find(reference, is_reconciled=False)
    if not isinstance(handle, api.Run):
        return handle, 0
    try:
        with silence_told(handle.id):
            handle.collect()  # before it is reconciled, which would tell the same error
            handle = api.run(handle.id, on_outdated=_require_answer)
        resume_tracking(handle.record)
    except RsctlError as problem:
        print_message(
            f"{handle.id} may be out of date; its newest line here is of {_newest(handle)}:"
        )
        return handle, show_error(problem)
    return handle, 0


def _require_answer(name: str, findings: tuple[Finding, ...]) -> None:
    """Raise RsctlError if a cloud gave no answer; otherwise show the findings."""
    if [finding.code for finding in findings] == [NO_ANSWER]:
        raise RsctlError(ExitCode.ENVIRONMENT, *findings)
    show_outdated(name, findings)


def _newest(run: Run) -> str:
    """The time of the newest stored line of a run; of a run without one, its creation."""
    logs = [(RunFolder(run.id).log(name), name) for name in run.replicas]
    times = [line.time for path, name in logs for line in tail_lines(path, name, 1)]
    return max(times, default=run.record.created)


def show_outdated(name: str, findings: tuple[Finding, ...]) -> None:
    """Show why the stored data of a run may be out of date."""
    if not findings:
        print_message(f"{name} may also be out of date")
        return
    if findings[0].code not in ABOUT_RECORDS:
        print_message(f"{name} may be out of date:")
    show_findings(findings)
