"""The section on failures of a run: its first failure, and findings."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.results.report.data import RunData
from rsctl.results.report.html import Markup, element, items, join, paragraph, preformatted, section
from rsctl.results.report.page import left_out
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import Failure

FAILURE_LINES = 40
FINDINGS = 50


def failure_part(run: RunRecord) -> Markup | None:
    """The replica that failed first, how, its last lines, known causes, and the later failures."""
    failure = run.first_failure
    if failure is None:
        return None
    causes = [
        paragraph(element("strong", "Cause: "), c.message, _remedy(c.remedy))
        for c in failure.causes
    ]
    victims = run.victims_text
    return section(
        "First failure",
        element(
            "div",
            paragraph(element("strong", headline(failure, run))),
            *causes,
            preformatted(failure.lines[-FAILURE_LINES:]) if failure.lines else None,
            paragraph(f"As a result, these failed: {victims}") if victims else None,
            class_="failure",
        ),
    )


def headline(failure: Failure, run: RunRecord | None) -> str:
    """Which replica failed first, how and when; how long after the start, if the run is given."""
    return failure.headline + failure.when(None if run is None else run.started or run.created)


def findings_part(data: RunData) -> Iterator[Markup]:
    """The findings from submitting and following the run."""
    if data.findings:
        texts = [
            join([element("strong", f"{f.severity}: "), f.message, _remedy(f.remedy)])
            for f in data.findings[:FINDINGS]
        ]
        more = left_out(len(data.findings) - FINDINGS, "finding")
        yield section("Findings", element("div", items(texts), class_="warning"), more)


def _remedy(remedy: str | None) -> str | None:
    return f" → {remedy}" if remedy else None
