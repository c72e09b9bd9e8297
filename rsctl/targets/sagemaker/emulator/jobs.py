"""SageMaker's operations on training jobs: create, describe, list, stop, update, delete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rsctl.targets.managed.emulator.behaviour import is_named
from rsctl.targets.managed.emulator.http import Refused
from rsctl.targets.sagemaker.emulator import listing, quotas, rules
from rsctl.targets.sagemaker.emulator.artifacts import model_uri
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Parameters, Service
from rsctl.targets.sagemaker.emulator.channels import objects_of, source_of, split_uri
from rsctl.targets.sagemaker.emulator.hosts import groups_of
from rsctl.targets.sagemaker.emulator.job_record import JobRecord, moment
from rsctl.targets.sagemaker.emulator.job_thread import JobResources

_INVALID = "ValidationException"
_MISSING = "Requested resource not found."
_NOT_SHOWN = ("Tags", "SessionChainingConfig")
_DEFAULT_RUNTIME = 86_400
_MOST_TAGS = 50
_DEBUGGED = ("Downloading", "Training")
_UPDATABLE = frozenset({"TrainingJobName", "ResourceConfig", "RemoteDebugConfig", "ProfilerConfig"})
"""The parameters of UpdateTrainingJob that do something."""


class Jobs:
    """The training jobs of one account and region.

    `start` is called with the record of each new job and whether its machines are warm, `stop` with
    the record of a job that must stop.
    """

    def __init__(
        self,
        emulator: AwsEmulator,
        resources: JobResources,
        start: Callable[[JobRecord, bool], None],
        stop: Callable[[JobRecord], None],
    ) -> None:
        self._emulator = emulator
        self._resources, self._pools = resources, resources.pools
        self._start = start
        self._stop = stop
        self.records: dict[str, JobRecord] = {}
        operations = {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": self._describe,
            "ListTrainingJobs": self._list,
            "StopTrainingJob": self._stop_one,
            "UpdateTrainingJob": self._update,
            "DeleteTrainingJob": self._delete,
            "AddTags": self._add_tags,
            "ListTags": self._list_tags,
            "DeleteTags": self._delete_tags,
        }
        supported = {"ListTrainingJobs": listing.SUPPORTED, "UpdateTrainingJob": _UPDATABLE}
        emulator.add(Service("sagemaker", _INVALID, operations, supported))

    def _create(self, wanted: Parameters) -> Parameters:
        name = wanted["TrainingJobName"]
        arn = self._arn(name)
        if name in self.records:
            message = (
                "Training job names must be unique within an AWS account and region, and a "
                f"training job with this name already exists ({arn})"
            )
            raise self._emulator.refuse(400, "ResourceInUse", message)
        self._check(wanted)
        is_spot = bool(wanted.get("EnableManagedSpotTraining"))
        demand = quotas.demand(wanted["ResourceConfig"], is_spot)
        behaviour = self._resources.behaviour
        limits = behaviour.quotas
        machines = {group.machine for group in groups_of(wanted["ResourceConfig"])}
        if is_named(behaviour.no_quota_in, self._emulator.region, machines):
            limits = dict.fromkeys(demand, 0)
        over = quotas.exceeded(demand, self.records.values(), limits)
        if over:
            raise self._emulator.refuse(400, "ResourceLimitExceeded", over)
        tags = {tag["Key"]: tag["Value"] for tag in wanted.get("Tags", [])}
        record = JobRecord(_shown(wanted, arn), tags)
        self._make_buckets(wanted)
        self.records[name] = record
        is_warm = self._pools.take(wanted)
        record.enter("Starting", "Starting the training job")
        self._start(record, is_warm)
        return {"TrainingJobArn": arn}

    def _check(self, wanted: Parameters) -> None:
        """Raise Refused for what the service would refuse."""
        if found := "; ".join(rules.problems(wanted)):
            raise self._refused(found)
        image = wanted["AlgorithmSpecification"]["TrainingImage"]
        if not self._resources.runner.has_image(image):
            raise self._refused(f"Requested image {image} not found.")
        for channel in wanted.get("InputDataConfig", []):
            uri = source_of(channel)["S3Uri"]
            try:
                is_there = bool(objects_of(self._resources.objects, channel))
            except OSError as problem:
                raise self._refused(f"Invalid S3Uri {uri}: {problem}") from None
            if not is_there:
                raise self._refused(_no_objects(uri, self._emulator.region, wanted["RoleArn"]))

    def _make_buckets(self, wanted: Parameters) -> None:
        """Where the job will write is there; where it reads must be there already."""
        uris = [wanted["OutputDataConfig"]["S3OutputPath"]]
        if "CheckpointConfig" in wanted:
            uris.append(wanted["CheckpointConfig"]["S3Uri"])
        if "TensorBoardOutputConfig" in wanted:
            uris.append(wanted["TensorBoardOutputConfig"]["S3OutputPath"])
        for uri in uris:
            self._resources.objects.make(split_uri(uri)[0])

    def _describe(self, wanted: Parameters) -> Parameters:
        record = self._record(wanted)
        return {**record.copy(), **self._pools.status(record)}

    def _list(self, wanted: Parameters) -> Parameters:
        records: Collection[JobRecord] = self.records.values()
        try:
            return listing.page(records, wanted, self._pools)
        except ValueError:
            raise self._refused("Invalid NextToken.") from None

    def _stop_one(self, wanted: Parameters) -> Parameters:
        record = self._record(wanted)
        if not record.stop():
            message = "The request was rejected because the training job is in status"
            raise self._refused(f"{message} {record.status}.")
        self._stop(record)
        return {}

    def _update(self, wanted: Parameters) -> Parameters:
        record = self._record(wanted)
        if refusal := _update_refusal(record, wanted, self._pools.status(record)):
            raise self._refused(refusal)
        resources = wanted.get("ResourceConfig")
        if resources:
            seconds = resources["KeepAlivePeriodInSeconds"]
            changed = {**record["ResourceConfig"], "KeepAlivePeriodInSeconds": seconds}
            record.change(ResourceConfig=changed)
            self._pools.change(record.name, seconds)
        if "RemoteDebugConfig" in wanted:
            record.change(RemoteDebugConfig=wanted["RemoteDebugConfig"])
        if "ProfilerConfig" in wanted:
            merged = {**record.get("ProfilerConfig", {}), **wanted["ProfilerConfig"]}
            record.change(ProfilerConfig=merged)
        return {"TrainingJobArn": record.arn}

    def _delete(self, wanted: Parameters) -> Parameters:
        record = self._record(wanted)
        pool = self._pools.status(record).get("WarmPoolStatus", {})
        if not record.has_ended or pool.get("Status") == "Available":
            why = f"is in status {record.status}" if not record.has_ended else "keeps a warm pool"
            message = f"The training job {record.name} {why} and cannot be deleted."
            raise self._emulator.refuse(400, "ResourceInUse", message)
        del self.records[record.name]
        return {}

    def _add_tags(self, wanted: Parameters) -> Parameters:
        record = self._tagged(wanted)
        tags = {**record.tags, **{tag["Key"]: tag["Value"] for tag in wanted["Tags"]}}
        if len(tags) > _MOST_TAGS:
            raise self._refused(f"At most {_MOST_TAGS} tags.")
        record.tags = tags
        return self._list_tags(wanted)

    def _list_tags(self, wanted: Parameters) -> Parameters:
        tags = self._tagged(wanted).tags
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _delete_tags(self, wanted: Parameters) -> Parameters:
        record = self._tagged(wanted)
        record.tags = {k: v for k, v in record.tags.items() if k not in wanted["TagKeys"]}
        return {}

    def _tagged(self, wanted: Parameters) -> JobRecord:
        found = self.records.get(wanted["ResourceArn"].rpartition("/")[2])
        if found is None or found.arn != wanted["ResourceArn"]:
            raise self._refused(_MISSING)
        return found

    def _record(self, wanted: Parameters) -> JobRecord:
        found = self.records.get(wanted["TrainingJobName"])
        if found is None:
            raise self._refused(_MISSING)
        return found

    def _arn(self, name: str) -> str:
        scope = f"{self._emulator.region}:{self._emulator.account}"
        return f"arn:aws:sagemaker:{scope}:training-job/{name}"

    def _refused(self, message: str) -> Refused:
        return self._emulator.refuse(400, _INVALID, message)


def _shown(wanted: Parameters, arn: str) -> dict[str, Any]:
    """DescribeTrainingJob's answer for a job that is new, with the defaults that are filled in."""
    body = {name: value for name, value in wanted.items() if name not in _NOT_SHOWN}
    stopping = {"MaxRuntimeInSeconds": _DEFAULT_RUNTIME, **body.get("StoppingCondition", {})}
    algorithm = dict(body["AlgorithmSpecification"])
    has_metrics = bool(algorithm.get("MetricDefinitions"))
    algorithm.setdefault("EnableSageMakerMetricsTimeSeries", has_metrics)
    resources = dict(body["ResourceConfig"])
    if preferred := resources.get("InstancePreferences"):
        resources["SelectedInstanceType"] = preferred[0]["InstanceType"]
        count = preferred[0].get("InstanceCount") or resources.get("InstanceCount", 1)
        resources["SelectedInstanceCount"] = count
    now, output = moment(), body["OutputDataConfig"]
    return {
        **body,
        "TrainingJobArn": arn,
        "ModelArtifacts": {"S3ModelArtifacts": model_uri(output, body["TrainingJobName"])},
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Starting",
        "AlgorithmSpecification": algorithm,
        "ResourceConfig": resources,
        "StoppingCondition": stopping,
        "EnableNetworkIsolation": body.get("EnableNetworkIsolation", False),
        "EnableInterContainerTrafficEncryption": body.get(
            "EnableInterContainerTrafficEncryption", False
        ),
        "EnableManagedSpotTraining": body.get("EnableManagedSpotTraining", False),
        "CreationTime": now,
        "LastModifiedTime": now,
    }


