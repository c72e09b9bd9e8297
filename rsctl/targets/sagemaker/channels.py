"""Inputs as SageMaker's channels: the source of data, and its path for the script. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from msgspec.structs import replace

from rsctl.clients.staging import parse_staging
from rsctl.images.package import FILE, Package
from rsctl.job.inputs import inputs_of, variable_of
from rsctl.job.job import Job
from rsctl.targets.inputs import input_env as planned_env
from rsctl.targets.sagemaker.input_modes import INPUT_DIR, channel_mode, channel_uri, input_plans
from rsctl.targets.sagemaker.options import ChannelOptions, sagemaker_options

CHIEF = "chief"
"""The name of the chief's instance group, if it differs from the other workers'."""

WORKERS = "workers"
"""The name of the workers' instance group."""

REDUCERS = "reducers"
"""The name of the reducers' instance group."""

PACKAGE = "rsctl"
"""The name of the channel that brings a package."""

PACKAGE_PATH = f"{INPUT_DIR}/{PACKAGE}/{FILE}"

_PLAIN = ChannelOptions()


def channels(
    job: Job, instance_groups: Sequence[str], package: Optional[Package] = None
) -> list[dict[str, Any]]:
    """`InputDataConfig`; the reducers' instance group gets no data if the API allows that.

    Either all channels name instance groups or none does, and a file system's cannot.
    """
    options = sagemaker_options(job)
    groups = [name for name in instance_groups if name != REDUCERS]
    if len(groups) == len(instance_groups) or options.file_systems:
        groups = []  # all get them
    from_s3 = [
        _s3_channel(
            given.name,
            channel_uri(given),
            replace(options.channels.get(given.name, _PLAIN), mode=channel_mode(job, given)),
            groups,
        )
        for given in inputs_of(job, "sagemaker")
    ]
    mounted = [_mounted(name, job) for name in options.file_systems]
    return from_s3 + mounted + ([_package_channel(job, package, groups)] if package else [])


def input_env(job: Job) -> dict[str, Optional[str]]:
    """The name `RSCTL_INPUT_TRAIN` and similar."""
    mounted = {variable_of(n): f"{INPUT_DIR}/{n}" for n in sagemaker_options(job).file_systems}
    return {**planned_env(input_plans(job)), **mounted}


def _s3_channel(
    name: str, location: str, options: ChannelOptions, groups: list[str]
) -> dict[str, Any]:
    source: dict[str, Any] = {
        "S3DataType": options.type,
        "S3Uri": location,
        "S3DataDistributionType": "ShardedByS3Key" if options.sharded else "FullyReplicated",
    }
    if options.attributes:
        source["AttributeNames"] = list(options.attributes)
    if groups:
        source["InstanceGroupNames"] = groups
    channel: dict[str, Any] = {"ChannelName": name, "DataSource": {"S3DataSource": source}}
    if options.content_type:
        channel["ContentType"] = options.content_type
    if options.gzip:
        channel["CompressionType"] = "Gzip"
    if options.record_io:
        channel["RecordWrapperType"] = "RecordIO"
    if options.mode:
        channel["InputMode"] = options.mode
    if options.shuffle_seed is not None:
        channel["ShuffleConfig"] = {"Seed": options.shuffle_seed}
    return channel


def _package_channel(job: Job, package: Package, groups: list[str]) -> dict[str, Any]:
    """One object, alone in its folder. Reducers start from it too."""
    staging = parse_staging(sagemaker_options(job).staging or "")
    folder = f"s3://{staging.bucket}/{staging.folder}{package.folder}"
    everyone = [*groups, REDUCERS] if groups else []
    return _s3_channel(PACKAGE, folder, ChannelOptions(mode="File"), everyone)


def _mounted(name: str, job: Job) -> dict[str, Any]:
    """In mode File, set explicitly in case the job's other channels use another mode."""
    options = sagemaker_options(job).file_systems[name]
    source = {
        "FileSystemId": options.id,
        "FileSystemType": options.type,
        "DirectoryPath": options.path,
        "FileSystemAccessMode": options.access,
    }
    channel = {"ChannelName": name, "DataSource": {"FileSystemDataSource": source}}
    mode = sagemaker_options(job).input_mode
    return channel if mode == "File" else {**channel, "InputMode": "File"}
