"""A gate's verdict as a table on a terminal, as JSON, and as annotations in GitHub Actions."""

from __future__ import annotations

import os
from contextlib import suppress

import typer

from rsctl.api import Gate, append_github_summary, gate_table, github_annotations
from rsctl.cli.fence import write_workflow_command
from rsctl.cli.output import without_reader
from rsctl.cli.show import print_important, print_json, print_message
from rsctl.cli.views.table import write_table
from rsctl.findings import ExitCode
from rsctl.runs.stream.sanitize import sanitize_text


@without_reader()
def print_gate(gate: Gate, output: str) -> None:
    """Print the outcome on standard output."""
    if output == "json":
        print_json(gate)
        return
    for difference in gate.differences:
        print_message(sanitize_text(f"differs: {difference}"))
    if gate.checks:
        write_table(gate_table(gate))
    for check in gate.worst_first:
        if check.reason:
            print_message(sanitize_text(f"{check.title}: {check.reason}"))
    for part in gate.moved:
        kind = "longer in each step" if part.unit == "s" else "in each step"
        print_message(sanitize_text(f"{kind}: {part}"))
    if gate.missing_steps:
        print_message(f"what became longer is unknown: {gate.missing_steps}")
    for difference in gate.refused:
        print_important(sanitize_text(f"the baseline is for a different measurement: {difference}"))
    typer.echo(gate.headline)


def annotate_github(gate: Gate, file: str | None, has_passed: bool) -> None:
    """Write annotations and the step's summary if this runs in GitHub Actions.

    A command that exits with 0 has no errors, only warnings.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    # The runner takes a path from its workspace, which a container of a step's own may not have.
    place = file and os.path.relpath(file, os.environ.get("GITHUB_WORKSPACE") or ".")
    with suppress(OSError):  # of a pipe whose reader has gone
        for line in github_annotations(gate, file if place and place.startswith("..") else place):
            line = f"::warning {line.partition(' ')[2]}" if has_passed else line
            write_workflow_command(line)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    try:
        append_github_summary(gate, summary)
    except OSError as problem:
        why = f"cannot write {summary}: {problem.strerror or problem}"
        print_message(sanitize_text(f"the summary of this step is not written: {why}"))


def exit_code(gate: Gate, is_tolerant: bool) -> int:
    """The exit code of a gate, with or without `--allow-inconclusive`."""
    return int(ExitCode.SUCCEEDED) if is_tolerant and gate.is_tolerable else gate.exit_code
