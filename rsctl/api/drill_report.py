"""The result of a drill as JUnit XML, as a section of the HTML report, and as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from rsctl.api.drill import Drill
from rsctl.api.drill_verdict import FaultResult
from rsctl.atomic_file import write_file
from rsctl.bench.formats import junit
from rsctl.results.report.build import make_report
from rsctl.results.report.html import paragraph, table
from rsctl.results.report.page import Page
from rsctl.runs.store import Store
from rsctl.runs.stream.formatting import format_number

VERDICTS: Mapping[str, str] = {
    "survived": "survived",
    "not-survived": "NOT SURVIVED",
    "not-struck": "NOT STRUCK",
    "not-possible": "not possible",
}
"""The verdicts as people read them."""

HEAD = (
    *("FAULT", "VERDICT", "COURSE", "CHECKPOINT", "STRUCK", "RESUMED", "REPEATED"),
    *("CURVE", "EXIT", "LOST", "COST", "WHY"),
)
"""The columns of `fault_row`."""


def write_junit(path: str, job: str, faults: Sequence[str], results: Sequence[FaultResult]) -> None:
    """Write JUnit XML with a test case for each fault; without a result it is an error.

    Raises RsctlError.
    """
    known = {result.fault: result for result in results}
    cases = [_case(name, known.get(name)) for name in faults]
    write_file(path, junit.cases_text(job, "drill", cases).encode())


def write_html(path: str, drill: Drill) -> None:
    """Write a report that opens with the verdicts, and has all runs of the drill.

    Raises RsctlError and StoreError.
    """
    names = [drill.reference, *(run for result in drill.faults for run in result.runs)]

    def first(page: Page) -> None:
        head = [name.lower() for name in HEAD]
        rows = [fault_row(result) for result in drill.faults]
        page.add("Drill", paragraph(summary(drill)), table(head, rows))

    with closing(Store()) as store:
        runs = [run for name in names if (run := store.get(name)) is not None]
        write_file(path, make_report(store, runs, {}, first=first).html.encode())


def summary(drill: Drill) -> str:
    """The number of faults that the job survived, in a sentence."""
    struck = [result for result in drill.faults if result.verdict != "not-possible"]
    survived = sum(result.verdict == "survived" for result in struck)
    where = f"{drill.target}, rehearsed" if drill.rehearsed else drill.target
    return (
        f"{drill.job} on {where}: survived {survived} of {len(struck)} faults at step "
        f"{drill.struck_at}, compared with {drill.metric} of {drill.reference}"
    )


def fault_row(result: FaultResult) -> tuple[str, ...]:
    """The result of one fault as texts, one for each column of `HEAD`."""
    lost, dollars = result.seconds_lost, result.dollars_lost
    return (
        result.fault,
        VERDICTS[result.verdict],
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


def _case(name: str, result: FaultResult | None) -> junit.JunitCase:
    if result is None:
        return junit.JunitCase(name, "error", junit.NOT_YET)
    kinds = {"survived": None, "not-possible": "skipped", "not-struck": "error"}
    kind = kinds.get(result.verdict, "failure")
    lines = [*result.reasons, *result.remarks, *(f"run {run}" for run in result.runs)]
    message = result.reasons[0] if result.reasons else ""
    return junit.JunitCase(name, kind, message, "\n".join(lines), result.seconds)


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
