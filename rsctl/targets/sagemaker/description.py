"""A training job's name, pools and request, from DescribeTrainingJob's answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.errors import NoAnswer
from rsctl.findings import RsctlError
from rsctl.job.secret_names import is_secret_name
from rsctl.runs.stream.events import now
from rsctl.targets.managed.service import JobDescription
from rsctl.targets.sagemaker.pools import pools_of
from rsctl.targets.sagemaker.request import RUN_TAG
from rsctl.targets.variables import TOKEN

Answer = Mapping[str, Any]

_OF_REQUEST = (
    *("TrainingJobName", "AlgorithmSpecification", "RoleArn", "HyperParameters"),
    *("Environment", "InputDataConfig", "OutputDataConfig", "ResourceConfig", "VpcConfig"),
    *("StoppingCondition", "CheckpointConfig", "EnableManagedSpotTraining", "RetryStrategy"),
    *("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption", "DebugHookConfig"),
    *("RemoteDebugConfig", "InfraCheckConfig", "ExperimentConfig", "TensorBoardOutputConfig"),
    *("ProfilerConfig", "MlflowConfig", "ModelPackageConfig", "ServerlessJobConfig"),
)


def event_time(value: Any) -> str:
    """A time from boto3, in the form of an event's; the present if it is missing."""
    if not isinstance(value, datetime):
        return now()
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def describe_job(answer: Answer, region: str, run: str | None) -> JobDescription:
    """The job. Its request's values under names of secrets are left out."""
    body = {key: answer[key] for key in _OF_REQUEST if key in answer}
    for key in ("Environment", "HyperParameters"):
        if key in body:
            body[key] = {name: _shown(name, value) for name, value in body[key].items()}
    return JobDescription(
        name=str(answer.get("TrainingJobName", "")),
        created=event_time(answer.get("CreationTime")),
        pools=pools_of(answer),
        run=run,
        request={"operation": "CreateTrainingJob", "region": region, "body": body},
    )


def _shown(name: str, value: str) -> str | None:
    return None if name == TOKEN or is_secret_name(name) else value


def run_of(aws: Aws, answer: Answer) -> str | None:
    """The run of rsctl that a job belongs to, or None; reads the job's tags if necessary.

    Raises NoAnswer.
    """
    run = answer.get("Environment", {}).get("RSCTL_RUN")
    if run is not None:
        return str(run)
    try:
        arn = answer.get("TrainingJobArn", "")
        tags = aws.request("sagemaker", "list_tags", {"ResourceArn": arn}, retry=False)
    except NoAnswer:
        raise
    except RsctlError:  # reading tags needs a separate permission
        return None
    found = [str(tag["Value"]) for tag in tags.get("Tags", ()) if tag.get("Key") == RUN_TAG]
    return found[0] if found else None
