"""What the service answers and refuses, seen by unmodified boto3."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
import requests

from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.sagemaker.emulator import Behaviour
from tests.fixtures import real
from tests.targets.sagemaker.emulator.conftest import (
    IMAGE,
    ROLE,
    Account,
    Answer,
    body,
    channel,
    client,
    groups,
    refused,
)

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/j"
SPOT = {"EnableManagedSpotTraining": True}
MACHINE = body()["ResourceConfig"]
SAID = {each["about"]: each["text"] for each in real("sagemaker_refusals")}
"""What the service has said."""


def algorithm(**changes: Any) -> Answer:
    wanted = {**body()["AlgorithmSpecification"], **changes}
    return {"AlgorithmSpecification": {k: v for k, v in wanted.items() if v is not None}}


def stopping(**limits: int) -> Answer:
    return {"StoppingCondition": limits}


def machines(**changes: Any) -> Answer:
    wanted = {**MACHINE, **changes}
    return {"ResourceConfig": {k: v for k, v in wanted.items() if v is not None}}


def test_a_whole_job(account: Account, behaviour: Behaviour) -> None:
    behaviour.launch = 1e6
    wanted = body(
        Environment={"A": "1"},
        HyperParameters={"lr": "0.1"},
        Tags=[{"Key": "rsctl:run", "Value": "j"}],
        CheckpointConfig={"S3Uri": "s3://staging/ck"},
    )
    assert account.sagemaker.create_training_job(**wanted)["TrainingJobArn"] == ARN
    found = account.wait("j", "Starting")
    times = [found.pop("CreationTime"), found.pop("LastModifiedTime")]
    times.append(found["SecondaryStatusTransitions"][0].pop("StartTime"))
    age = [(datetime.now(timezone.utc) - moment).total_seconds() for moment in times]
    assert all(-1 < seconds < 60 for seconds in age)
    del found["ResponseMetadata"], wanted["Tags"]
    assert found == {
        **wanted,
        "TrainingJobArn": ARN,
        "ModelArtifacts": {"S3ModelArtifacts": "s3://results/runs/j/output/model.tar.gz"},
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Starting",
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "EnableSageMakerMetricsTimeSeries": False,
        },
        "SecondaryStatusTransitions": [
            {"Status": "Starting", "StatusMessage": "Launching requested ML instances"}
        ],
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": False,
    }


def test_names_are_unique(account: Account) -> None:
    account.create()
    assert refused(account.sagemaker.create_training_job, **body()) == (
        "ResourceInUse",
        "Training job names must be unique within an AWS account and region, and a training job "
        f"with this name already exists ({ARN})",
    )


def test_a_name_can_be_used_again_once_its_job_is_deleted(account: Account) -> None:
    nodes = account.start()
    delete = account.sagemaker.delete_training_job
    assert refused(delete, TrainingJobName="j")[0] == "ResourceInUse"
    nodes.exit("algo-1")
    account.wait("j", "Completed")
    delete(TrainingJobName="j")
    missing = ("ValidationException", "Requested resource not found.")
    for operation in ("describe", "stop", "delete"):
        call = getattr(account.sagemaker, f"{operation}_training_job")
        assert refused(call, TrainingJobName="j") == missing
    account.create()


def test_quotas(account: Account, behaviour: Behaviour) -> None:
    behaviour.quotas = {"ml.c5n.9xlarge for training job usage": 3}
    nodes = account.start("one", ResourceConfig=groups(workers=1, reducers=1))
    wanted = body("two", ResourceConfig=groups(workers=1, reducers=1))
    assert refused(account.sagemaker.create_training_job, **wanted) == (
        "ResourceLimitExceeded",
        "The account-level service limit 'ml.c5n.9xlarge for training job usage' is 3 Instances, "
        "with current utilization of 2 Instances and a request delta of 2 Instances. Please use "
        "AWS Service Quotas to request an increase for this quota. If AWS Service Quotas is not "
        "available, contact AWS support to request an increase for this quota.",
    )
    nodes.exit("algo-1")
    nodes.exit("algo-2")
    account.wait("one", "Completed")
    account.create("two", ResourceConfig=groups(workers=1, reducers=1))


def test_the_quota_of_each_preferred_machine_counts(account: Account, behaviour: Behaviour) -> None:
    behaviour.quotas = {"ml.m5.xlarge for training job usage": 1}
    preferred = [{"InstanceType": name} for name in ("ml.m5.large", "ml.m5.xlarge")]
    wanted = machines(InstanceType=None, InstanceCount=2, InstancePreferences=preferred)
    code, message = refused(account.sagemaker.create_training_job, **body(**wanted))
    assert code == "ResourceLimitExceeded"
    assert "'ml.m5.xlarge for training job usage' is 1 Instances" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"TrainingJobName": "a_b"},
            "Value 'a_b' at 'TrainingJobName' failed to satisfy constraint: must match "
            "[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}",
        ),
        (
            {"Environment": {"A": "x" * 513}},
            "Value at 'Environment.A' failed to satisfy constraint: at most 512",
        ),
        (
            {"Environment": {f"A{number}": "" for number in range(101)}},
            "Value at 'Environment' failed to satisfy constraint: at most 100",
        ),
        (
            algorithm(TrainingImage=None),
            "You must specify exactly one of TrainingImage and AlgorithmName.",
        ),
        (algorithm(TrainingImage="gone:1"), "Requested image gone:1 not found."),
        (
            algorithm(MetricDefinitions=[{"Name": "loss", "Regex": "loss=("}]),
            "Invalid regular expression of metric loss",
        ),
        (
            machines(InstanceGroups=groups(workers=1)["InstanceGroups"]),
            SAID["groups beside a machine type"],
        ),
        (
            {"ResourceConfig": {**groups(workers=1), "InstanceCount": 1}},
            SAID["groups beside a machine type"],
        ),
        (
            machines(InstancePreferences=[{"InstanceType": "ml.m5.large"}]),
            "ResourceConfig must have exactly one of InstanceType, InstanceGroups, "
            "InstancePreferences.",
        ),
        (
            machines(
                InstanceType=None,
                InstancePreferences=[{"InstanceType": "ml.m5.large", "InstanceCount": 1}],
            ),
            "InstanceCount must be in ResourceConfig or in all InstancePreferences.",
        ),
        (
            machines(InstanceType=None, InstancePreferences=[{"InstanceType": "ml.m5.large"}] * 2),
            "An instance type can appear only once in InstancePreferences.",
        ),
        (
            machines(InstancePlacementConfig={"EnableMultipleJobs": True}),
            "InstancePlacementConfig is only applicable for UltraServer capacity.",
        ),
        (
            machines(
                InstanceType="ml.p6e-gb200.36xlarge",
                InstancePlacementConfig={"PlacementSpecifications": [{"InstanceCount": 0}]},
            ),
            "InstanceCount of PlacementSpecifications must be at least 1.",
        ),
        (machines(InstanceCount=0), "ResourceConfig.InstanceCount must be at least 1."),
        (machines(VolumeSizeInGB=None), "VolumeSizeInGB is required for ml.m5.large."),
        (
            {"ResourceConfig": {**groups(workers=1), "KeepAlivePeriodInSeconds": 60}},
            "KeepAlivePeriodInSeconds cannot be used with heterogeneous clusters.",
        ),
        (
            {
                **machines(KeepAlivePeriodInSeconds=60),
                **SPOT,
                **stopping(MaxRuntimeInSeconds=1, MaxWaitTimeInSeconds=1),
            },
            "KeepAlivePeriodInSeconds cannot be used with managed spot training.",
        ),
        (
            {**SPOT, **stopping(MaxRuntimeInSeconds=2, MaxWaitTimeInSeconds=1)},
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to "
            "MaxRuntimeInSeconds",
        ),
        (
            stopping(MaxRuntimeInSeconds=1, MaxWaitTimeInSeconds=1),
            SAID["a wait without spot"],
        ),
        (
            stopping(MaxRuntimeInSeconds=28 * 86_400 + 1),
            "MaxRuntimeInSeconds must be at most 2419200.",
        ),
        (
            stopping(MaxRuntimeInSeconds=60, MaxPendingTimeInSeconds=1800),
            "MaxPendingTimeInSeconds is for accelerated instance types only.",
        ),
        (
            {
                "ResourceConfig": groups(processing=1, training=1),
                "InputDataConfig": [
                    channel("data", "s3://staging/d", InstanceGroupNames=["processing"]),
                    channel("code", "s3://staging/d"),
                ],
            },
            "Some channels have assigned instance groups: [data] while others not: [code]",
        ),
        (
            {
                "ResourceConfig": groups(workers=1),
                "InputDataConfig": [
                    channel("data", "s3://staging/d", InstanceGroupNames=["others"])
                ],
            },
            "There is no instance group others.",
        ),
        (
            {"InputDataConfig": [channel("d", "s3://staging/d"), channel("d", "s3://staging/d")]},
            "Channel name d is not unique.",
        ),
        (
            {"InputDataConfig": [{**channel("d", "s3://staging/d"), "InputMode": "Pipe"}]},
            "rsctl's emulator does not have input mode Pipe: channel d",
        ),
        (
            {"InputDataConfig": [channel("d", "s3://none/d/")]},
            'No S3 objects found under S3 URL "s3://none/d/" given in input data source. Please '
            "ensure that the bucket exists in the selected region (us-east-1), that objects exist "
            f'under that S3 prefix, and that the role "{ROLE}" has "s3:ListBucket" permissions on '
            'bucket "none".',
        ),
        (
            {"Tags": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]},
            "Duplicate tag keys are not allowed.",
        ),
        ({"Tags": [{"Key": "aws:a", "Value": "1"}]}, "Tag keys must not begin with aws:."),
    ],
)
def test_what_is_refused(account: Account, change: Answer, message: str) -> None:
    account.runner.missing = {"gone:1"}
    client("s3").put_object(Bucket="staging", Key="d", Body=b"1")
    wanted = {**body(), **change}
    create = account.sagemaker.create_training_job
    assert refused(create, **wanted) == ("ValidationException", message)
    assert account.runner.jobs == {}


def test_lists_look_at_the_status_after_the_page(account: Account, behaviour: Behaviour) -> None:
    account.start("a-1").exit("algo-1")
    account.wait("a-1", "Completed")
    behaviour.launch = 1e6
    for name in ("a-2", "b-1", "b-2"):
        account.create(name)

    def listed(**wanted: Any) -> tuple[list[str], bool]:
        page = account.sagemaker.list_training_jobs(**wanted)
        names = [job["TrainingJobName"] for job in page["TrainingJobSummaries"]]
        return names, "NextToken" in page

    assert listed() == (["b-2", "b-1", "a-2", "a-1"], False)
    assert listed(NameContains="a-") == (["a-2", "a-1"], False)
    assert listed(SortBy="Name", SortOrder="Ascending", MaxResults=2) == (["a-1", "a-2"], True)
    assert listed(StatusEquals="Completed", MaxResults=3) == ([], True)
    pages = account.sagemaker.get_paginator("list_training_jobs")
    found = [
        job["TrainingJobName"]
        for page in pages.paginate(StatusEquals="Completed", MaxResults=1)
        for job in page["TrainingJobSummaries"]
    ]
    assert found == ["a-1"]
    token = account.sagemaker.list_training_jobs(MaxResults=1)["NextToken"]
    call = account.sagemaker.list_training_jobs
    assert refused(call, NextToken=token, NameContains="a")[1] == "Invalid NextToken."


def test_tags(account: Account) -> None:
    account.create(Tags=[{"Key": "rsctl:run", "Value": "j"}])
    service = account.sagemaker
    service.add_tags(ResourceArn=ARN, Tags=[{"Key": "team", "Value": "a"}])
    assert service.list_tags(ResourceArn=ARN)["Tags"] == [
        {"Key": "rsctl:run", "Value": "j"},
        {"Key": "team", "Value": "a"},
    ]
    service.delete_tags(ResourceArn=ARN, TagKeys=["team"])
    assert len(service.list_tags(ResourceArn=ARN)["Tags"]) == 1
    assert refused(service.list_tags, ResourceArn=ARN[:-1])[0] == "ValidationException"


def test_who_may_call(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = client("sts").get_caller_identity()
    assert identity["Account"] == "123456789012"
    assert refused(client("iam").get_role, RoleName="train")[0] == "InvalidAction"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert refused(client("sagemaker").list_training_jobs) == (
        "InvalidSignatureException",
        "Credential should be scoped to a valid region, not 'eu-west-1'.",
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "guessed")
    calls = (client("sagemaker").list_training_jobs, client("sts").get_caller_identity)
    assert {refused(call)[0] for call in calls} == {"UnrecognizedClientException"}
    for path in ("/emulator/state", "/staging/k"):
        assert requests.get(account.emulator.url + path).status_code == 403


def test_images_that_could_be_run(account: Account) -> None:
    ecr = client("ecr")
    account.runner.missing = {IMAGE.replace(":1", ":2")}
    found = ecr.describe_images(repositoryName="train", imageIds=[{"imageTag": "1"}])
    assert found["imageDetails"][0]["imageTags"] == ["1"]
    call = ecr.describe_images
    assert refused(call, repositoryName="train", imageIds=[{"imageTag": "2"}])[0] == (
        "ImageNotFoundException"
    )
    entry = ecr.get_authorization_token()["authorizationData"][0]
    assert entry["proxyEndpoint"] == "https://123456789012.dkr.ecr.us-east-1.amazonaws.com"
    assert entry["expiresAt"] > datetime.now(timezone.utc)


def test_faults(account: Account) -> None:
    account.create()
    fault = Fault("sagemaker.DescribeTrainingJob", status=400, code="ThrottlingException",
                  message="Rate exceeded")  # fmt: skip
    account.emulator.faults.add(fault)
    describe = account.sagemaker.describe_training_job
    assert refused(describe, TrainingJobName="j") == ("ThrottlingException", "Rate exceeded")
    account.emulator.faults.add(Fault("sts", status=503, code="ServiceUnavailable"))
    assert refused(client("sts").get_caller_identity)[0] == "ServiceUnavailable"


def test_control(account: Account, behaviour: Behaviour) -> None:
    session = requests.Session()
    key = account.emulator.environment()["AWS_ACCESS_KEY_ID"]
    scope = f"{key}/20261121/us-east-1/emulator/aws4_request"
    session.headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={scope}, Signature=0"
    place = f"{account.emulator.url}/emulator"
    account.start()
    state = session.get(f"{place}/state").json()
    job = {"name": "j", "status": "InProgress", "secondary": "Training"}
    assert (state["idle"], state["jobs"], state["faults"]) == (False, [job], 0)
    changed = session.post(f"{place}/behaviour", json={"stockouts": 2, "launch": 1}).json()
    assert (changed["stockouts"], behaviour.stockouts, behaviour.launch) == (2, 2, 1)
    wrong = session.post(f"{place}/behaviour", json={"stockouts": 0, "pace": "fast"})
    assert (wrong.status_code, behaviour.stockouts) == (400, 2)
    assert session.post(f"{place}/jobs/none:preempt", json={}).status_code == 404
    assert session.post(f"{place}/jobs/j:preempt", json={"host": "algo-1"}).json() == {}
    assert account.wait("j", "Failed")["FailureReason"].startswith("InternalServerError")
    fault = {"route": "sagemaker.ListTrainingJobs", "status": 500, "code": "InternalFailure"}
    assert session.post(f"{place}/faults", json=fault).json() == {}
    assert refused(account.sagemaker.list_training_jobs)[0] == "InternalFailure"
    session.post(f"{place}/credentials:expire")
    assert refused(account.sagemaker.list_training_jobs)[0] == "ExpiredTokenException"


def test_an_operation_that_is_not_there(account: Account) -> None:
    sagemaker = client("sagemaker")
    code, message = refused(sagemaker.list_models)
    assert code == "UnknownOperationException"
    assert "'SageMaker.ListModels' is not emulated" in message
    assert refused(client("logs").describe_export_tasks)[0] == "UnknownOperationException"
    assert refused(client("ecs").list_clusters)[0] == "UnknownOperationException"


def test_a_job_is_updated_by_its_state(account: Account, behaviour: Behaviour) -> None:
    update = client("sagemaker").update_training_job
    debug = {"TrainingJobName": "j", "RemoteDebugConfig": {"EnableRemoteDebug": True}}
    pool = {"TrainingJobName": "j", "ResourceConfig": {"KeepAlivePeriodInSeconds": 60}}
    profile = {"TrainingJobName": "j", "ProfilerConfig": {"DisableProfiler": True}}
    behaviour.launch = 1e6
    account.create()
    account.wait("j", "Starting")
    assert "Downloading or Training, and it is Starting" in refused(update, **debug)[1]
    behaviour.launch = 0.0
    client("sagemaker").stop_training_job(TrainingJobName="j")
    account.wait("j", "Stopped")
    for wanted in (debug, pool, profile):
        assert refused(update, **wanted)[0] == "ValidationException"
    nodes = account.start("k")
    for wanted in (debug, profile, pool):
        answer = update(**{**wanted, "TrainingJobName": "k"})
        assert answer["TrainingJobArn"] == account.describe("k")["TrainingJobArn"]
    assert account.describe("k")["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    assert account.describe("k")["ProfilerConfig"] == {"DisableProfiler": True}
    nodes.exit("algo-1")


def test_jobs_of_a_training_plan(account: Account) -> None:
    sagemaker = client("sagemaker")
    plan = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/mine"
    resources = {**body()["ResourceConfig"], "TrainingPlanArn": plan}
    account.create("planned", ResourceConfig=resources)
    account.create("other")
    found = sagemaker.list_training_jobs(TrainingPlanArnEquals=plan)["TrainingJobSummaries"]
    assert [job["TrainingJobName"] for job in found] == ["planned"]
    for name in ("planned", "other"):
        sagemaker.stop_training_job(TrainingJobName=name)


def test_what_would_change_an_answer_is_refused_rather_than_ignored(account: Account) -> None:
    groups = client("logs").describe_log_groups
    refusal = ("InvalidParameterException", "logGroupNamePattern is not emulated")
    assert refused(groups, logGroupNamePattern="none") == refusal
    account.start().exit("algo-1")
    rules = [{"RuleConfigurationName": "r", "RuleEvaluatorImage": "i"}]
    update = client("sagemaker").update_training_job
    refusal = ("ValidationException", "ProfilerRuleConfigurations is not emulated")
    assert refused(update, TrainingJobName="j", ProfilerRuleConfigurations=rules) == refusal
