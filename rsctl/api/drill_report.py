"""The JUnit XML of a drill."""

from __future__ import annotations

from collections.abc import Sequence

from rsctl.api.drill_verdict import FaultResult
from rsctl.atomic_file import write_file
from rsctl.bench.formats import junit


def write_junit(path: str, job: str, faults: Sequence[str], results: Sequence[FaultResult]) -> None:
    """Write JUnit XML with a test case for each fault; without a result it is an error.

    Raises RsctlError.
    """
    known = {result.fault: result for result in results}
    cases = [_case(name, known.get(name)) for name in faults]
    write_file(path, junit.cases_text(job, "drill", cases).encode())


def _case(name: str, result: FaultResult | None) -> junit.JunitCase:
    if result is None:
        return junit.JunitCase(name, "error", junit.NOT_YET)
    kinds = {"survived": None, "not-possible": "skipped", "not-struck": "error"}
    kind = kinds.get(result.verdict, "failure")
    lines = [*result.reasons, *result.remarks, *(f"run {run}" for run in result.runs)]
    message = result.reasons[0] if result.reasons else ""
    return junit.JunitCase(name, kind, message, "\n".join(lines), result.seconds)