def _no_objects(uri: str, region: str, role: str) -> str:
    return (
        f'No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that '
        f"the bucket exists in the selected region ({region}), that objects exist under that S3 "
        f'prefix, and that the role "{role}" has "s3:ListBucket" permissions on bucket '
        f'"{split_uri(uri)[0]}".'
    )


def _update_refusal(
    record: JobRecord, wanted: Mapping[str, Any], pool: Mapping[str, Any]
) -> str | None:
    """Why an update is refused; `pool` is the warm pool in DescribeTrainingJob's answer.

    The rules are from botocore's texts of UpdateTrainingJobRequest; the messages are rsctl's.
    """
    phase = record["SecondaryStatus"]
    if "RemoteDebugConfig" in wanted and phase not in _DEBUGGED:
        phases = " or ".join(_DEBUGGED)
        return f"RemoteDebugConfig can be updated while the job is {phases}, and it is {phase}."
    if "ProfilerConfig" in wanted and record.has_ended:
        return f"ProfilerConfig can be updated while the job is in progress: it is {record.status}."
    kept = pool.get("WarmPoolStatus", {}).get("Status")
    if "ResourceConfig" in wanted and record.has_ended and kept != "Available":
        return f"The warm pool of {record.name} is not available: it is {kept or 'not there'}."
    return None
