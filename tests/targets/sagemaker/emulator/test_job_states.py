"""The statuses of a job, and what its containers' ends mean."""

from __future__ import annotations

import pytest

from rsctl.targets.sagemaker.emulator import Behaviour
from tests.kit.polling import wait_until
from tests.targets.sagemaker.emulator.conftest import Account, FakeNodes, body, groups, refused

SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
}
CHECKPOINTS = {"CheckpointConfig": {"S3Uri": "s3://staging/ck"}}


def test_a_job_ends_when_all_its_containers_have(account: Account) -> None:
    nodes = account.start(ResourceConfig=groups(workers=2, reducers=1))
    running = account.describe()
    assert (running["TrainingJobStatus"], "TrainingEndTime" in running) == ("InProgress", False)
    nodes.exit("algo-1")
    nodes.exit("algo-3")
    assert account.describe()["SecondaryStatus"] == "Training"
    nodes.exit("algo-2")
    ended = account.wait("j", "Completed")
    assert ended["TrainingJobStatus"] == "Completed"
    phases = [(p["Status"], p["StatusMessage"]) for p in ended["SecondaryStatusTransitions"]]
    assert phases == [
        ("Starting", "Preparing the instances for training"),
        ("Downloading", "Downloading the training image"),
        ("Training", "Training image download completed. Training in progress."),
        ("Uploading", "Uploading generated training model"),
        ("Completed", "Training job completed"),
    ]
    times = [
        p[key] for p in ended["SecondaryStatusTransitions"] for key in ("StartTime", "EndTime")
    ]
    assert times == sorted(times)
    assert ended["CreationTime"] <= ended["TrainingStartTime"] <= ended["TrainingEndTime"]
    assert (ended["TrainingTimeInSeconds"], ended["BillableTimeInSeconds"]) >= (1, 1)
    assert "FailureReason" not in ended
    assert nodes.history == ["start algo-1", "start algo-2", "start algo-3"]
    assert wait_until(lambda: account.emulator.is_idle)
    assert nodes.is_closed


def test_a_failure_ends_the_others_and_says_why(account: Account) -> None:
    nodes = account.start(ResourceConfig=groups(workers=2, reducers=1))
    nodes.inside("algo-3", "/opt/ml/output/failure").write_text("worker-1: no data\n")
    nodes.exit("algo-3", 3)
    ended = account.wait("j", "Failed")
    assert ended["TrainingJobStatus"] == "Failed"
    assert ended["FailureReason"] == "AlgorithmError: worker-1: no data, exit code: 3"
    assert account.phases()[2:] == ["Training", "Uploading", "Failed"]
    assert nodes.history[3:] == ["stop algo-1", "stop algo-2"]


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (1, "", "AlgorithmError: , exit code: 1"),
        (
            137,
            "",
            "ClientError: Please use an instance type with more memory, or reduce the size of "
            "training data processed on an instance., exit code: 137",
        ),
        (1, "x" * 5000, "AlgorithmError: " + "x" * 1008),
    ],
)
def test_reasons(account: Account, code: int, said: str, reason: str) -> None:
    nodes = account.start()
    nodes.inside("algo-1", "/opt/ml/output/failure").write_text(said)
    nodes.exit("algo-1", code)
    assert account.wait("j", "Failed")["FailureReason"] == reason


def test_a_job_is_stopped_with_a_grace(account: Account, behaviour: Behaviour) -> None:
    nodes = account.start(ResourceConfig=groups(workers=2))
    account.sagemaker.stop_training_job(TrainingJobName="j")
    assert account.describe()["TrainingJobStatus"] in ("Stopping", "Stopped")
    ended = account.wait("j", "Stopped")
    assert ended["TrainingJobStatus"] == "Stopped"
    assert account.phases()[2:] == ["Training", "Stopping", "Uploading", "Stopped"]
    assert (nodes.history[2:], nodes.graces) == (["stop algo-1", "stop algo-2"], {2.0})
    assert refused(account.sagemaker.stop_training_job, TrainingJobName="j") == (
        "ValidationException",
        "The request was rejected because the training job is in status Stopped.",
    )


def test_a_job_is_stopped_before_it_has_machines(account: Account, behaviour: Behaviour) -> None:
    behaviour.launch = 1e6
    account.create()
    account.sagemaker.stop_training_job(TrainingJobName="j")
    ended = account.wait("j", "Stopped")
    assert account.phases() == ["Starting", "Stopping", "Stopped"]
    assert ("TrainingStartTime" in ended, account.runner.jobs) == (False, {})


