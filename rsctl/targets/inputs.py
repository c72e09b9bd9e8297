"""Inputs as a plan shows them, and how a target provides each. Pure except for files on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Optional, Union

import msgspec
from msgspec.structs import replace

from rsctl.findings import Finding, error, note, warning
from rsctl.job.input_checks import missing_files
from rsctl.job.inputs import (
    GivenInput,
    Input,
    InputMode,
    LocationPerTarget,
    inputs_of,
    variable_of,
    without_location,
)
from rsctl.job.job import Job
from rsctl.job.units import Location
from rsctl.node import shards
from rsctl.target_info import TargetInfo
from rsctl.targets.launch_command import unlaunched

if TYPE_CHECKING:
    from rsctl.targets.base import Plan

COPIES = "/var/tmp/rsctl/inputs"  # noqa: S108 - on the container's own disk, for any user of it
"""The folder to which rsctl-launch copies inputs on the clouds: one folder for each input."""


class InputPlan(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """An input: its location, how it gets to the nodes, and the program that copies it.

    `path` is the location for the script: a path, or URLs. `source` is the path from which
    rsctl-launch copies it there; rsctl-launch checks the `counted` files of a platform's copy.
    `shards` is the number of files that its ranges stand for; each rank gets its part.
    """

    name: str
    mode: InputMode
    location: str
    path: str
    by: str
    source: Optional[str] = None
    counted: bool = False
    shards: Optional[int] = None


def shard_count(given: GivenInput) -> Optional[int]:
    """The shards of an input; None if it has none, or if they are invalid."""
    try:
        return shards.count(given.location) if given.has_shards else None
    except ValueError:
        return None


def last_part(location: str) -> str:
    """The name of a copy: the last part of the location, or its ranges with the following parts."""
    path = location.partition("://")[2] or location
    if shards.has_range(path):
        return shards.split_folder(path)[1]
    return path.rstrip("/").rpartition("/")[2]


def copied_path(given: GivenInput, copies: str = COPIES) -> str:
    """The path to which rsctl-launch copies an input on the clouds, or below another folder."""
    return f"{copies}/{given.name}/{last_part(given.location)}"


def mounted_input(
    given: GivenInput, path: str, by: str, copied_from: str, copies: str = COPIES
) -> InputPlan:
    """An input that all nodes see at a path. rsctl-launch makes a copy from there, below `copies`:
    that needs neither credentials nor a client in the image.
    """
    location = str(given.location)
    plan = InputPlan(
        name=given.name,
        mode=given.mode or "mount",
        location=location,
        path=path,
        by=by,
        shards=shard_count(given),
    )
    if given.mode == "copy":
        who = f"rsctl-launch, from {copied_from}"
        return replace(plan, path=copied_path(given, copies), by=who, source=path)
    if given.mode == "stream":
        return replace(plan, path=location, by="the script, which opens URLs")
    return plan


def input_env(inputs: Iterable[InputPlan]) -> dict[str, Optional[str]]:
    """The variables by which the script finds its inputs; rsctl-launch adds the variables of
    shards.
    """
    return {variable_of(each.name): each.path for each in inputs}


def planned(inputs: list[InputPlan]) -> Union[list[InputPlan], msgspec.UnsetType]:
    """The inputs for a plan, empty if there are none."""
    return inputs or msgspec.UNSET


def out_of_reach(
    path: str, location: Location, target: str, schemes: frozenset[str], remedy: str = ""
) -> Finding:
    """The error for a location that a target cannot read or write."""
    reach = "a local path" if schemes == {"file"} else f"{' or '.join(sorted(schemes))}://"
    example = "./PATH" if "file" in schemes else f"{min(schemes)}://BUCKET/PATH"
    message = f"target {target} cannot reach {location}; it supports {reach}"
    return error("unsupported", message, f"for this target: --set {path}={example}{remedy}", path)


def input_findings(job: Job, info: TargetInfo) -> Iterator[Finding]:
    """Errors for inputs that a target cannot provide as the job requests."""
    for name in without_location(job, info.name):
        given = job.inputs[name]
        uri = given.uri if isinstance(given, Input) else None
        if uri and not (isinstance(uri, LocationPerTarget) and uri.is_empty):
            message = f"input {name} has no location for target {info.name}"
            scheme = min(info.schemes)
            example = "./PATH" if scheme == "file" else f"{scheme}://BUCKET/PATH"
            path = f"inputs.{name}.uri"
            yield error("inputs", message, f"add {path}.{info.name}: {example}", path)
    for job_input in inputs_of(job, info.name):
        if job_input.key.count(".") > 2:  # has locations for several targets; only this one counts
            yield from missing_files(job_input.key, job_input.location)
        yield from _mode_findings(job_input, info)


def _mode_findings(given: GivenInput, info: TargetInfo) -> Iterator[Finding]:
    mode, key = given.mode or "mount", f"inputs.{given.name}.mode"
    streams_shards = given.has_shards and "shards" in info.input_modes
    if mode == "stream" and not streams_shards and "stream" not in info.input_modes:
        message = f"target {info.name} cannot stream {given.location}"
        remedy = "set mode: mount"
        if "shards" in info.input_modes:
            message += ": there the script opens the URLs of shards, and this location has none"
            remedy += ", or name the shards with a range such as train-{000..127}.tar"
        yield error("unsupported", message, remedy, key)
    elif mode == "copy" and mode not in info.input_modes:
        message = f"target {info.name} does not copy data to its nodes"
        yield error("unsupported", message, "set mode: mount", key)
    is_fetched = mode == "copy" or (mode == "stream" and given.has_shards)
    schemes = info.schemes | (info.fetched_schemes if is_fetched else frozenset())
    if given.location.scheme not in schemes:
        other = ""
        if given.location.scheme in info.fetched_schemes:
            other = f", or copy it to this machine: --set {key}=copy"
        yield out_of_reach(given.key, given.location, info.name, schemes, other)


def planned_input_findings(job: Job, plan: Plan) -> Iterator[Finding]:
    """Findings about the inputs of a plan, once it is known who copies them and for how many."""
    for each in plan.inputs or ():
        path = f"inputs.{each.name}"
        if not job.run.is_launched:
            yield from _unlaunched(job, each, path)
            continue
        if each.shards is not None:
            yield from _share_findings(each, plan.world_size, path)
        for name in (name for name, role in job.roles.items() if role.image and each.source):
            message = (
                f"rsctl-launch copies {each.name}, and roles.{name}.image does not have "
                "rsctl-launch"
            )
            yield warning("inputs", message, "set mode: mount if the role reads it", f"{path}.mode")


def _unlaunched(job: Job, planned: InputPlan, path: str) -> Iterator[Finding]:
    what, remedy = unlaunched(job)
    if planned.source is not None:
        message = (
            f"rsctl-launch copies {planned.name} to the nodes, and {what} does not use rsctl-launch"
        )
        yield error("unsupported", message, f"{remedy}, or set mode: mount", f"{path}.mode")
    elif planned.shards is not None:
        variable = variable_of(planned.name)
        message = f"{variable}_SHARDS comes from rsctl-launch, which {what} does not use"
        remedy = f"the script gets all shards, as a range, in {variable}"
        yield note("inputs", message, remedy, path)


def _share_findings(planned: InputPlan, ranks: int, path: str) -> Iterator[Finding]:
    count = planned.shards or 0
    if count < ranks:
        message = f"{count:,} shards for {ranks:,} ranks: {ranks - count:,} ranks have no data"
        yield warning(
            "inputs", message, "split the data into more shards, or use fewer ranks", path
        )
    elif count % ranks:
        less = count // ranks
        message = f"{count:,} shards for {ranks:,} ranks: some have {less:,}, others {less + 1:,}"
        remedy = "if all ranks must run the same number of steps, limit the steps"
        yield note("inputs", message, remedy, path)
