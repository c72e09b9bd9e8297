"""Input channels: objects of S3 as files below /opt/ml/input/data.

Modes File and FastFile are alike here: the files are there before the container starts. Where a
prefix ends within a name, the path of a file is not documented; here names begin after the
prefix's last slash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rsctl.targets.sagemaker.emulator.files import copy_to, make_folder
from rsctl.targets.sagemaker.emulator.hosts import EmulatedHost
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects

_SCHEME = "s3://"


def split_uri(uri: str) -> tuple[str, str]:
    """Bucket and key of `s3://BUCKET/KEY`."""
    bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
    return bucket, key


def source_of(channel: dict[str, Any]) -> dict[str, Any]:
    """Where a channel's data is."""
    source: dict[str, Any] = channel["DataSource"]["S3DataSource"]
    return source


def objects_of(objects: FolderObjects, channel: dict[str, Any]) -> dict[str, Path]:
    """A channel's files, by their names below it. Raises OSError if a manifest makes no sense."""
    source = source_of(channel)
    if source["S3DataType"] == "ManifestFile":
        return dict(_listed(objects, source["S3Uri"]))
    bucket, prefix = split_uri(source["S3Uri"])
    return dict(_below(objects, bucket, prefix))


def provide(
    objects: FolderObjects,
    channels: list[dict[str, Any]],
    hosts: list[EmulatedHost],
    data: dict[str, Path],
) -> None:
    """Copy all channels' files to the hosts that get them, into their folders by host's name.

    Raises OSError that names the missing file.
    """
    for channel in channels:
        found, source = sorted(objects_of(objects, channel).items()), source_of(channel)
        if not found:
            raise OSError(f"{source['S3Uri']} matched no files on s3")
        groups = source.get("InstanceGroupNames")
        getting = [host for host in hosts if not groups or host.group in groups]
        is_sharded = source.get("S3DataDistributionType") == "ShardedByS3Key"
        for index, host in enumerate(getting):
            folder = data[host.name] / channel["ChannelName"]
            make_folder(folder)
            for name, path in found[index :: len(getting)] if is_sharded else found:
                copy_to(path, folder / name)


def configuration(channels: list[dict[str, Any]], mode: str, group: str) -> dict[str, Any]:
    """The content of inputdataconfig.json for the hosts of a group."""
    named = {channel["ChannelName"]: channel for channel in channels}
    return {
        name: {
            "TrainingInputMode": channel.get("InputMode", mode),
            "S3DistributionType": source_of(channel).get(
                "S3DataDistributionType", "FullyReplicated"
            ),
            "RecordWrapperType": channel.get("RecordWrapperType", "None"),
            **({"ContentType": channel["ContentType"]} if "ContentType" in channel else {}),
        }
        for name, channel in named.items()
        if group in source_of(channel).get("InstanceGroupNames", [group])
    }


def _below(objects: FolderObjects, bucket: str, prefix: str) -> Iterator[tuple[str, Path]]:
    for key in objects.names(bucket) if objects.has(bucket) else ():
        path = objects.path(bucket, key) if key.startswith(prefix) else None
        if path:
            yield _inside(key, prefix), path


def _inside(key: str, prefix: str) -> str:
    """The path of an object below its channel."""
    if key == prefix:
        return key.rpartition("/")[2]
    if key.startswith(prefix.rstrip("/") + "/") and prefix:
        return key[len(prefix.rstrip("/")) + 1 :]
    return key[prefix.rfind("/") + 1 :]


def _listed(objects: FolderObjects, uri: str) -> Iterator[tuple[str, Path]]:
    """The locations in a manifest: `[{"prefix": "s3://BUCKET/FOLDER/"}, "NAME", ...]`."""
    bucket, key = split_uri(uri)
    try:
        head, *names = json.loads(objects.content(bucket, key) or b"null")
        bucket, prefix = split_uri(head["prefix"])
        keys = {str(name): f"{prefix}{name}" for name in names}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise OSError(f"{uri} is not a valid manifest") from None
    for name, key in keys.items():
        path = objects.path(bucket, key)
        if path is None or ".." in name.split("/") or name.startswith("/"):
            raise OSError(f"{_SCHEME}{bucket}/{key} has failed to download")
        yield name, path
