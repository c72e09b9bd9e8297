"""The commands to type after a run has ended."""

from __future__ import annotations

from rsctl.api import Run
from rsctl.cli.views.results import is_empty
from rsctl.findings import JobState


def next_commands(run: Run, has_files: bool = True) -> str:
    """The commands that show more of a run; `has_files`: whether its files are still to be fetched.

    Leaves out commands that would show nothing.
    """
    parts = []
    if run.record.first_failure is not None:
        parts.append(f"its log: rsctl logs --failed {run.id}")
    elif run.state is not JobState.SUCCEEDED:
        parts.append(f"its log: rsctl logs {run.id}")
    parts.append(f"report: rsctl report {run.id}")
    if run.summary():
        parts.append(f"charts: rsctl metrics --plot {run.id}")
    if has_files and not all(map(is_empty, run.locations().values())):
        parts.append(f"its files: rsctl get {run.id}")
    return "   ".join(parts)
