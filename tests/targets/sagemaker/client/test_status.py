"""What DescribeTrainingJob's answer says: state, attempts, phases, costs, who failed."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from rsctl.findings import JobState
from rsctl.targets.managed.service import Fact
from rsctl.targets.sagemaker.job_address import parse_url
from rsctl.targets.sagemaker.status import status_of

from .fake_sagemaker import FakeSageMaker, transitions
from .opening import URL, status


@pytest.mark.parametrize(
    ("primary", "secondary", "state"),
    [
        ("InProgress", "Pending", JobState.QUEUED),
        ("InProgress", "Starting", JobState.STARTING),
        ("InProgress", "LaunchingMLInstances", JobState.STARTING),
        ("InProgress", "PreparingTrainingStack", JobState.STARTING),
        ("InProgress", "Downloading", JobState.STARTING),
        ("InProgress", "DownloadingTrainingImage", JobState.STARTING),
        ("InProgress", "Training", JobState.RUNNING),
        ("InProgress", "Uploading", JobState.RUNNING),
        ("InProgress", "Updating", JobState.RUNNING),
        ("InProgress", "Interrupted", JobState.QUEUED),
        ("InProgress", "Restarting", JobState.STARTING),
        ("Stopping", "Stopping", JobState.CANCELLING),
        ("Stopping", "Training", JobState.CANCELLING),
        ("Stopped", "Stopped", JobState.CANCELLED),
        ("Stopped", "MaxRuntimeExceeded", JobState.EXPIRED),
        ("Stopped", "MaxWaitTimeExceeded", JobState.EXPIRED),
        ("Completed", "MaxRuntimeExceeded", JobState.EXPIRED),
        ("Completed", "Completed", JobState.SUCCEEDED),
        ("Failed", "Failed", JobState.FAILED),
        ("Deleting", "Failed", JobState.FAILED),
    ],
)
def test_states(primary: str, secondary: str, state: JobState) -> None:
    answer = {"TrainingJobStatus": primary, "SecondaryStatus": secondary}
    assert status_of(answer, parse_url(URL)).state is state


def test_a_status_that_nobody_knows_yet() -> None:
    answer: dict[str, Any] = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Musing"}
    assert status_of(answer, parse_url(URL)).state is JobState.STARTING
    trained = {"Status": "Training", "StartTime": datetime.now(timezone.utc)}
    answer["SecondaryStatusTransitions"] = [trained]
    assert status_of(answer, parse_url(URL)).state is JobState.RUNNING


def test_a_job_that_waits_for_machines(sagemaker: FakeSageMaker) -> None:
    found = status(
        sagemaker,
        "InProgress",
        "Starting",
        SecondaryStatusTransitions=transitions(("Starting", 30), ("Starting", 0)),
    )
    assert (found.state, found.time) == (JobState.STARTING, "2026-05-28T20:26:40.000000Z")
    assert (found.reason, found.attempt) == ("Starting it", 1)
    assert [fact.name for fact in found.facts] == ["phases", "console"]


@pytest.mark.parametrize(
    ("phases", "has_machines"),
    [
        (["Starting"], False),
        (["Starting", "Downloading"], True),
        (["Pending", "Starting", "Downloading", "Training"], True),
        (["Starting", "Downloading", "Training", "Interrupted", "Starting"], False),
        (["Starting", "Downloading", "Training", "Interrupted", "Starting", "Downloading"], True),
    ],
)
def test_a_job_that_downloads_has_its_machines(
    sagemaker: FakeSageMaker, phases: list[str], has_machines: bool
) -> None:
    timed = transitions(*((name, 10) for name in phases))
    found = status(sagemaker, "InProgress", phases[-1], SecondaryStatusTransitions=timed)
    assert found.has_machines is has_machines


def test_a_job_of_a_training_plan_waits_for_the_plan_and_not_for_capacity(
    sagemaker: FakeSageMaker,
) -> None:
    """MaxPendingTimeInSeconds does not count that time, according to its model."""
    plan = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"
    resources = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2, "TrainingPlanArn": plan}
    assert status(sagemaker, "InProgress", "Pending", ResourceConfig=resources).has_machines


def test_the_image_may_be_downloaded_in_the_phase_training(sagemaker: FakeSageMaker) -> None:
    """The model of SecondaryStatusTransition has this as the start of a training job."""
    phases = transitions(("Starting", 60), ("Training", 90), ("Training", 0))
    phases[1]["StatusMessage"] = "Downloading the training image"
    phases[2]["StatusMessage"] = "Training image download completed. Training in progress."
    found = status(sagemaker, "InProgress", "Training", SecondaryStatusTransitions=phases)
    (value,) = (fact.value for fact in found.facts if fact.name == "phases")
    assert [phase["cause"] for phase in value] == ["machines", "image", None]


def test_a_spot_job_that_was_interrupted_and_completed(sagemaker: FakeSageMaker) -> None:
    phases = transitions(
        ("Starting", 60),
        ("Downloading", 10),
        ("Training", 300),
        ("Interrupted", 120),
        ("Starting", 40),
        ("Training", 500),
        ("Uploading", 5),
        ("Completed", 0),
    )
    found = status(
        sagemaker,
        "Completed",
        "Completed",
        SecondaryStatusTransitions=phases,
        TrainingEndTime=phases[-1]["StartTime"],
        EnableManagedSpotTraining=True,
        BillableTimeInSeconds=300,
        TrainingTimeInSeconds=900,
        WarmPoolStatus={"Status": "Reused", "ReusedByJob": "next-1"},
    )
    assert (found.state, found.attempt, found.reason) == (JobState.SUCCEEDED, 2, None)
    assert found.time == "2026-05-28T20:43:55.000000Z"
    console = (
        "https://us-east-1.console.aws.amazon.com/sagemaker/home?region=us-east-1#/jobs/bert-7f3k2a"
    )
    phase_values = [
        ("Starting", 60.0, "20:26:40", "machines", False),
        ("Downloading", 10.0, "20:27:40", "data", True),
        ("Training", 300.0, "20:27:50", None, True),
        ("Interrupted", 120.0, "20:32:50", "queue", False),
        ("Starting", 40.0, "20:34:50", "machines", False),
        ("Training", 500.0, "20:35:30", None, True),
        ("Uploading", 5.0, "20:43:50", "end", True),
    ]
    names = ("phase", "seconds", "start", "cause", "billed")
    value = [
        dict(zip(names, (phase, seconds, f"2026-05-28T{start}.000000Z", *more), strict=True))
        for phase, seconds, start, *more in phase_values
    ]
    text = "starting 1:40, downloading 0:10, training 13:20, interrupted 2:00, uploading 0:05"
    pool = {"status": "Reused", "billable_seconds": None, "reused_by": "next-1"}
    assert found.facts == [
        Fact("phases", text, value),
        Fact("billable_seconds", "300 s on each of 6 machines", 300),
        Fact("spot_saving_percent", "66.7 %", 66.7),
        Fact("warm_pool", "reused, reused by next-1", pool),
        Fact("console", console, console),
    ]


@pytest.mark.parametrize(
    ("statuses", "attempt"),
    [
        (["Starting", "Training", "Interrupted"], 2),
        (["Starting", "Training", "Interrupted", "Restarting", "Training"], 2),
        (["Starting", "Training", "Restarting", "Starting", "Training", "Restarting"], 3),
    ],
)
def test_attempts(sagemaker: FakeSageMaker, statuses: list[str], attempt: int) -> None:
    phases = transitions(*((name, 10) for name in statuses))
    found = status(sagemaker, "InProgress", statuses[-1], SecondaryStatusTransitions=phases)
    assert found.attempt == attempt


@pytest.mark.parametrize(
    ("phases", "reason"),
    [
        ([("Starting", "Launching"), ("Training", "")], None),
        ([("Training", ""), ("Interrupted", "gone"), ("Starting", "Launching")], "gone"),
        ([("Training", ""), ("Interrupted", "")], "its spot machines were interrupted"),
        ([("Interrupted", "gone"), ("Restarting", "again"), ("Training", "")], "gone"),
        ([("Interrupted", "gone"), ("Training", ""), ("Restarting", "")], "SageMaker restarted it"),
    ],
)
def test_why_it_was_started_again(phases: list[tuple[str, str]], reason: str | None) -> None:
    """It is not the message of a later phase, such as that machines are launched."""
    now = datetime.now(timezone.utc)
    entries = [{"Status": s, "StatusMessage": m, "StartTime": now} for s, m in phases]
    answer = {"TrainingJobStatus": "InProgress", "SecondaryStatusTransitions": entries}
    answer["SecondaryStatus"] = phases[-1][0]
    assert status_of(answer, parse_url(URL)).restarted == reason


def test_limits_of_time_are_reported(sagemaker: FakeSageMaker) -> None:
    assert status(sagemaker, "Stopped", "MaxRuntimeExceeded").reason == (
        "it reached its time limit, limits.timeout"
    )
    assert status(sagemaker, "Stopped", "MaxWaitTimeExceeded").reason == (
        "it did not get spot capacity, or did not end, within limits.timeout plus limits.queue"
    )


@pytest.mark.parametrize(
    ("phases", "state"),
    [
        ([("Starting", 60), ("Pending", 3600), ("Stopped", 0)], JobState.EXPIRED),
        ([("Starting", 60), ("Pending", 3600), ("Stopping", 5), ("Stopped", 0)], JobState.EXPIRED),
        ([("Starting", 60), ("Pending", 1000), ("Stopped", 0)], JobState.CANCELLED),  # by a user
        (
            [("Pending", 60), ("Starting", 60), ("Training", 4000), ("Stopped", 0)],
            JobState.CANCELLED,
        ),
    ],
)
def test_a_job_that_sagemaker_stops_because_it_is_pending_for_too_long(
    sagemaker: FakeSageMaker, phases: list[tuple[str, float]], state: JobState
) -> None:
    """Its model says of MaxPendingTimeInSeconds that the job is stopped."""
    found = status(
        sagemaker,
        "Stopped",
        "Stopped",
        SecondaryStatusTransitions=transitions(*phases),
        StoppingCondition={"MaxRuntimeInSeconds": 86400, "MaxPendingTimeInSeconds": 3600},
    )
    assert found.state is state
    reason = "it did not get machines within limits.queue"
    assert found.reason == (reason if state is JobState.EXPIRED else None)


def test_which_roles_have_ended_by_themselves() -> None:
    """The job has ended when all containers have; rsctl-launch has stopped some of them."""
    names = ("workers", "reducers", "ps", "evaluator")
    groups = [{"InstanceGroupName": n, "InstanceType": "t", "InstanceCount": 1} for n in names]
    answer = {
        "TrainingJobStatus": "Completed",
        "SecondaryStatus": "Completed",
        "ResourceConfig": {"InstanceGroups": groups},
        "Environment": {"RSCTL_STOPPED_ROLES": "ps"},
    }
    assert status_of(answer, parse_url(URL)).ended_roles == ("worker", "evaluator")


def test_a_role_that_has_failed() -> None:
    names = ("workers", "ps")
    groups = [{"InstanceGroupName": n, "InstanceType": "t", "InstanceCount": 2} for n in names]
    answer = {
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "ResourceConfig": {"InstanceGroups": groups},
        "FailureReason": "AlgorithmError: ps-1 failed (exit code 3)\nno, exit code: 3",
    }
    (failure,) = status_of(answer, parse_url(URL)).failed
    assert (failure.replica, failure.exit_code) == ("ps-1", 3)
