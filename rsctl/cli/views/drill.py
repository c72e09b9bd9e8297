"""The result of a drill as a table."""

from __future__ import annotations

import typer

from rsctl.api.drill import Drill
from rsctl.api.drill_verdict import FaultResult
from rsctl.cli.show import styled
from rsctl.cli.views.table import write_table
from rsctl.runs.stream.formatting import format_number
from rsctl.runs.stream.sanitize import sanitize_text

_VERDICTS = {
    "survived": "survived",
    "not-survived": "NOT SURVIVED",
    "not-struck": "NOT STRUCK",
    "not-possible": "not possible",
}
_COLORS = {"survived": "green", "not-possible": "cyan"}
_HEAD = (
    *("FAULT", "VERDICT", "COURSE", "CHECKPOINT", "STRUCK", "RESUMED", "REPEATED"),
    *("CURVE", "EXIT", "LOST", "COST", "WHY"),
)


def print_drill(found: Drill) -> None:
    """Print the table, and the sum of it."""
    rows = [_HEAD, *map(_row, found.faults)]
    write_table(
        rows,
        right=("STRUCK", "RESUMED", "REPEATED", "EXIT", "LOST", "COST"),
        paint={"VERDICT": _paint},
    )
    struck = [result for result in found.faults if result.verdict != "not-possible"]
    survived = sum(result.verdict == "survived" for result in struck)
    where = f"{found.target}, rehearsed" if found.rehearsed else found.target
    typer.echo(
        f"{found.job} on {where}: survived {survived} of {len(struck)} faults at step "
        f"{found.struck_at}, compared with {sanitize_text(found.metric)} of {found.reference}"
    )


def format_result(result: FaultResult) -> str:
    """The result of one fault in one line."""
    why = f": {'; '.join(result.reasons)}" if result.reasons else ""
    return sanitize_text(f"  {_VERDICTS[result.verdict].lower()}{why}")


def _paint(text: str) -> str:
    verdict = next((v for v, shown in _VERDICTS.items() if shown == text.strip()), "")
    return styled(text, fg=_COLORS.get(verdict, "red"))


def _row(result: FaultResult) -> tuple[str, ...]:
    lost = result.seconds_lost
    dollars = result.dollars_lost
    return (
        result.fault,
        _VERDICTS[result.verdict],
        result.course or "",
        _checkpoint(result),
        _number(result.struck_at),
        _number(result.resumed_at),
        _number(result.repeated),
        _curve(result),
        _number(result.exit_code),
        "" if lost is None else f"{lost:.1f} s",
        "" if dollars is None else f"${dollars:.4f}",
        "; ".join([*result.reasons, *result.remarks]),
    )


def _checkpoint(result: FaultResult) -> str:
    files = result.checkpoint
    if files is None:
        return ""
    if not files.files:
        return "none"
    if files.damaged:
        return "damaged"
    return "whole" if files.checked else "present"


def _curve(result: FaultResult) -> str:
    curve = result.curve
    if curve is None or not curve.steps:
        return ""
    return "same" if curve.is_same else f"differs by {format_number(curve.difference)}"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
