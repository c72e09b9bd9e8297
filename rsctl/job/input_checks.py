"""Checks of `inputs` that hold for all targets: names of variables, ranges, files on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from rsctl.findings import Finding, error, warning
from rsctl.job.inputs import Input, LocationPerTarget, locations_of, variable_of
from rsctl.job.job import Job
from rsctl.job.units import Location
from rsctl.node import shards

_LONGEST_NAME = 255  # bytes, on the usual file systems
_NO_PATTERN = "name the folder, or write shards as a range such as train-{000..127}.tar"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_inputs(job: Job) -> Iterator[Finding]:
    """Findings of the inputs, for all targets."""
    yield from _check_variables(job)
    for key, location in locations_of(job):
        yield from _check_range(key, location)
        yield from _check_parts(key, location)
    for name, given in job.inputs.items():
        if isinstance(given, Input) and _is_empty(given):
            message = f"input {name} has no location for any target"
            remedy = "name one: uri: {TARGET: gs://BUCKET/PATH, local: ./PATH}"
            yield error("inputs", message, remedy, f"inputs.{name}.uri")
        elif not isinstance(given, Input):
            yield from missing_files(f"inputs.{name}", given)
        elif isinstance(given.uri, Location):
            yield from missing_files(f"inputs.{name}.uri", given.uri)


def _is_empty(given: Input) -> bool:
    return isinstance(given.uri, LocationPerTarget) and given.uri.is_empty


def missing_files(key: str, location: Location) -> Iterator[Finding]:
    """An error for a local path where nothing is; of shards, for the first that is missing."""
    if location.scheme != "file":
        return
    try:
        names = shards.expand(location) if shards.has_range(location) else [str(location)]
    except ValueError:
        return  # it has its own finding
    missing = next((name for name in names if not os.path.exists(name)), None)
    if missing is not None:
        what = f", one of {len(names):,} shards" if len(names) > 1 else ""
        remedy = _NO_PATTERN if "*" in location else "correct the path"
        yield error("file", f"nothing exists at {missing!r}{what}", remedy, key)


def _check_variables(job: Job) -> Iterator[Finding]:
    variables: dict[str, str] = {}
    for name in job.inputs:
        first = variables.setdefault(variable_of(name), name)
        if first != name:
            message = f"{first} and {name} both become {variable_of(name)}"
            yield error("inputs", message, "rename one of the two", f"inputs.{name}")
    for key, location in locations_of(job):
        name = key.split(".")[1]
        taken = variables.get(f"{variable_of(name)}_SHARDS")
        if taken and shards.has_range(location):
            message = f"{variable_of(taken)} already holds the names of the shards of {name}"
            yield error("inputs", message, "rename one of the two", f"inputs.{taken}")


def _check_range(key: str, location: Location) -> Iterator[Finding]:
    if not shards.has_range(location):
        return
    try:
        shards.count(location)
    except ValueError as problem:
        remedy = "write train-{000..127}.tar; in a YAML flow mapping, put it in quotes"
        yield error("inputs", f"invalid shards: {problem}", remedy, key)


def _check_parts(key: str, location: Location) -> Iterator[Finding]:
    """Parts of a name that lead elsewhere where a bucket is seen as folders."""
    for part in location.partition("://")[2].split("/"):
        if part in (".", "..") or _CONTROL.search(part) or len(part.encode()) > _LONGEST_NAME:
            shown = part if len(part) < 80 else f"{part[:80]}..."
            message = f"{shown!r} in a bucket cannot be the name of a file or folder"
            yield error("inputs", message, "use another prefix", key)
            return
    if location.scheme != "file" and "*" in location:
        shown = location if len(location) < 80 else f"...{location[-80:]}"
        message = f"* in {shown!r} is not expanded: neither rsctl nor the clouds match names"
        yield warning("inputs", message, _NO_PATTERN, key)
