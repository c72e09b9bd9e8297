"""`rsctl track RUN…`: send a run's unsent data to its trackers."""

from __future__ import annotations

from typing import Annotated

import typer

from rsctl.api import RunRecord, run
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.results.tracking.background import missing_lines, start, wait_for_others
from rsctl.results.tracking.cursor import plan_of, unfinished
from rsctl.results.tracking.sender import is_sent


@make_command("track")
def command(
    references: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs, by ID, unique prefix, @last, or URL."),
    ],
    output: options.Output = "text",
) -> int:
    """Send a run's unsent data to its trackers: parameters, metrics, the result.

    Nothing is sent twice. Exit code: 0, or 3 if a tracker is still incomplete.
    """
    runs = [_tracked(reference) for reference in references]
    for one in runs:
        wait_for_others(one.run)
    behind = [one.run for one in runs if unfinished(one)]
    if behind:
        start(behind, follow=False).wait()
    if output == "json":
        print_json({"runs": [_shown(one) for one in runs]})
    for line in [line for one in runs for line in missing_lines(one)]:
        print_message(line)
    is_behind = any(is_sent(one, t) for one in runs for t, _ in unfinished(one))
    return int(ExitCode.ENVIRONMENT if is_behind else ExitCode.SUCCEEDED)


def _tracked(reference: str) -> RunRecord:
    handle = run(reference, is_reconciled=False)
    handle.collect()  # before it is reconciled, which would tell the same error
    record = run(handle.id, on_outdated=show_outdated).record
    if plan_of(record) is None:
        message = f"{handle.id} has no trackers: its job has no tracking"
        remedy = "add tracking: [{tensorboard: DIR}] to the job; or use rsctl export"
        raise RsctlError(ExitCode.USAGE, error("tracking", message, remedy))
    return record


def _shown(record: RunRecord) -> dict[str, object]:
    plan = plan_of(record)
    behind = unfinished(record)
    trackers = [
        {
            "kind": tracker.kind,
            "location": tracker.location,
            "complete": tracker not in [t for t, _ in behind],
            "problem": next((c.problem for t, c in behind if t == tracker), None),
        }
        for tracker in (plan.trackers if plan else [])
    ]
    return {"run": record.run, "trackers": trackers}
