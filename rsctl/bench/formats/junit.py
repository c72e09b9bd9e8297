"""JUnit XML of a gate: a test suite of its cells' runs, and one of its checks.

It is written before anything runs, with every cell in it as an error, and again at the end: a
process that dies in between leaves failures, not gaps. The dialect is the one of Jenkins and of
Ant's task, which GitHub actions, GitLab and Jenkins read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from rsctl.bench.checks import MetricCheck
from rsctl.bench.formats.text import format_check
from rsctl.bench.formats.xml import attribute, text
from rsctl.bench.gate import Gate
from rsctl.bench.results import CellRuns, cell_label
from rsctl.bench.verdict import Verdict

NOT_YET = "it has not run"

_KINDS = {
    Verdict.REGRESSED: "failure",
    Verdict.NO_DATA: "error",
    Verdict.INCONCLUSIVE: "error",
}


class JunitCase(NamedTuple):
    """One test case: `kind` is `failure`, `error` or `skipped`, or None if it passed.

    The seconds of a cell's runs are in its own case; a check takes no time beyond them.
    """

    name: str
    kind: Optional[str] = None
    message: str = ""
    details: str = ""
    seconds: float = 0.0


def before(name: str, cells: Iterable[str], checks: Iterable[str], reason: str = NOT_YET) -> str:
    """The file before anything has run: all is an error. Cells and checks by their names."""
    suites = [("runs", [JunitCase(cell, "error", reason) for cell in cells])]
    judged = [JunitCase(check, "error", reason) for check in checks]
    return _file(name, suites + ([("gate", judged)] if judged else []))


def after(name: str, cells: Sequence[CellRuns], gate: Gate | None, tolerant: bool = False) -> str:
    """The file at the end; without a gate only the cells' runs. `tolerant`: undecided checks
    and missing values are skipped, as for --allow-inconclusive, and not passed.
    """
    tolerant = tolerant and gate is not None and not (gate.refused or gate.has_failed_runs)
    suites = [("runs", [_runs(cell, tolerant) for cell in cells])]
    if gate is not None:
        judged = [_check(check, tolerant) for check in gate.checks]
        if gate.is_too_good:
            details = "\n".join(gate.outdated)
            judged.append(JunitCase("baseline", "failure", gate.outdated_headline, details))
        suites.append(("gate", judged or [JunitCase("gate", "error", gate.headline)]))
    return _file(name, suites)


def cases_text(name: str, kind: str, cases: Sequence[JunitCase]) -> str:
    """A file with one test suite, such as the faults of a drill."""
    return _file(name, [(kind, cases)])


def runs_name(cell: dict[str, object]) -> str:
    """The name of the test case of a cell's runs."""
    return cell_label(cell) or "runs"


def _runs(cell: CellRuns, tolerant: bool) -> JunitCase:
    name = runs_name(cell.cell)
    if not cell.lost:
        return JunitCase(name, seconds=cell.seconds)
    kind = "skipped" if tolerant else "failure"
    return JunitCase(name, kind, cell.lost[0], "\n".join(cell.lost), cell.seconds)


def _check(check: MetricCheck, tolerant: bool) -> JunitCase:
    kind = _KINDS.get(check.verdict)
    if tolerant and kind == "error":
        kind = "skipped"
    return JunitCase(
        check.title, kind, f"{check.verdict.value}: {format_check(check)}", format_check(check)
    )


def _file(name: str, suites: Sequence[tuple[str, Sequence[JunitCase]]]) -> str:
    cases = [case for _, suite in suites for case in suite]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={attribute(name)} {_counts(cases)}>",
    ]
    for kind, suite in suites:
        skipped = sum(case.kind == "skipped" for case in suite)
        counts = _counts(suite) + (f' skipped="{skipped}"' if skipped else "")
        lines.append(f"  <testsuite name={attribute(f'{name} {kind}')} {counts}>")
        lines += [_case(case, f"{name}.{kind}") for case in suite]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _counts(cases: Sequence[JunitCase]) -> str:
    failures = sum(case.kind == "failure" for case in cases)
    errors = sum(case.kind == "error" for case in cases)
    seconds = sum(case.seconds for case in cases)
    return f'tests="{len(cases)}" failures="{failures}" errors="{errors}" time="{seconds:.3f}"'


def _case(case: JunitCase, group: str) -> str:
    names = f"name={attribute(case.name)} classname={attribute(group)}"
    head = f'    <testcase {names} time="{case.seconds:.3f}"'
    if case.kind is None:
        return f"{head}/>"
    if case.kind == "skipped":
        return f"{head}>\n      <skipped message={attribute(case.message)}/>\n    </testcase>"
    problem = f"<{case.kind} message={attribute(case.message)} type={attribute(case.kind)}>"
    return f"{head}>\n      {problem}{text(case.details)}</{case.kind}>\n    </testcase>"
