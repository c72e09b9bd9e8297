"""Functions that the commands with the argument RUN share."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from rsctl import api
from rsctl.api.reconcile import ABOUT_RECORDS
from rsctl.cli.show import print_message, show_findings
from rsctl.cli.silence import silence_told
from rsctl.cli.tracking import resume_tracking

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


def find_run_or_bench(reference: str) -> Run | Bench:
    """Return a run, as `find_run` does, or a bench. Raises RsctlError if none or several match."""
    with silence_told(reference):
        handle = api.find(reference, on_outdated=show_outdated)
    if isinstance(handle, api.Run):
        resume_tracking(handle.record)
    return handle


def show_outdated(name: str, findings: tuple[Finding, ...]) -> None:
    """Show why the stored data of a run may be out of date."""
    if not findings:
        print_message(f"{name} may also be out of date")
        return
    if findings[0].code not in ABOUT_RECORDS:
        print_message(f"{name} may be out of date:")
    show_findings(findings)
