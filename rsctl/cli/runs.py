"""What the commands that take RUN have in common."""

from __future__ import annotations

from rsctl import api
from rsctl.api import Bench, Finding, Run
from rsctl.cli.show import print_message, show_findings
from rsctl.cli.tracking import resume_tracking


def find_run(reference: str) -> Run:
    """A run, brought up to date; shows why it may not be. Raises RsctlError if there is none.

    What its trackers have missed is sent in the background.
    """
    found = api.run(reference, on_outdated=show_outdated)
    resume_tracking(found.record)
    return found


def find_run_or_bench(reference: str) -> Run | Bench:
    """A run, as by `find_run`, or a bench. Raises RsctlError if there is none, or several."""
    found = api.find(reference, on_outdated=show_outdated)
    if isinstance(found, Run):
        resume_tracking(found.record)
    return found


def show_outdated(name: str, findings: tuple[Finding, ...]) -> None:
    """Show why what is known of a run may be out of date."""
    if not findings:
        print_message(f"{name} may be out of date too")
        return
    if findings[0].code != "damaged":
        print_message(f"{name} may be out of date:")
    show_findings(findings)
