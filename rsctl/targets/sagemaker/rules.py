"""Rules of SageMaker's documentation for a request beyond its model. Pure.

Each rule looks at the body as it would be sent, overlay included, so it applies to requests from
any source. Sources: the texts of botocore's model where nothing else is named, and the Developer
Guide's pages on warm pools (train-warm-pools), heterogeneous clusters
(train-heterogeneous-cluster), file systems (model-access-training-data) and tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rsctl.targets.sagemaker.api_model import Problem
from rsctl.targets.sagemaker.catalog import has_own_disks

LONGEST_RUN = 28 * 86_400
"""Seconds that a job may run."""

_POOL = ("ResourceConfig", "KeepAlivePeriodInSeconds")
_PENDING = ("StoppingCondition", "MaxPendingTimeInSeconds")
_SET_VPC = "set targets.sagemaker.subnets and security_groups"
_ACCELERATED = ("ml.p", "ml.g", "ml.trn")


def rule_problems(body: dict[str, Any]) -> Iterator[Problem]:
    """The mistakes that SageMaker would refuse or ignore. The body's types are already valid."""
    resources = body.get("ResourceConfig", {})
    if "ServerlessJobConfig" not in body:
        yield from _machines(resources, bool(body.get("EnableManagedSpotTraining")))
        yield from _volumes(resources)
        yield from _image(body)
    yield from _times(body)
    yield from _channels(body)
    yield from _tags(body.get("Tags", []))


def machine_types(resources: dict[str, Any]) -> list[str]:
    """Every machine type of a ResourceConfig."""
    listed = [*resources.get("InstanceGroups", []), *resources.get("InstancePreferences", [])]
    single = [resources["InstanceType"]] if "InstanceType" in resources else []
    return single + [item["InstanceType"] for item in listed]


def _machines(resources: dict[str, Any], spot: bool) -> Iterator[Problem]:
    ways = [
        name
        for name in ("InstanceType", "InstanceGroups", "InstancePreferences")
        if resources.get(name)
    ]
    if len(ways) != 1:
        text = f"it has {' and '.join(ways) or 'no machines'}, but must have exactly one of them"
        yield _rule("ResourceConfig", text=text)
    if "InstanceType" in ways and not resources.get("InstanceCount"):
        yield _rule("ResourceConfig", "InstanceCount", text="a job needs at least one machine")
    if ways == ["InstanceGroups"] and "InstanceCount" in resources:
        text = "it cannot be combined with InstanceGroups, which have their own numbers"
        yield _rule("ResourceConfig", "InstanceCount", text=text)
    if resources.get("InstancePreferences"):
        yield from _preferences(resources)
        for name in ("InstancePlacementConfig", "TrainingPlanArn"):
            if name in resources:
                yield _rule(
                    "ResourceConfig", name, text="it cannot be combined with InstancePreferences"
                )
        if spot:
            remedy = "set limits.spot: false, or remove targets.sagemaker.instance_preferences"
            text = "it cannot be combined with InstancePreferences"
            yield _rule("EnableManagedSpotTraining", text=text, remedy=remedy)
    if resources.get("KeepAlivePeriodInSeconds"):
        if "InstanceGroups" in ways:
            text = (
                "SageMaker does not keep machines in groups warm, as used for reducers, chief or "
                "roles"
            )
            yield _rule(*_POOL, text=text, remedy="remove it, or use the same machine type for all")
        if spot:
            remedy = "remove it, or set limits.spot: false"
            yield _rule(*_POOL, text="SageMaker does not keep spot machines warm", remedy=remedy)


def _preferences(resources: dict[str, Any]) -> Iterator[Problem]:
    """Each type once, with the number of machines either for all types or for each of them."""
    preferences = resources["InstancePreferences"]
    has_own = ["InstanceCount" in each for each in preferences]
    is_shared = "InstanceCount" in resources
    if any(has_own) if is_shared else not all(has_own):
        text = "either ResourceConfig or all InstancePreferences must have an InstanceCount"
        yield _rule("ResourceConfig", "InstancePreferences", text=text)
    types = [each["InstanceType"] for each in preferences]
    for name in sorted({name for name in types if types.count(name) > 1}):
        yield _rule("ResourceConfig", "InstancePreferences", text=f"{name} is listed twice")


def _volumes(resources: dict[str, Any]) -> Iterator[Problem]:
    types = machine_types(resources)
    if "VolumeKmsKeyId" in resources:
        for name in filter(has_own_disks, types):
            text = f"{name} has built-in disks, for which no key can be set"
            remedy = "remove it: the hardware encrypts these disks"
            yield _rule("ResourceConfig", "VolumeKmsKeyId", text=text, remedy=remedy)
    if not resources.get("VolumeSizeInGB"):
        for name in types:
            if not has_own_disks(name):
                text = f"{name} has no built-in disk, so a volume size is required"
                yield _rule("ResourceConfig", "VolumeSizeInGB", text=text)


