"""SageMaker as far as its answers go: jobs are made, and are what a test says they are."""

from __future__ import annotations

from typing import Any

from rsctl.targets.base import ImagePlan, Plan
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Service

Answer = dict[str, Any]

BODY: Answer = {
    "TrainingJobName": "bert-7f3k2a",
    "AlgorithmSpecification": {
        "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/bert@sha256:" + "a" * 64,
        "TrainingInputMode": "File",
    },
    "RoleArn": "arn:aws:iam::123456789012:role/train",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs"},
    "ResourceConfig": {
        "VolumeSizeInGB": 100,
        "InstanceGroups": [
            {
                "InstanceGroupName": "reducers",
                "InstanceType": "ml.c5n.9xlarge",
                "InstanceCount": 2,
            },
            {
                "InstanceGroupName": "workers",
                "InstanceType": "ml.g5.12xlarge",
                "InstanceCount": 4,
            },
        ],
    },
    "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
    "Environment": {"RSCTL_RUN": "bert-7f3k2a", "RSCTL_TOKEN": "top", "MODE": "fast"},
}
RUN = "bert-7f3k2a"
REQUEST: Answer = {"operation": "CreateTrainingJob", "region": "us-east-1", "body": BODY}
PLAN = Plan(
    run=RUN,
    target="sagemaker",
    image=ImagePlan(tag="image:1", transport="rsctl"),
    pools=[],
    world_size=4,
    env={},
    request=REQUEST,
)
_START = 1_780_000_000


class FakeSageMaker(AwsEmulator):
    """`jobs` are the answers of DescribeTrainingJob; a test changes them. `refuse` is the error of
    the next calls of an operation.
    """

    def __init__(self) -> None:
        super().__init__("us-east-1")
        self.jobs: dict[str, Answer] = {}
        self.tags: dict[str, str] = {}
        self.refuse_with: dict[str, tuple[str, str]] = {}
        self.add(
            Service(
                "sagemaker",
                "ValidationException",
                {
                    "CreateTrainingJob": self._create,
                    "DescribeTrainingJob": self._describe,
                    "StopTrainingJob": self._stop,
                    "ListTrainingJobs": self._list,
                    "ListTags": self._list_tags,
                },
            )
        )

    def _create(self, wanted: Answer) -> Answer:
        self._refuse_if_asked("CreateTrainingJob")
        name = wanted["TrainingJobName"]
        if name in self.jobs:
            message = "Training job names must be unique within an AWS account and region"
            raise self.refuse(400, "ResourceInUse", message)
        self.jobs[name] = described_job(wanted)
        return {"TrainingJobArn": self.jobs[name]["TrainingJobArn"]}

    def _describe(self, wanted: Answer) -> Answer:
        self._refuse_if_asked("DescribeTrainingJob")
        return self._job(wanted["TrainingJobName"])

    def _stop(self, wanted: Answer) -> Answer:
        job = self._job(wanted["TrainingJobName"])
        if job["TrainingJobStatus"] != "InProgress":
            message = (
                "The request was rejected because the training job is in status "
                f"{job['TrainingJobStatus']}."
            )
            raise self.refuse(400, "ValidationException", message)
        job.update(TrainingJobStatus="Stopping", SecondaryStatus="Stopping")
        return {}

    def _list(self, wanted: Answer) -> Answer:
        names = [name for name in self.jobs if wanted.get("NameContains", "") in name]
        first = int(wanted.get("NextToken", 0))
        page = [
            {
                key: self.jobs[name][key]
                for key in ("TrainingJobName", "TrainingJobArn", "CreationTime")
            }
            | {"TrainingJobStatus": self.jobs[name]["TrainingJobStatus"]}
            for name in names[first : first + 2]
        ]
        more = {"NextToken": str(first + 2)} if first + 2 < len(names) else {}
        return {"TrainingJobSummaries": page, **more}

    def _list_tags(self, wanted: Answer) -> Answer:
        self._refuse_if_asked("ListTags")
        return {"Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()]}

    def _job(self, name: str) -> Answer:
        if name not in self.jobs:
            raise self.refuse(400, "ValidationException", "Requested resource not found.")
        return self.jobs[name]

    def _refuse_if_asked(self, operation: str) -> None:
        if operation in self.refuse_with:
            code, message = self.refuse_with[operation]
            raise self.refuse(400, code, message)


def described_job(body: Answer, **changes: Any) -> Answer:
    """DescribeTrainingJob's answer for a job that was created just now."""
    name = body["TrainingJobName"]
    return {
        **{key: value for key, value in body.items() if key != "Tags"},
        "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://bucket/runs/model.tar.gz"},
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Starting",
        "CreationTime": _START,
        "LastModifiedTime": _START,
        "SecondaryStatusTransitions": [
            {
                "Status": "Starting",
                "StartTime": _START,
                "StatusMessage": "Launching requested ML instances",
            }
        ],
        **changes,
    }


def transitions(*phases: tuple[str, float]) -> list[Answer]:
    """Phases with their seconds, one after the other from the job's creation; 0 lasts still."""
    found, moment = [], float(_START)
    for status, seconds in phases:
        entry: Answer = {"Status": status, "StartTime": moment, "StatusMessage": f"{status} it"}
        if seconds:
            entry["EndTime"] = moment + seconds
        found.append(entry)
        moment += seconds
    return found
