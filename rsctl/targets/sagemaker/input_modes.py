"""Inputs on SageMaker: the input mode of each, and its path for the script. Pure.

`mount` is FastFile, which shows objects as files that are read as they are opened; `copy` is File;
`stream` is FastFile too, or Pipe where `targets.sagemaker` says so. Of shards that are copied each
node has its part alone: rsctl-launch copies it from FastFile, since File would bring all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from rsctl.findings import Finding, error, warning
from rsctl.job.inputs import GivenInput, InputMode, inputs_of
from rsctl.job.job import Job
from rsctl.node import shards
from rsctl.targets.inputs import InputPlan, copied_path, last_part, shard_count
from rsctl.targets.sagemaker.options import ChannelOptions, sagemaker_options

INPUT_DIR = "/opt/ml/input/data"

_OF_OURS: dict[str, tuple[str, ...]] = {
    "mount": ("FastFile",),
    "copy": ("File",),
    "stream": ("FastFile", "Pipe"),
}
"""SageMaker's modes for each of rsctl's, the default first."""

_OURS: dict[str, InputMode] = {"FastFile": "mount", "File": "copy", "Pipe": "stream"}


def channel_mode(job: Job, given: GivenInput) -> Optional[str]:
    """The InputMode of an input's channel; None for the whole job's mode."""
    own = _channel(job, given).mode
    if given.mode is None:
        return own
    if given.mode == "copy" and given.has_shards:
        return "FastFile"
    wanted = own or sagemaker_options(job).input_mode
    allowed = _OF_OURS[given.mode]
    return wanted if wanted in allowed else allowed[0]


def channel_uri(given: GivenInput) -> str:
    """The location that a channel reads: for shards, their folder."""
    if not given.has_shards:
        return str(given.location)
    return f"{shards.split_folder(given.location)[0]}/"


def input_plans(job: Job) -> list[InputPlan]:
    """The inputs as the nodes get them."""
    return [_input_plan(job, job_input) for job_input in inputs_of(job, "sagemaker")]


def _input_plan(job: Job, given: GivenInput) -> InputPlan:
    channel = f"{INPUT_DIR}/{given.name}"
    theirs = channel_mode(job, given) or sagemaker_options(job).input_mode
    if given.has_shards:
        channel = f"{channel}/{last_part(given.location)}"
    is_copied = given.has_shards and given.mode == "copy"
    return InputPlan(
        name=given.name,
        mode=given.mode or _OURS[theirs],
        location=str(given.location),
        path=copied_path(given) if is_copied else channel,
        by=f"{'rsctl-launch, from ' if is_copied else ''}SageMaker's input mode {theirs}",
        source=channel if is_copied else None,
        counted=theirs == "File" and given.mode == "copy" and job.run.is_launched,
        shards=shard_count(given),
    )


def mode_findings(job: Job) -> Iterator[Finding]:
    """Errors for modes of rsctl and of SageMaker that conflict."""
    for job_input in inputs_of(job, "sagemaker"):
        channel = _channel(job, job_input)
        key = f"targets.sagemaker.channels.{job_input.name}"
        if job_input.mode and channel.mode and channel.mode not in _OF_OURS[job_input.mode]:
            modes = " or ".join(_OF_OURS[job_input.mode])
            message = (
                f"inputs.{job_input.name}.mode {job_input.mode} is {modes}, and not {channel.mode}"
            )
            yield error("inputs", message, "remove one of the two", f"{key}.mode")
        yield from _key_findings(job, job_input)
        if not job_input.has_shards:
            continue
        theirs = channel_mode(job, job_input) or sagemaker_options(job).input_mode
        if theirs == "Pipe":
            message = "mode Pipe provides no files, so ranges of shards are not possible"
            remedy = f"set inputs.{job_input.name}.mode: mount, or name the prefix that they have"
            yield error("inputs", message, remedy, job_input.key)
        for name in ("type", "sharded"):
            if getattr(channel, name) != getattr(ChannelOptions(), name):
                message = f"rsctl assigns shards to nodes, and so does {name}"
                yield error("inputs", message, "remove one of the two", f"{key}.{name}")


def _key_findings(job: Job, given: GivenInput) -> Iterator[Finding]:
    """The service downloads no object whose key has `//`; the job would fail on its machines."""
    if "//" not in str(given.location).partition("://")[2]:
        return
    theirs = channel_mode(job, given) or sagemaker_options(job).input_mode
    message = f"{given.location} has `//` in its key"
    remedy = "remove the doubled /; copy objects whose keys contain it to other keys"
    if theirs == "File":
        yield error(
            "inputs", f"{message}: SageMaker's input mode File refuses it", remedy, given.key
        )
    else:
        message += (
            f": SageMaker's input mode File refuses it, and it is unknown whether {theirs} accepts "
            "it"
        )
        yield warning("inputs", message, remedy, given.key)


def _channel(job: Job, given: GivenInput) -> ChannelOptions:
    return sagemaker_options(job).channels.get(given.name, ChannelOptions())