def test_the_longest_running_time(account: Account) -> None:
    nodes = account.start(StoppingCondition={"MaxRuntimeInSeconds": 1})
    ended = account.wait("j", "MaxRuntimeExceeded")
    assert (ended["TrainingJobStatus"], nodes.history[1:]) == ("Stopped", ["stop algo-1"])


def test_no_capacity(account: Account, behaviour: Behaviour) -> None:
    behaviour.stockouts = 2
    account.start()
    behaviour.stockouts = -1
    behaviour.give_up = 1e9
    account.create("patient")
    message = "Insufficient capacity error from EC2 while launching instances, retrying!"
    wait_until(
        lambda: (
            account.describe("patient")["SecondaryStatusTransitions"][-1]["StatusMessage"]
            == message
        )
    )
    behaviour.give_up = 100
    account.create("other")
    ended = account.wait("other", "Failed")
    assert ended["FailureReason"] == (
        "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
        "different ML instance type."
    )
    assert "TrainingStartTime" not in ended


def test_spot_machines_that_do_not_come(account: Account, behaviour: Behaviour) -> None:
    behaviour.stockouts = -1
    limits = {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}
    account.create(**{**SPOT, "StoppingCondition": limits})
    ended = account.wait("j", "MaxWaitTimeExceeded")
    assert ended["TrainingJobStatus"] == "Stopped"
    behaviour.give_up = 100
    account.create("other", **SPOT)  # whose limit is two hours
    account.wait("other", "MaxWaitTimeExceeded")


def test_an_interruption_as_a_behaviour(account: Account, behaviour: Behaviour) -> None:
    behaviour.preemptions, behaviour.preempt_after = 2, 0.0
    nodes = account.start(**SPOT, **CHECKPOINTS)
    wait_until(lambda: nodes.history.count("start algo-1") == 3)
    account.wait("j", "Training")
    assert account.phases().count("Interrupted") == 2
    nodes.exit("algo-1")
    account.wait("j", "Completed")


def test_a_spot_interruption_restarts_with_checkpoints(
    account: Account, behaviour: Behaviour
) -> None:
    behaviour.sync = 1e6
    nodes = account.start(ResourceConfig=groups(workers=2), **SPOT, **CHECKPOINTS)
    nodes.inside("algo-1", "/opt/ml/checkpoints/0/step").parent.mkdir()
    nodes.inside("algo-1", "/opt/ml/checkpoints/0/step").write_text("7")
    nodes.inside("algo-1", "/opt/ml/model/draft").write_text("lost")
    nodes.say("algo-1", "before")
    account.emulator.preempt("j")
    wait_until(lambda: nodes.history.count("start algo-2") == 2)
    account.wait("j", "Training")
    assert nodes.history[2:] == ["stop algo-1", "stop algo-2", "start algo-1", "start algo-2"]
    assert account.phases() == [
        *("Starting", "Downloading", "Training", "Interrupted"),
        *("Starting", "Downloading", "Training"),
    ]
    assert nodes.inside("algo-2", "/opt/ml/checkpoints/0/step").read_text() == "7"
    assert not nodes.inside("algo-1", "/opt/ml/model/draft").exists()
    nodes.say("algo-1", "after")
    for name in ("algo-1", "algo-2"):
        nodes.exit(name)
    ended = account.wait("j", "Completed")
    assert ended["BillableTimeInSeconds"] <= ended["TrainingTimeInSeconds"]
    events = wait_until(lambda: len(e := account.events(logStreamNamePrefix="j/")) == 2 and e)
    first, second = (event["logStreamName"] for event in events)
    assert first < second
    assert first.startswith("j/algo-1-")


def test_an_interruption_without_notice_loses_what_was_not_stored(
    account: Account, behaviour: Behaviour
) -> None:
    behaviour.spot_notice = False
    nodes = account.start(**SPOT, **CHECKPOINTS)
    step = nodes.inside("algo-1", "/opt/ml/checkpoints/step")
    step.write_text("7")
    stored = account.folder / "s3" / "staging" / "ck" / "step"
    wait_until(stored.exists)
    behaviour.sync = 1e6
    wait_until(lambda: stored.read_text() == "7")
    account.emulator.preempt("j")
    wait_until(lambda: nodes.history[1:] == ["kill algo-1", "start algo-1"])
    assert nodes.inside("algo-1", "/opt/ml/checkpoints/step").read_text() == "7"


