"""A stall as a finding and as the end of a run, and what counts as progress in a log."""

from __future__ import annotations

import pytest

from rsctl.findings import error, warning
from rsctl.runs.folder import RunDescription
from rsctl.runs.stalls.findings import collapse_finding, is_output, stall_failure
from rsctl.runs.stalls.verdict_type import Verdict

JOB = RunDescription(
    run="job-1", target="process", request={}, replicas=["worker-0", "worker-1"], stall=90.5
)


@pytest.mark.parametrize(
    ("guilty", "replicas", "rank", "replica"),
    [
        ((3, 2), ("worker-1",), 3, "worker-1"),
        ((), ("worker-1",), None, "worker-1"),
        ((0, 2), ("worker-0", "worker-1"), 0, "worker-0"),
        ((), (), None, "worker-1"),
    ],
)
def test_the_failure_of_a_run_that_is_ended_for_its_stall(
    guilty: tuple[int, ...], replicas: tuple[str, ...], rank: int | None, replica: str
) -> None:
    verdict = Verdict(
        kind="missing", message="rank 3 waits", guilty=guilty, replicas=replicas, lines=("a", "b")
    )
    failure = stall_failure(verdict, JOB, ["worker-1"])
    assert (failure.rank, failure.replica) == (rank, replica)
    assert (failure.exit_code, failure.lines) == (124, ["a", "b"])
    message = "the job has made no progress for 90.5 s: rank 3 waits"
    remedy = "to see what each rank does: rsctl debug job-1"
    assert failure.causes == [warning("stall", message, remedy, "limits.stall")]


def test_the_cause_of_a_failure_of_different_collectives() -> None:
    assert collapse_finding(Verdict(kind="mismatch", message="rank 1 called broadcast")) == error(
        "collective-mismatch",
        "rank 1 called broadcast",
        "call the same collectives with the same shapes, in the same order, on all ranks",
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"loss=1\n", True),
        (b"", False),
        (b"\n\n", False),
        (b'{"rsctl": "telemetry", "cpu": 1}\n', False),
        (b'{"rsctl": "telemetry", "cpu": 1}\nx\n', True),
        (b'{"rsctl": "metrics", "loss": 1}\n', True),
        (b'{"rsctl": "redraws", "lines": []}\n', True),
        (b'{"rsctl": "stall"}\n{"rsctl": "rank"}', False),
    ],
)
def test_what_a_program_prints_is_progress_and_what_the_runtime_prints_is_not(
    lines: bytes, expected: bool
) -> None:
    assert is_output(lines) is expected
