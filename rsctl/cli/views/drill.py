"""The result of a drill as a table."""

from __future__ import annotations

import typer

from rsctl.api.drill import Drill
from rsctl.api.drill_report import HEAD, VERDICTS, fault_row, summary
from rsctl.api.drill_verdict import FaultResult
from rsctl.cli.output import without_reader
from rsctl.cli.show import styled
from rsctl.cli.views.table import write_table
from rsctl.runs.stream.sanitize import sanitize_text

_COLORS = {"survived": "green", "not possible": "cyan"}


@without_reader()
def print_drill(found: Drill) -> None:
    """Print the table, and the sum of it."""
    write_table(
        [HEAD, *map(fault_row, found.faults)],
        right=("STRUCK", "RESUMED", "REPEATED", "EXIT", "LOST", "COST"),
        paint={"VERDICT": _paint},
    )
    typer.echo(sanitize_text(summary(found)))


def format_result(result: FaultResult) -> str:
    """The result of one fault in one line."""
    why = f": {'; '.join(result.reasons)}" if result.reasons else ""
    return sanitize_text(f"  {VERDICTS[result.verdict].lower()}{why}")


def _paint(text: str) -> str:
    return styled(text, fg=_COLORS.get(text.strip(), "red"))
