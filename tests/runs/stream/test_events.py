"""What is said of the first failure of a job, and of the replicas that failed because of it."""

from __future__ import annotations

import msgspec
import pytest

from rsctl.findings import Finding, JobState, error, warning
from rsctl.runs.records import Replica, RunRecord
from rsctl.runs.stream.events import Failure
from tests.runs.conftest import a_run, at

LATE = error("early-end", "worker-2 ended before the others")
LOST = error("worker-lost", "rank 1 on worker-1 is lost")


def failed(*causes: Finding, **more: object) -> Failure:
    known = {"replica": "worker-2", "time": at(7), "exit_code": 1, "causes": list(causes)}
    return Failure(**{**known, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failure", "headline"),
    [
        (failed(), "worker-2 failed first: exit code 1"),
        (failed(rank=0, exit_code=3), "worker-2 (rank 0) failed first: exit code 3"),
        (failed(signal="SIGKILL", exit_code=137), "worker-2 failed first: killed by SIGKILL"),
        (failed(LOST), "worker-2 lost a peer: exit code 1"),
        (failed(error("reducer-lost", "x")), "worker-2 lost a peer: exit code 1"),
        (failed(warning("worker-lost", "x")), "worker-2 failed first: exit code 1"),
        (failed(error("oom", "x"), LOST), "worker-2 failed first: exit code 1"),
        (failed(LATE, rank=5), "worker-2 (rank 5) left early"),
        (failed(warning("stall", "x")), "worker-2 stalled"),
        (failed(error("oom", "x"), error("watch", "x")), "worker-2 was ended by a rule of watch"),
    ],
)
def test_how_the_first_failure_is_announced(failure: Failure, headline: str) -> None:
    assert failure.headline == headline


def test_why_the_job_failed() -> None:
    assert failed(exit_code=3).reason == "worker-2 failed with exit code 3"
    assert failed(LATE).reason == "worker-2 ended before the others"
    assert failed(error("oom", "x"), LATE).reason == "worker-2 failed with exit code 1"


@pytest.mark.parametrize(
    ("began", "when"),
    [
        (None, " at 12:00:07 UTC"),
        (at(2), " at 12:00:07 UTC, 5.0 s after the start"),
        ("yesterday", " at 12:00:07 UTC"),
    ],
)
def test_the_time_of_a_failure(began: str | None, when: str) -> None:
    assert failed().when(began) == when


def ended(failure: Failure | None, codes: dict[str, int | None]) -> RunRecord:
    """A failed run, with the exit codes of its replicas."""
    replicas = [
        Replica(replica=name, state=JobState.FAILED, since=at(8), exit_code=code)
        for name, code in codes.items()
    ]
    return msgspec.structs.replace(a_run("job-1"), first_failure=failure, replicas=replicas)


@pytest.mark.parametrize(
    ("failure", "victims"),
    [
        (failed(), ["worker-0", "worker-1"]),
        (failed(LOST), ["worker-0"]),  # worker-1 is the one that was lost
        (failed(error("oom", "x"), LOST), ["worker-0", "worker-1"]),
        (failed(error("x", f"{'-' * 200} worker-1")), ["worker-0", "worker-1"]),
        (failed(warning("stall", "x")), []),
        (failed(error("oom", "x"), error("watch", "x")), []),
        (None, []),
    ],
)
def test_the_replicas_that_failed_as_a_result(failure: Failure | None, victims: list[str]) -> None:
    run = ended(
        failure, {"worker-0": 1, "worker-1": 143, "worker-2": 1, "worker-3": 0, "ps-0": None}
    )
    assert run.victims == victims
    assert run.victims_text == ", ".join(victims)
    if failure is not None and failure.has_victims:
        why = "as a result of the failure of worker-2"
        asked = ("worker-0", "worker-1")
        expected = [why if name in victims else None for name in asked]
        assert [failure.why_failed(name) for name in asked] == expected


def test_of_many_victims_the_first_are_named() -> None:
    run = ended(failed(), {f"worker-{n}": 1 for n in range(12)})
    assert run.victims_text == (
        "worker-0, worker-1, worker-3, worker-4, worker-5, worker-6, worker-7, worker-8 and 3 more"
    )
