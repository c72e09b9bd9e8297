"""Whether a failure is shown as the first one, or as the loss of a peer that its cause names."""

from __future__ import annotations

import pytest

from rsctl.cli.views.run_text import format_attempt
from rsctl.findings import Finding, error, warning
from rsctl.results.report.failure_section import headline
from rsctl.runs.stream.events import Attempt, Failure

SILENT = "reducer 0 ended the run during operation 7: rank 2 has been silent for 8 s"


@pytest.mark.parametrize(
    ("causes", "place"),
    [
        ([], "failed first"),
        ([error("worker-lost", SILENT, None)], "lost a peer"),
        ([error("reducer-lost", "reducer 0 has been silent for 8 s", None)], "lost a peer"),
        ([error("memory", "m", None), error("worker-lost", SILENT, None)], "failed first"),
        ([warning("reducer-lost", "the workers continue", None)], "failed first"),
    ],
)
def test_the_place_of_a_failure(causes: list[Finding], place: str) -> None:
    time = "2026-01-31T12:00:07.000000Z"
    failure = Failure(replica="worker-0", time=time, exit_code=1, rank=0, causes=causes)
    assert headline(failure, None) == f"worker-0 (rank 0) {place}: exit code 1 at 12:00:07 UTC"
    why = "".join(f"; {cause.message}" for cause in causes[:1])
    shown = format_attempt(Attempt(attempt=1, ended=time, failure=failure))
    assert shown == f"worker-0 (rank 0) {place}: exit code 1{why}"
