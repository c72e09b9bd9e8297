"""Maps fields of the request to the keys of the spec that they come from, with a remedy. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from rsctl.job.job import Job
from rsctl.targets.sagemaker.channels import CHIEF, PACKAGE, REDUCERS
from rsctl.targets.sagemaker.options import sagemaker_options

OPTIONS = "targets.sagemaker"
OVERLAY = f"{OPTIONS}.overlay"

Path = tuple[str | int, ...]


class SpecKey(NamedTuple):
    """A key path of the spec, and the remedy for errors in its value."""

    path: str
    remedy: str


_CORRECT = "correct it"
_ARN = "set its full ARN"
_FIELDS: dict[str, SpecKey] = {
    "TrainingJobName": SpecKey("name", _CORRECT),
    "RoleArn": SpecKey(
        f"{OPTIONS}.role", "set an ARN such as arn:aws:iam::123456789012:role/train"
    ),
    "AlgorithmSpecification.TrainingImage": SpecKey("image", "use an image in ECR"),
    "AlgorithmSpecification.TrainingImageConfig": SpecKey(f"{OPTIONS}.registry_access", _CORRECT),
    "AlgorithmSpecification.TrainingImageConfig.TrainingRepositoryAuthConfig": SpecKey(
        f"{OPTIONS}.registry_credentials", _ARN
    ),
    "AlgorithmSpecification.MetricDefinitions": SpecKey("metrics", _CORRECT),
    "AlgorithmSpecification.ContainerEntrypoint": SpecKey("run.command", "shorten its arguments"),
    "AlgorithmSpecification.ContainerArguments": SpecKey(
        "run.args", "move long text to a file in the image, or use launcher once"
    ),
    "HyperParameters": SpecKey(
        f"{OPTIONS}.hyperparameters",
        "shorten them, and run.args, which may use some of the same space",
    ),
    "InputDataConfig": SpecKey("inputs", "combine some of them under one prefix"),
    "AlgorithmSpecification.TrainingInputMode": SpecKey(f"{OPTIONS}.input_mode", _CORRECT),
    "OutputDataConfig": SpecKey("outputs", f"set s3://BUCKET/FOLDER, or {OPTIONS}.staging"),
    "OutputDataConfig.KmsKeyId": SpecKey(f"{OPTIONS}.output_kms_key", _CORRECT),
    "CheckpointConfig": SpecKey("checkpoints", _CORRECT),
    "CheckpointConfig.LocalPath": SpecKey(f"{OPTIONS}.checkpoint_path", _CORRECT),
    "ProfilerConfig": SpecKey(f"{OPTIONS}.profiler", _CORRECT),
    "ResourceConfig.InstancePreferences": SpecKey(
        f"{OPTIONS}.instance_preferences", "at most 4 of them, and workers.machine"
    ),
    "ResourceConfig": SpecKey("workers", _CORRECT),
    "ResourceConfig.InstanceGroups": SpecKey(
        "roles",
        "at most 5 groups: workers, the roles, reducers, and a chief with a different "
        "configuration",
    ),
    "ResourceConfig.InstanceType": SpecKey("workers.machine", "use another machine type"),
    "ResourceConfig.InstanceCount": SpecKey("workers.count", _CORRECT),
    "ResourceConfig.VolumeSizeInGB": SpecKey("workers.disk", _CORRECT),
    "ResourceConfig.VolumeKmsKeyId": SpecKey(f"{OPTIONS}.volume_kms_key", _CORRECT),
    "ResourceConfig.KeepAlivePeriodInSeconds": SpecKey(f"{OPTIONS}.keep_alive", "at most 6h"),
    "ResourceConfig.TrainingPlanArn": SpecKey(f"{OPTIONS}.training_plan", _ARN),
    "ResourceConfig.InstancePlacementConfig": SpecKey(f"{OPTIONS}.placement", _CORRECT),
    "VpcConfig.Subnets": SpecKey(f"{OPTIONS}.subnets", "set subnets and security_groups together"),
    "VpcConfig.SecurityGroupIds": SpecKey(
        f"{OPTIONS}.security_groups", "set subnets and security_groups together"
    ),
    "StoppingCondition.MaxRuntimeInSeconds": SpecKey("limits.timeout", "at most 28d"),
    "StoppingCondition.MaxPendingTimeInSeconds": SpecKey("limits.queue", "from 30m to 28d"),
    "StoppingCondition.MaxWaitTimeInSeconds": SpecKey("limits.queue", _CORRECT),
    "EnableManagedSpotTraining": SpecKey("limits.spot", _CORRECT),
    "RetryStrategy": SpecKey("limits.retries", "from 0 to 30"),
    "Environment": SpecKey(
        "run.env", "remove or shorten some; put long values in a file of the image"
    ),
    "TensorBoardOutputConfig": SpecKey(f"{OPTIONS}.tensorboard", _CORRECT),
    "ExperimentConfig": SpecKey(f"{OPTIONS}.experiment", _CORRECT),
    "MlflowConfig": SpecKey(f"{OPTIONS}.mlflow", _CORRECT),
    "Tags": SpecKey(f"{OPTIONS}.tags", _CORRECT),
}


def spec_key_of(path: Path, body: dict[str, Any], job: Job) -> SpecKey:
    """The most specific known key that a field of a body comes from."""
    listed = _listed(path, body, job)
    if listed is not None:
        return listed
    names = [part for part in path if isinstance(part, str)]
    for end in range(len(names), 0, -1):
        found = _FIELDS.get(".".join(names[:end]))
        if found is not None and found.path == "limits.retries":
            is_own = job.limits.restarts is None
            return found if is_own else found._replace(path="limits.restarts")
        if found is not None:
            return _below(found, names[end:], job)
    return SpecKey(OVERLAY, _CORRECT)


def _below(found: SpecKey, rest: list[str], job: Job) -> SpecKey:
    """The entry of a mapping, if the user wrote it."""
    written: set[str] = set()
    if found.path == "run.env":
        written = set(job.run.env)
    elif found.path == f"{OPTIONS}.hyperparameters":
        written = set(sagemaker_options(job).hyperparameters)
        if not written:
            return SpecKey("run.args", "move long text to a file: arguments of 25 kB fit")
    is_own = bool(rest) and rest[0] in written
    return found._replace(path=f"{found.path}.{rest[0]}") if is_own else found


def _listed(path: Path, body: dict[str, Any], job: Job) -> SpecKey | None:
    """For an item of a list, the key that it comes from."""
    if len(path) > 1 and path[0] in ("InputDataConfig", "Tags"):
        return _channel(path, body, job) if path[0] == "InputDataConfig" else _tag(path, body, job)
    if path[:2] == ("ResourceConfig", "InstanceGroups") and len(path) > 3:
        group = _item(body, path[:3]).get("InstanceGroupName")
        key = {"InstanceType": "machine", "InstanceCount": "count"}.get(str(path[3]))
        pool = "reducers" if group == REDUCERS else "workers"
        pool = f"roles.{group}" if group in job.roles else pool
        if group == CHIEF and key == "machine" and job.chief.machine is not None:
            pool = "chief"
        return SpecKey(f"{pool}.{key}", _CORRECT) if key else None
    return None


def _channel(path: Path, body: dict[str, Any], job: Job) -> SpecKey | None:
    options = sagemaker_options(job)
    name = str(_item(body, path[:2]).get("ChannelName"))
    if name in options.file_systems:
        return SpecKey(f"{OPTIONS}.file_systems.{name}", _CORRECT)
    if name in job.inputs:
        is_plain = name not in options.channels or path[-1] in ("S3Uri", "ChannelName")
        key = f"inputs.{name}" if is_plain else f"{OPTIONS}.channels.{name}"
        return SpecKey(key, _CORRECT)
    if name == PACKAGE:
        return SpecKey(f"{OPTIONS}.staging", _CORRECT)
    return None


def _tag(path: Path, body: dict[str, Any], job: Job) -> SpecKey | None:
    key = _item(body, path[:2]).get("Key")
    is_own = key in sagemaker_options(job).tags
    return SpecKey(f"{OPTIONS}.tags.{key}", _CORRECT) if is_own else None


def _item(body: Any, path: Path) -> dict[str, Any]:
    for part in path:
        body = body[part]
    return body if isinstance(body, dict) else {}
