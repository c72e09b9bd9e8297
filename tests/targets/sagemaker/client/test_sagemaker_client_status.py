"""What DescribeTrainingJob's answer says: state, attempts, phases, costs, who failed."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.emulators.faults import Fault
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.stream.events import Failure, LogEvent
from rsctl.targets.base import Pool
from rsctl.targets.cloud.service import Described, Fact, JobStatus, Unreachable
from rsctl.targets.sagemaker.client import SageMakerService
from rsctl.targets.sagemaker.job import SageMakerJob

from .fake_sagemaker import BODY, FakeSageMaker, described, transitions

RUN = "bert-7f3k2a"
URL = f"sagemaker://us-east-1/{RUN}"
ALONE = {
    "VolumeSizeInGB": 10,
    "InstanceType": "ml.m5.xlarge",
    "InstanceCount": 1,
}


def opened() -> SageMakerJob:
    return SageMakerService().open(URL)


def status(sagemaker: FakeSageMaker, primary: str, secondary: str, **more: Any) -> JobStatus:
    changes = {"TrainingJobStatus": primary, "SecondaryStatus": secondary, **more}
    sagemaker.jobs[RUN] = described(BODY, **changes)
    return opened().status()


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
def test_states(sagemaker: FakeSageMaker, primary: str, secondary: str, state: JobState) -> None:
    assert status(sagemaker, primary, secondary).state is state


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
    value = [
        {"phase": "Starting", "seconds": 60.0},
        {"phase": "Downloading", "seconds": 10.0},
        {"phase": "Training", "seconds": 300.0},
        {"phase": "Interrupted", "seconds": 120.0},
        {"phase": "Starting", "seconds": 40.0},
        {"phase": "Training", "seconds": 500.0},
        {"phase": "Uploading", "seconds": 5.0},
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
    ("reason", "replica", "code", "sign", "rank"),
    [
        (
            "AlgorithmError: worker-3, rank 7 failed (exit code 1)\nTraceback ...\nValueError: x, "
            "exit code: 1",
            "worker-3",
            1,
            None,
            7,
        ),
        (
            "AlgorithmError: reducer-1 was killed by SIGKILL (exit code 137), most often for want "
            "of memory, exit code: 137",
            "reducer-1",
            137,
            "SIGKILL",
            None,
        ),
        ("worker-0, rank 0 failed (exit code 42)", "worker-0", 42, None, 0),
        ("AlgorithmError: worker-99 failed (exit code 1)", None, 0, None, None),
        ("AlgorithmError: , exit code: 139", None, 0, None, None),
        ("CapacityError: worker-1 code 3", None, 0, None, None),
    ],
)
def test_who_failed(
    sagemaker: FakeSageMaker,
    reason: str,
    replica: str | None,
    code: int,
    sign: str | None,
    rank: int | None,
) -> None:
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason)
    assert found.reason == reason
    failure = replica and Failure(
        replica=replica, time=found.time, exit_code=code, signal=sign, rank=rank
    )
    assert found.failed == ([failure] if failure else [])


def test_of_one_machine_there_is_no_doubt_who_failed(sagemaker: FakeSageMaker) -> None:
    reason = "AlgorithmError: , exit code: 139"
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason, ResourceConfig=ALONE)
    assert [(f.replica, f.exit_code) for f in found.failed] == [("worker-0", 139)]


@pytest.mark.parametrize(
    ("reason", "finding"),
    [
        (
            "CapacityError: Unable to provision requested ML compute capacity. Please retry using "
            "a different ML instance type.",
            ("capacity", "try again later, or take another machine or region", "workers.machine"),
        ),
        (
            "InternalServerError: We encountered an internal error. Please try again.",
            ("cloud", "submit it again; with limits.retries SageMaker itself does", None),
        ),
        (
            "ClientError: Please use an instance type with more memory, or reduce the size of "
            "training data processed on an instance.",
            (
                "memory",
                "use a smaller batch or fewer data loader workers, or a machine with more memory",
                "workers.machine",
            ),
        ),
        (
            "ClientError: SageMaker was unable to assume the role 'arn:aws:iam::1:role/x'",
            (
                "role",
                "check that the role exists and that its trust policy lets "
                "sagemaker.amazonaws.com assume it",
                "targets.sagemaker.role",
            ),
        ),
        ("ClientError: Something new", ("cloud", None, None)),
        ("AlgorithmError: worker-0 failed (exit code 1)", None),
    ],
)
def test_what_to_do_about_it(
    sagemaker: FakeSageMaker, reason: str, finding: tuple[str, str, str] | None
) -> None:
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason)
    if finding is None:
        assert found.findings == []
        return
    code, remedy, path = finding
    path = "limits.retries" if "limits.retries" in (remedy or "") else path
    assert found.findings == [error(code, reason, remedy, path)]


def test_limits_of_time_are_told(sagemaker: FakeSageMaker) -> None:
    assert status(sagemaker, "Stopped", "MaxRuntimeExceeded").reason == (
        "it ran longer than its time limit, limits.timeout"
    )
    assert status(sagemaker, "Stopped", "MaxWaitTimeExceeded").reason == (
        "it had not ended within the time to wait for spot capacity, limits.queue"
    )


def test_describing_leaves_secrets_out(sagemaker: FakeSageMaker) -> None:
    sagemaker.jobs[RUN] = described(BODY)
    environment = {"RSCTL_RUN": RUN, "RSCTL_TOKEN": None, "MODE": "fast"}
    found = opened().describe()
    assert found == Described(
        name=RUN,
        created="2026-05-28T20:26:40.000000Z",
        pools=[
            Pool(role="worker", count=4, machine="ml.g5.12xlarge"),
            Pool(role="reducer", count=2, machine="ml.c5n.9xlarge"),
        ],
        run=RUN,
        request={
            "operation": "CreateTrainingJob",
            "region": "us-east-1",
            "body": {**BODY, "Environment": environment},
        },
    )


def test_describing_a_job_of_somebody_else(sagemaker: FakeSageMaker) -> None:
    groups = [
        {"InstanceGroupName": "data", "InstanceType": "ml.c5.9xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "dnn", "InstanceType": "ml.p3.2xlarge", "InstanceCount": 1},
    ]
    body = {key: value for key, value in BODY.items() if key != "Environment"}
    body["ResourceConfig"] = {"VolumeSizeInGB": 10, "InstanceGroups": groups}
    sagemaker.jobs[RUN] = described(body)
    sagemaker.refuse_with["ListTags"] = ("AccessDeniedException", "not authorized")
    found = opened().describe()
    assert found.run is None
    assert found.pools == [Pool(role="worker", count=3, machine="ml.c5.9xlarge, ml.p3.2xlarge")]


def test_a_job_that_is_not_there(sagemaker: FakeSageMaker) -> None:
    finding = error(
        "not-found",
        "SageMaker has no training job bert-7f3k2a in us-east-1",
        "check its name, its region, and the account of your credentials",
    )
    for call in (opened().status, opened().describe, opened().cancel):
        with pytest.raises(RsctlError) as caught:
            call()
        assert (caught.value.exit_code, caught.value.findings) == (ExitCode.REFUSED, (finding,))


def test_no_answer_is_not_the_end(sagemaker: FakeSageMaker) -> None:
    sagemaker.jobs[RUN] = described(BODY)
    job = opened()
    name = "sagemaker.DescribeTrainingJob"
    sagemaker.faults.add(Fault(name, status=400, code="ThrottlingException"))
    sagemaker.faults.add(Fault(name, status=503, code="ServiceUnavailable"))
    sagemaker.faults.add(Fault(name, cut="answer"))
    for _ in range(3):
        with pytest.raises(Unreachable):
            job.status()
    assert job.status().state is JobState.STARTING
    assert sagemaker.count(name) == 4


def test_a_login_elsewhere_is_noticed(
    sagemaker: FakeSageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sagemaker.jobs[RUN] = described(BODY)
    job = opened()
    good = sagemaker.environment()["AWS_ACCESS_KEY_ID"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOLD")
    with pytest.raises(RsctlError) as caught:
        job.status()
    assert caught.value.findings[0].code == "credentials-expired"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", good)
    assert job.status().state is JobState.STARTING


@pytest.mark.parametrize(
    ("before", "after"),
    [("InProgress", "Stopping"), ("Stopping", "Stopping"), ("Completed", "Completed")],
)
def test_cancelling(sagemaker: FakeSageMaker, before: str, after: str) -> None:
    secondary = {"InProgress": "Training"}.get(before, before)
    changes = {"TrainingJobStatus": before, "SecondaryStatus": secondary}
    sagemaker.jobs[RUN] = described(BODY, **changes)
    sagemaker.faults.add(Fault("sagemaker.StopTrainingJob", cut="answer"))
    opened().cancel()
    assert sagemaker.jobs[RUN]["TrainingJobStatus"] == after


@pytest.mark.parametrize(
    "url",
    ["sagemaker://us-east-1", "sagemaker:///x", "vertex://a/b/c", "sagemaker://us-east-1/a_b"],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(RsctlError) as caught:
        SageMakerService().open(url)
    assert caught.value.findings[0].message == f"{url!r} is not the URL of a training job"


def line(text: str) -> LogEvent:
    return LogEvent("2026-01-01T00:00:00.000000Z", "worker-0", "1", "stdout", text)


def test_the_network_that_nccl_tells_of(sagemaker: FakeSageMaker) -> None:
    job = opened()
    plan = {"image": {"tag": "t", "transport": "efa"}}
    sockets = job.notice(line("algo-1:71:71 [0] NCCL INFO Using network Socket"))
    efa = job.notice(line("algo-1:71:71 [0] NCCL INFO NET/OFI Selected provider is efa, fabric"))
    assert isinstance(sockets, Finding)
    assert isinstance(efa, Finding)
    assert job.notice(line("loss=0.3 step=1")) is None
    lost = "EFA is not at work: NCCL uses TCP sockets"
    assert job.facts({}, plan, [sockets]) == [Fact("network", lost, "sockets")]
    assert job.facts({}, {"image": {"transport": "none"}}, [sockets]) == []
    assert job.facts({}, plan, [efa]) == [Fact("network", "EFA", "efa")]
    assert job.facts({}, plan, []) == []
