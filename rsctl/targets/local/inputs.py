"""Inputs on this machine: paths, mounts and copies. Pure except for the sizes of local files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Optional

from rsctl.findings import Finding, error, first_of, warning
from rsctl.job.inputs import GivenInput, inputs_of
from rsctl.job.job import Job
from rsctl.node import shards
from rsctl.runs.home import home
from rsctl.targets.inputs import InputPlan, last_part, shard_count
from rsctl.targets.local.input_copies import copied_to

_INSIDE = "/rsctl/inputs"
_MOST_FILES = 20_000  # of an input whose size a plan finds out

_MOST_ENTRIES = 1000  # of a mounted folder in which a plan looks for links

_MOUNTED = {"process": "not copied: a path on this machine", "compose": "a bind mount"}
_COPIED = "rsctl, to this machine's disk, once before the start"
_STREAMED = "the script, which opens URLs"


def input_plans(job: Job, run: str, target: str) -> list[InputPlan]:
    """The inputs as replicas find them."""
    return [_input_plan(job_input, run, target) for job_input in inputs_of(job, target)]


def _input_plan(given: GivenInput, run: str, target: str) -> InputPlan:
    mode = given.mode or "mount"
    by = _COPIED if mode == "copy" else _MOUNTED[target]
    return InputPlan(
        name=given.name,
        mode=mode,
        location=str(given.location),
        path=_path(given, run, target),
        by=_STREAMED if _is_url(given) else by,
        shards=shard_count(given),
    )


def copies(job: Job, target: str) -> dict[str, str]:
    """The locations that are copied to this machine before the start, by name."""
    return {g.name: str(g.location) for g in inputs_of(job, target) if g.mode == "copy"}


def binds(job: Job, run: str) -> dict[str, str]:
    """The mounts of containers, by their path there."""
    found = {}
    for job_input in inputs_of(job, "compose"):
        source = _here(job_input, run)
        if not _is_url(job_input):
            whole = shards.split_folder(source)[0] if job_input.has_shards else source
            found[f"{_INSIDE}/{job_input.name}"] = whole
    return found


def _path(given: GivenInput, run: str, target: str) -> str:
    if _is_url(given):
        return str(given.location)
    if target == "process":
        return _here(given, run)
    inside = f"{_INSIDE}/{given.name}"
    return f"{inside}/{last_part(given.location)}" if given.has_shards else inside


def _here(given: GivenInput, run: str) -> str:
    """The path on this machine."""
    if given.mode == "copy":
        return str(copied_to(run) / given.name / last_part(given.location))
    return str(given.location)


def _is_url(given: GivenInput) -> bool:
    return given.mode != "copy" and given.location.scheme != "file"


def disk_findings(job: Job, target: str) -> Iterator[Finding]:
    """Errors for copies of local files that this machine's disk has no space for."""
    local = [g for g in inputs_of(job, target) if g.mode == "copy" and g.location.scheme == "file"]
    sizes = {given: size for given in local if (size := _size(given)) is not None}
    if not sizes:
        return
    where = next(folder for folder in (home(), *home().parents) if folder.exists())
    free = shutil.disk_usage(where).free
    if sum(sizes.values()) > free:
        largest = max(sizes, key=lambda given: sizes[given])
        message = (
            f"the copies need {sum(sizes.values()):,} bytes, but the disk of {home()} has only "
            f"{free:,} free"
        )
        remedy = f"set inputs.{largest.name}.mode: mount, or RSCTL_HOME to a larger disk"
        yield error("disk", message, remedy, f"inputs.{largest.name}.mode")


def link_findings(job: Job) -> Iterator[Finding]:
    """Warnings for mounted folders with links out of them, whose targets no container has."""
    for given in inputs_of(job, "compose"):
        if given.mode == "copy" or given.location.scheme != "file":
            continue
        folder = shards.split_folder(given.location)[0] if given.has_shards else given.location
        if links := _links_out(folder):
            message = (
                f"links in {folder} lead out of it, to files that a container does not have: "
                f"{first_of(links, 3)}"
            )
            remedy = "give the folder that has the files, or copy the files into it"
            if given.has_shards:
                remedy = f"set inputs.{given.name}.mode: copy, which copies the files of links"
            yield warning("inputs", message, remedy, given.key)


def _links_out(folder: str) -> list[str]:
    """The links in a folder that lead out of it, among its first entries."""
    if not os.path.isdir(folder):
        return []
    root = os.path.realpath(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        links = [entry for entry in islice(entries, _MOST_ENTRIES) if entry.is_symlink()]
        targets = {entry.name: os.path.realpath(entry.path) for entry in links}
        return sorted(n for n, at in targets.items() if not Path(at).is_relative_to(root))
    return []


def _size(given: GivenInput) -> Optional[int]:
    """Bytes of an input; None if it has too many files to look at each."""
    try:
        names = shards.expand(given.location) if given.has_shards else [str(given.location)]
    except ValueError:
        return None
    total = seen = 0
    for name in names:
        for file in _files(name):
            seen += 1
            if seen > _MOST_FILES:
                return None
            total += os.path.getsize(file) if os.path.isfile(file) else 0
    return total


def _files(path: str) -> Iterator[str]:
    """A file, or the files below a folder."""
    if not os.path.isdir(path):
        yield path
    for root, _, names in os.walk(path):
        yield from (os.path.join(root, name) for name in names)
