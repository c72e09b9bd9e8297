"""A stall as a finding and as the end of a run, and what counts as progress in a log."""

from __future__ import annotations

import pytest

from rsctl.findings import error, warning
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.stalls.findings import collapse_finding, is_output, stall_failure, stall_finding
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


LOADER = [
    "Exception in thread Thread-1 (load):",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.11/threading.py", line 1038, in _bootstrap_inner',
    "    self.run()",
    '  File "/app/train.py", line 7, in load',
    "    queue.put(rows[9])",
    "IndexError: list index out of range",
]
FORKED = ["Process Process-1:", *LOADER[1:]]
RESTART = '{"rsctl": "restart"}'


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([*LOADER, "step 3"], "; a thread of worker-0 has ended by {error}"),
        (FORKED, "; a process of worker-0 has ended by {error}"),
        (
            [
                f"[worker-0/{local}] {line}"
                for line in LOADER
                for local in (1, 0)
                if local or line != LOADER[0]
            ],
            "; a thread of worker-0/1 has ended by {error}",
        ),
        ([*LOADER, RESTART, "step 1"], ""),
        ([*LOADER, '{"rsctl": "exits", "lock": "a"}', "step 1"], ""),
        (LOADER[1:], ""),  # handled
        (["step 1"], ""),
        ([], ""),
    ],
)
def test_a_stall_names_the_exception_of_a_thread_for_which_the_rank_waits(
    lines: list[str], end: str
) -> None:
    folder = RunFolder("job-1")
    folder.create(JOB)
    folder.log("worker-0").write_text(
        "".join(f"2026-01-31T12:00:00.000000Z e {line}\n" for line in lines)
    )
    error = "IndexError: list index out of range, at /app/train.py:7 in load"
    message = f"the job has made no progress for 90.5 s: rank 0 waits{end.format(error=error)}"
    for replicas in (("worker-0",), ()):  # the second names none
        verdict = Verdict(kind="idle", message="rank 0 waits", replicas=replicas)
        assert stall_finding(verdict, JOB).message == message
    verdict = Verdict(kind="idle", message="rank 1 waits", replicas=("worker-1",))
    assert stall_finding(verdict, JOB).message.endswith("rank 1 waits")


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