def _times(body: dict[str, Any]) -> Iterator[Problem]:
    stopping = body.get("StoppingCondition", {})
    runtime, wait = stopping.get("MaxRuntimeInSeconds"), stopping.get("MaxWaitTimeInSeconds")
    if runtime is not None and runtime > LONGEST_RUN:
        text = f"a job can run for at most 28 days, not for {runtime} seconds"
        yield _rule("StoppingCondition", "MaxRuntimeInSeconds", text=text)
    if wait is not None and not body.get("EnableManagedSpotTraining"):
        text = "MaxWaitTimeInSeconds is for spot machines only"
        yield _rule("StoppingCondition", "MaxWaitTimeInSeconds", text=text)
    elif wait is not None and runtime is not None and wait < runtime:
        text = f"MaxWaitTimeInSeconds is {wait}, less than MaxRuntimeInSeconds, {runtime}"
        yield _rule("StoppingCondition", "MaxWaitTimeInSeconds", text=text)
    types = machine_types(body.get("ResourceConfig", {}))
    is_cpu = bool(types) and not any(name.startswith(_ACCELERATED) for name in types)
    if is_cpu and _PENDING[1] in stopping:
        text = "SageMaker limits the wait only for machines with accelerators and for spot machines"
        yield _rule(*_PENDING, text=text)


def _channels(body: dict[str, Any]) -> Iterator[Problem]:
    channels = body.get("InputDataConfig", [])
    default = body.get("AlgorithmSpecification", {}).get("TrainingInputMode")
    for index, channel in enumerate(channels):
        mode = channel.get("InputMode", default)
        yield from _channel(channel, mode, ("InputDataConfig", index))
        if "FileSystemDataSource" in channel["DataSource"] and "VpcConfig" not in body:
            text = "a file system requires subnets and security_groups of a VPC"
            yield _rule("InputDataConfig", index, text=text, remedy=_SET_VPC)
    names = [channel["ChannelName"] for channel in channels]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _rule("InputDataConfig", names.index(name), text=f"{name} is listed twice")
    yield from _groups_of_channels(body, channels)


def _channel(channel: dict[str, Any], mode: str, path: tuple[str | int, ...]) -> Iterator[Problem]:
    source = channel["DataSource"].get("S3DataSource", {})
    needs_pipe = {
        "an AugmentedManifestFile": source.get("S3DataType") == "AugmentedManifestFile",
        "gzip": channel.get("CompressionType", "None") != "None",
        "RecordIO": channel.get("RecordWrapperType", "None") != "None",
    }
    for what, is_asked in needs_pipe.items():
        if is_asked and mode != "Pipe":
            text = f"{what} needs mode Pipe, but the mode is {mode}"
            yield Problem(path, "rule", text, "set its mode: Pipe")


def _groups_of_channels(body: dict[str, Any], channels: list[dict[str, Any]]) -> Iterator[Problem]:
    groups = {group["InstanceGroupName"] for group in _groups(body)}
    named = [
        channel["DataSource"].get("S3DataSource", {}).get("InstanceGroupNames", [])
        for channel in channels
    ]
    if any(named) and not all(named):
        text = "either all channels name instance groups, or none of them"
        yield _rule("InputDataConfig", text=text)
    for index, names in enumerate(named):
        for name in sorted(set(names) - groups):
            yield _rule("InputDataConfig", index, text=f"there is no instance group {name!r}")


def _groups(body: dict[str, Any]) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = body.get("ResourceConfig", {}).get("InstanceGroups", [])
    return groups


def _image(body: dict[str, Any]) -> Iterator[Problem]:
    algorithm = body.get("AlgorithmSpecification", {})
    if ("TrainingImage" in algorithm) == ("AlgorithmName" in algorithm):
        text = "it must have exactly one of TrainingImage and AlgorithmName"
        yield _rule("AlgorithmSpecification", "TrainingImage", text=text)
    access = algorithm.get("TrainingImageConfig", {}).get("TrainingRepositoryAccessMode")
    if access == "Vpc" and "VpcConfig" not in body:
        text = "a private registry requires subnets and security_groups of a VPC"
        yield _rule("AlgorithmSpecification", "TrainingImageConfig", text=text, remedy=_SET_VPC)


def _tags(tags: list[dict[str, str]]) -> Iterator[Problem]:
    keys = [tag["Key"] for tag in tags]
    for index, key in enumerate(keys):
        if key.lower().startswith("aws:"):
            text = "names that start with aws: are reserved for AWS"
            yield _rule("Tags", index, text=text, remedy="use another name")
        if key in keys[:index]:
            yield _rule("Tags", index, text=f"{key} is listed twice")


def _rule(*path: str | int, text: str, remedy: str | None = None) -> Problem:
    return Problem(path, "rule", text, remedy)