@pytest.mark.parametrize("retries", [0, 1])
def test_a_machine_that_is_lost(account: Account, retries: int) -> None:
    more = {"RetryStrategy": {"MaximumRetryAttempts": 1}} if retries else {}
    nodes = account.start(ResourceConfig=groups(workers=2), **more)
    account.emulator.preempt("j", "algo-1")
    if retries:
        wait_until(lambda: nodes.history.count("start algo-2") == 2)
        account.wait("j", "Training")
        assert account.phases()[3:] == ["Restarting", "Starting", "Downloading", "Training"]
        account.emulator.preempt("j", "algo-1")
    ended = account.wait("j", "Failed")
    assert ended["FailureReason"].startswith("InternalServerError: ")


def test_a_container_that_cannot_start(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: FakeNodes, node: object) -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(FakeNodes, "start", fail)
    account.create()
    reason = account.wait("j", "Failed")["FailureReason"]
    assert reason == "ClientError: Cannot start the container: no such thing"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_emulator_ends_the_job(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeNodes, "start", lambda self: None)
    account.create()
    assert account.wait("j", "Failed")["FailureReason"].startswith("InternalServerError: ")


def test_warm_machines(account: Account, behaviour: Behaviour) -> None:
    warm = {**body()["ResourceConfig"], "KeepAlivePeriodInSeconds": 21600}
    nodes = account.start("first", ResourceConfig=warm)
    assert account.describe("first")["WarmPoolStatus"] == {"Status": "InUse"}
    nodes.exit("algo-1")
    pool = account.wait("first", "Completed")["WarmPoolStatus"]
    assert pool["Status"] == "Available"
    assert refused(account.sagemaker.delete_training_job, TrainingJobName="first")[0] == (
        "ResourceInUse"
    )
    behaviour.launch = 1e6
    nodes = account.start("second", ResourceConfig=warm)
    assert account.describe("first")["WarmPoolStatus"]["ReusedByJob"] == "second"
    nodes.exit("algo-1")
    account.wait("second", "Completed")
    account.sagemaker.update_training_job(
        TrainingJobName="second", ResourceConfig={"KeepAlivePeriodInSeconds": 0}
    )
    assert account.describe("second")["WarmPoolStatus"]["Status"] == "Terminated"


def test_machines_beyond_the_quota_are_not_kept(account: Account, behaviour: Behaviour) -> None:
    """The job runs all the same (train-warm-pools-resource-limits)."""
    warm = {**body()["ResourceConfig"], "KeepAlivePeriodInSeconds": 21600}
    behaviour.quotas = {f"{warm['InstanceType']} for training warm pool usage": 0}
    account.start("first", ResourceConfig=warm).exit("algo-1")
    assert "WarmPoolStatus" not in account.wait("first", "Completed")


def test_warm_machines_of_a_preferred_type(account: Account, behaviour: Behaviour) -> None:
    """The type that was selected is what is kept, and what the next job must be like."""
    preferred = [
        {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1},
    ]
    alone = {"VolumeSizeInGB": 30, "KeepAlivePeriodInSeconds": 21600}
    account.start("first", ResourceConfig={**alone, "InstancePreferences": preferred}).exit(
        "algo-1"
    )
    assert account.wait("first", "Completed")["WarmPoolStatus"]["Status"] == "Available"
    other = {**alone, "InstanceType": "ml.m5.xlarge", "InstanceCount": 1}
    account.start("other", ResourceConfig=other)
    assert account.describe("first")["WarmPoolStatus"]["Status"] == "Available"
    account.start("same", ResourceConfig={**other, "InstanceType": "ml.m5.large"})
    assert account.describe("first")["WarmPoolStatus"]["ReusedByJob"] == "same"


@pytest.mark.parametrize(("is_lost", "is_kept"), [(False, True), (True, False)])
def test_only_healthy_machines_are_kept(account: Account, is_lost: bool, is_kept: bool) -> None:
    """Those of a job that has failed for the algorithm's or the client's fault alone
    (train-warm-pools: "Warm pool creation").
    """
    warm = {**body()["ResourceConfig"], "KeepAlivePeriodInSeconds": 21600}
    nodes = account.start(ResourceConfig=warm)
    if is_lost:
        account.emulator.preempt("j", "algo-1")
    else:
        nodes.exit("algo-1", 1)
    assert ("WarmPoolStatus" in account.wait("j", "Failed")) == is_kept


def test_the_emulator_ends_what_goes_on(account: Account) -> None:
    nodes = account.start()
    account.emulator.stop()
    assert (nodes.history[1:], nodes.is_closed) == (["close algo-1"], True)
