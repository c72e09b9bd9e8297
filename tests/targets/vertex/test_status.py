"""What is reported of a job from the custom job that the API shows."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.findings import JobState
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.status import status_of
from rsctl.targets.vertex.timestamps import event_time, nanosecond_time, seconds_of, timestamp

ADDRESS = JobAddress.of_url("vertex://my-project/us-central1/42")
TIMES = {
    "createTime": "2026-11-21T10:00:00Z",
    "startTime": "2026-11-21T10:03:00Z",
    "endTime": "2026-11-21T11:03:05.25Z",
    "updateTime": "2026-11-21T11:04:00Z",
}
NOW = seconds_of("2026-11-21T11:05:10Z") or 0.0


def status(state: Any, message: str = "", code: int = 3, now: float = NOW, **fields: Any) -> Any:
    error = {"error": {"code": code, "message": message}} if message else {}
    return status_of({**TIMES, "state": state, **error, **fields}, ADDRESS, now)


@pytest.mark.parametrize(
    ("state", "expected", "since"),
    [
        ("JOB_STATE_QUEUED", JobState.QUEUED, "createTime"),
        ("JOB_STATE_PENDING", JobState.STARTING, "updateTime"),
        ("JOB_STATE_RUNNING", JobState.RUNNING, "startTime"),
        ("JOB_STATE_SUCCEEDED", JobState.SUCCEEDED, "endTime"),
        ("JOB_STATE_FAILED", JobState.FAILED, "endTime"),
        ("JOB_STATE_CANCELLING", JobState.CANCELLING, "updateTime"),
        ("JOB_STATE_CANCELLED", JobState.CANCELLED, "endTime"),
        ("JOB_STATE_PAUSED", JobState.QUEUED, "updateTime"),
        ("JOB_STATE_EXPIRED", JobState.EXPIRED, "endTime"),
        ("JOB_STATE_UPDATING", JobState.RUNNING, "updateTime"),
        ("JOB_STATE_PARTIALLY_SUCCEEDED", JobState.FAILED, "endTime"),
        (3, JobState.RUNNING, "startTime"),
    ],
)
def test_states(state: Any, expected: JobState, since: str) -> None:
    found = status(state)
    assert (found.state, found.time) == (expected, event_time(TIMES[since]))


def test_a_state_that_is_not_known_yet() -> None:
    found = status("JOB_STATE_NAPPING")
    assert (found.state, found.reason) == (JobState.RUNNING, "its state is 'JOB_STATE_NAPPING'")


def test_a_job_that_has_only_just_been_made() -> None:
    found = status_of({"createTime": TIMES["createTime"]}, ADDRESS, NOW)
    assert (found.state, found.time) == (JobState.QUEUED, "2026-11-21T10:00:00.000000Z")


EXITED = "The replica workerpool1-1 exited with a non-zero status of {}. Termination reason: Error."


@pytest.mark.parametrize(
    ("message", "failed"),
    [
        (EXITED.format(1) + " \nTraceback (most recent call last):", [("worker-2", 1, None)]),
        (EXITED.format(139), [("worker-2", 139, "SIGSEGV")]),
        (
            "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
            [("worker-0", 137, "SIGKILL")],
        ),
        (
            "The replicas workerpool0-0, workerpool1-3 and workerpool2-0 exited with a non-zero "
            "status of 2.",
            [("worker-0", 2, None), ("worker-4", 2, None), ("ps-0", 2, None)],
        ),
        ("Internal error occurred for the current attempt", []),
    ],
)
def test_which_replica_failed(message: str, failed: list[tuple[str, int, str | None]]) -> None:
    found = status("JOB_STATE_FAILED", message)
    assert found.reason == message
    assert [(f.replica, f.exit_code, f.signal) for f in found.failed] == failed
    assert {f.time for f in found.failed} <= {"2026-11-21T11:03:05.250000Z"}


@pytest.mark.parametrize(
    ("awaited", "ended"),
    [
        ("worker,evaluator", ("worker", "evaluator")),
        ("ps", ("ps",)),
        ("evaluator,another", ("evaluator",)),
        ("", ()),
        (None, ()),
    ],
)
def test_the_roles_whose_ends_the_chief_awaits(awaited: str | None, ended: tuple[str, ...]) -> None:
    env = [{"name": "RSCTL_AWAITED_ROLES", "value": awaited}] if awaited is not None else []
    spec = {"workerPoolSpecs": [{"containerSpec": {"env": env}}]}
    assert status("JOB_STATE_SUCCEEDED", jobSpec=spec).ended_roles == ended


def findings(found: Any) -> list[tuple[str, str]]:
    return [(finding.severity, finding.code) for finding in found.findings]


STOCK_OUT = (
    "Resources are insufficient in region: us-central1. Try a different region or use a different "
    "accelerator."
)


@pytest.mark.parametrize(
    ("state", "message", "expected"),
    [
        ("JOB_STATE_FAILED", STOCK_OUT, [("error", "stock-out")]),
        ("JOB_STATE_PENDING", STOCK_OUT, [("warning", "stock-out")]),
        (
            "JOB_STATE_FAILED",
            "The following quota metrics exceed quota limits: "
            "aiplatform.googleapis.com/custom_model_training_cpus",
            [("error", "quota")],
        ),
        (
            "JOB_STATE_FAILED",
            "The replica workerpool2-0 ran out of memory and exited with a non-zero status of 137.",
            [("error", "memory")],
        ),
        (
            "JOB_STATE_FAILED",
            "Internal error occurred for the current attempt.",
            [("error", "cloud")],
        ),
        ("JOB_STATE_QUEUED", "", [("warning", "queue")]),
        ("JOB_STATE_RUNNING", "", []),
    ],
)
def test_what_the_user_is_shown(state: str, message: str, expected: list[tuple[str, str]]) -> None:
    assert findings(status(state, message)) == expected


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (
            "The replica workerpool0-0 exited with a non-zero status of 137. Termination reason: "
            "OOMKilled.",
            [("memory", "workers.machine")],
        ),
        (
            "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: "
            "Error. The log has OOMKilled.",
            [],
        ),
        (
            "Internal error occurred. Please retry in a few minutes. If you still experience "
            "errors, contact Vertex AI.",
            [("cloud", None)],
        ),
        ("Unable to pull image us-docker.pkg.dev/p/r/i:1.", [("image", "image")]),
        (
            "'us-central1' violates constraint 'constraints/gcp.resourceLocations' on the resource "
            "'projects/p'.",
            [("org-policy", None)],
        ),
    ],
)
def test_further_reasons(message: str, found: list[tuple[str, str | None]]) -> None:
    findings = status("JOB_STATE_FAILED", message).findings
    assert [(finding.code, finding.path) for finding in findings] == found
    assert all(finding.remedy for finding in findings)


def test_a_long_queue_has_a_remedy_also_where_regions_are_listed() -> None:
    (queued,) = status("JOB_STATE_QUEUED").findings
    assert "use another region, or list several regions and set limits.queue" in str(queued.remedy)


def test_while_nobody_knows_why() -> None:
    at_the_end = (seconds_of(TIMES["endTime"]) or 0.0) + 20
    found = status("JOB_STATE_FAILED", now=at_the_end)
    assert found.reason == "Vertex AI reports the reason about a minute after the end"
    assert status("JOB_STATE_FAILED", now=at_the_end + 600).reason is None


def test_a_time_limit() -> None:
    found = status("JOB_STATE_FAILED", "The job ran longer than its timeout.", code=4)
    assert found.state is JobState.EXPIRED


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        ("3600s", (JobState.EXPIRED, "it reached its time limit, limits.timeout")),
        ("3605.250s", (JobState.EXPIRED, "it reached its time limit, limits.timeout")),
        ("3700s", (JobState.CANCELLED, "CANCELED")),
        (None, (JobState.CANCELLED, "CANCELED")),  # 7 days
    ],
)
def test_a_job_that_has_used_its_time_was_not_cancelled_by_a_person(
    timeout: str | None, expected: tuple[JobState, str]
) -> None:
    """Public reports have the end by the time limit as a cancellation (tensorflow/tfx#6223)."""
    scheduling = {"timeout": timeout} if timeout else {}
    found = status("JOB_STATE_CANCELLED", "CANCELED", 1, jobSpec={"scheduling": scheduling})
    assert (found.state, found.reason) == expected


def test_a_job_that_was_cancelled_before_it_ran_has_not_used_its_time() -> None:
    spec = {"scheduling": {"timeout": "1s"}}
    assert status("JOB_STATE_CANCELLED", startTime=None, jobSpec=spec).state is JobState.CANCELLED


def test_facts() -> None:
    shells = {"workerpool1-0": "https://shell.example/1", "workerpool0-0": "javascript:alert(1)"}
    found = status("JOB_STATE_RUNNING", endTime=None, webAccessUris=shells)
    console = (
        "https://console.cloud.google.com/agent-platform/locations/us-central1/training/42"
        "?project=my-project"
    )
    assert found.facts == [
        ("console", console, console),
        ("web_access", "worker-1: https://shell.example/1", {"worker-1": shells["workerpool1-0"]}),
        ("waited", "3:00", 180.0),
        ("ran", "1:02:10", 3730.0),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00.000000000Z"),
        ("2026-11-21T10:00:00.5Z", "2026-11-21T10:00:00.500000000Z"),
        ("2026-11-21T10:00:00.123456789+00:00", "2026-11-21T10:00:00.123456789Z"),
        ("2026-11-21", None),
        (None, None),
    ],
)
def test_times(text: Any, expected: str | None) -> None:
    assert nanosecond_time(text) == expected
    if expected:
        assert (
            abs((seconds_of(timestamp(seconds_of(text) or 0)) or 0) - (seconds_of(text) or 1))
            < 1e-5
        )
    assert seconds_of("2026-13-41T99:00:00Z") is None
