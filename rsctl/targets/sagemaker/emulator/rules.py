"""Rules of CreateTrainingJob beyond the service's model, which is checked before.

The rules are documented. The messages for instance groups, the groups of channels, the wait for
spot machines and missing data come from real answers; the others are invented. Requests that the
service supports and this emulator does not are refused too, with a message that says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rsctl.targets.sagemaker.catalog import has_own_disks
from rsctl.targets.sagemaker.emulator.measurements import definitions_of
from rsctl.targets.sagemaker.rules import machine_types

_LONGEST_RUN = 28 * 86_400
_ACCELERATED = ("ml.p", "ml.g", "ml.trn")
_ALIEN = ("ServerlessJobConfig",)

Body = dict[str, Any]


def problems(body: Body) -> Iterator[str]:
    """The mistakes in a request, one sentence each."""
    yield from _not_here(body)
    yield from _algorithm(body["AlgorithmSpecification"], "VpcConfig" in body)
    resources, is_spot = body["ResourceConfig"], bool(body.get("EnableManagedSpotTraining"))
    yield from _machines(resources)
    yield from _preferences(resources)
    yield from _machine_options(resources, is_spot)
    yield from _volumes(resources)
    yield from _times(body)
    yield from _channels(body)
    yield from _tags(body.get("Tags", []))


def _not_here(body: Body) -> Iterator[str]:
    here = "rsctl's emulator does not have "
    algorithm = body["AlgorithmSpecification"]
    default = algorithm["TrainingInputMode"]
    for name in _ALIEN:
        if name in body:
            yield f"{here}{name}"
    if "AlgorithmName" in algorithm:
        yield f"{here}algorithms by name, only TrainingImage"
    for channel in body.get("InputDataConfig", []):
        source = channel["DataSource"].get("S3DataSource")
        if source is None:
            yield f"{here}other sources of data than S3: channel {channel['ChannelName']}"
        elif source["S3DataType"] not in ("S3Prefix", "ManifestFile"):
            yield f"{here}S3DataType {source['S3DataType']}"
        if channel.get("InputMode", default) == "Pipe":
            yield f"{here}input mode Pipe: channel {channel['ChannelName']}"


def _algorithm(algorithm: Body, has_vpc: bool) -> Iterator[str]:
    if ("TrainingImage" in algorithm) == ("AlgorithmName" in algorithm):
        yield "You must specify exactly one of TrainingImage and AlgorithmName."
    access = algorithm.get("TrainingImageConfig", {}).get("TrainingRepositoryAccessMode")
    if access == "Vpc" and not has_vpc:
        yield "TrainingRepositoryAccessMode Vpc requires VpcConfig."
    try:
        definitions_of(algorithm)
    except ValueError as problem:
        yield str(problem)


def _machines(resources: Body) -> Iterator[str]:
    """How many machines of which types, in one of the three ways to say it."""
    ways = ("InstanceType", "InstanceGroups", "InstancePreferences")
    if resources.get("InstanceGroups") and {"InstanceType", "InstanceCount"} & {*resources}:
        yield "InstanceType or InstanceCount cannot be specified with InstanceGroups"
    elif sum(bool(resources.get(way)) for way in ways) != 1:
        yield f"ResourceConfig must have exactly one of {', '.join(ways)}."
    if resources.get("InstanceType") and not resources.get("InstanceCount"):
        yield "ResourceConfig.InstanceCount must be at least 1."
    groups = resources.get("InstanceGroups", [])
    if groups and not sum(group["InstanceCount"] for group in groups):
        yield "The instance groups must have at least one instance."
    if len({group["InstanceGroupName"] for group in groups}) < len(groups):
        yield "InstanceGroupName must be unique."


def _preferences(resources: Body) -> Iterator[str]:
    preferences = resources.get("InstancePreferences", [])
    has_own = ["InstanceCount" in each for each in preferences]
    if preferences and (any(has_own) if "InstanceCount" in resources else not all(has_own)):
        yield "InstanceCount must be in ResourceConfig or in all InstancePreferences."
    if len({each["InstanceType"] for each in preferences}) < len(preferences):
        yield "An instance type can appear only once in InstancePreferences."


def _machine_options(resources: Body, is_spot: bool) -> Iterator[str]:
    """Options that exclude each other."""
    if resources.get("KeepAlivePeriodInSeconds") and (is_spot or resources.get("InstanceGroups")):
        other = "managed spot training" if is_spot else "heterogeneous clusters"
        yield f"KeepAlivePeriodInSeconds cannot be used with {other}."
    placement = resources.get("InstancePlacementConfig", {})
    if placement and not all(name.startswith("ml.p6e-") for name in machine_types(resources)):
        yield "InstancePlacementConfig is only applicable for UltraServer capacity."
    if any(not each["InstanceCount"] for each in placement.get("PlacementSpecifications", [])):
        yield "InstanceCount of PlacementSpecifications must be at least 1."
    if resources.get("InstancePreferences") and is_spot:
        yield "InstancePreferences cannot be used with managed spot training."


def _volumes(resources: Body) -> Iterator[str]:
    """Each machine has either a volume or disks of its own."""
    for machine in machine_types(resources):
        if not resources.get("VolumeSizeInGB") and not has_own_disks(machine):
            yield f"VolumeSizeInGB is required for {machine}."
        if "VolumeKmsKeyId" in resources and has_own_disks(machine):
            yield f"VolumeKmsKeyId cannot be used with {machine}, which has local storage."


def _times(body: Body) -> Iterator[str]:
    stopping = body.get("StoppingCondition", {})
    runtime, wait = stopping.get("MaxRuntimeInSeconds", 0), stopping.get("MaxWaitTimeInSeconds")
    if runtime > _LONGEST_RUN:
        yield f"MaxRuntimeInSeconds must be at most {_LONGEST_RUN}."
    if body.get("EnableManagedSpotTraining"):
        if wait is None or wait < runtime:
            yield (
                "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to "
                "MaxRuntimeInSeconds"
            )
    elif wait is not None:
        yield (
            "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is "
            "set to true"
        )
    machines = machine_types(body["ResourceConfig"])
    if "MaxPendingTimeInSeconds" in stopping and not any(
        machine.startswith(_ACCELERATED) for machine in machines
    ):
        yield "MaxPendingTimeInSeconds is for accelerated instance types only."


def _channels(body: Body) -> Iterator[str]:
    channels = body.get("InputDataConfig", [])
    default = body["AlgorithmSpecification"]["TrainingInputMode"]
    names = [channel["ChannelName"] for channel in channels]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"Channel name {name} is not unique."
    for channel in channels:
        if "FileSystemDataSource" in channel["DataSource"] and "VpcConfig" not in body:
            yield "FileSystemDataSource requires VpcConfig."
        packed = channel.get("CompressionType", "None") != "None"
        recorded = channel.get("RecordWrapperType", "None") != "None"
        if (packed or recorded) and channel.get("InputMode", default) != "Pipe":
            yield f"Channel {channel['ChannelName']}: compression and records need Pipe mode."
    yield from _groups_of_channels(body, channels)


def _groups_of_channels(body: Body, channels: list[Body]) -> Iterator[str]:
    named = {
        channel["ChannelName"]: channel["DataSource"]
        .get("S3DataSource", {})
        .get("InstanceGroupNames", [])
        for channel in channels
    }
    groups = [g["InstanceGroupName"] for g in body["ResourceConfig"].get("InstanceGroups", [])]
    having = [name for name, its in named.items() if its]
    lacking = [name for name, its in named.items() if not its]
    if having and lacking:
        yield (
            f"Some channels have assigned instance groups: [{', '.join(having)}] while others "
            f"not: [{', '.join(lacking)}]"
        )
    for name in sorted({each for its in named.values() for each in its} - set(groups)):
        yield f"There is no instance group {name}."


def _tags(tags: list[Body]) -> Iterator[str]:
    keys = [tag["Key"] for tag in tags]
    if len(set(keys)) < len(keys):
        yield "Duplicate tag keys are not allowed."
    if any(key.lower().startswith("aws:") for key in keys):
        yield "Tag keys must not begin with aws:."
