"""The placements where a job may run: a region and a machine type each, in the order of trying.

A target plans a job for one placement. So a job with lists of regions or machines becomes one job
for each placement, in which each key has one value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional, Union

import msgspec
from msgspec.structs import asdict, replace

from rsctl.findings import Finding, error
from rsctl.job.inputs import Input, LocationPerTarget
from rsctl.job.installed_targets import with_options, with_value
from rsctl.job.job import Job, PerTarget
from rsctl.job.units import Location
from rsctl.job.values import value_on
from rsctl.target_info import TargetInfo

REGION = "{region}"
"""The text that represents the placement's region in the names of images, buckets and keys."""

_MACHINE = "workers.machine"
MOST_PLACEMENTS = 16
"""More placements than this are taken for a mistake: each is planned in full."""


class Placement(msgspec.Struct, kw_only=True, frozen=True):
    """A region and a machine type; None if the job leaves it open."""

    region: Optional[str] = None
    machine: Optional[str] = None

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.region, self.machine)))


class PlacementJob(NamedTuple):
    """The job for one placement. `keys` maps the spec's keys with lists to the items it uses."""

    placement: Placement
    job: Job
    keys: dict[str, str]

    def relocated(self, finding: Finding) -> Finding:
        """A finding about the region or machine as one about that item of the list."""
        path = finding.path or ""
        return replace(finding, path=self.keys.get(path, path) or None)


class _Choice(NamedTuple):
    """One of the values of a key; `path` is the item's, if they are a list."""

    value: Optional[str]
    path: Optional[str] = None


def placements_of(job: Job, info: TargetInfo) -> list[PlacementJob]:
    """The job for each of its placements on a target, in order; for most jobs one.

    All machines of a region come before the next region: data, image, quotas and reservations are
    a region's, and machines of one list have the same accelerators.
    """
    if not info.has_placements:
        return [PlacementJob(Placement(), job, {})]
    return [
        _placement_job(job, info, region, machine)
        for region in _regions(job, info)
        for machine in _machines(job, info)
    ]


def placement_findings(job: Job, info: TargetInfo) -> Iterator[Finding]:
    """The mistakes in the lists themselves."""
    if not info.has_placements:
        yield from _without_placements(job, info)
        return
    regions, machines = _regions(job, info), _machines(job, info)
    for choices in (regions, machines):
        values = [choice.value for choice in choices]
        for index, choice in enumerate(choices):
            if choice.value in values[:index]:
                message = f"{choice.value} is listed twice"
                yield error("placements", message, "remove it", choice.path)
    if len(regions) * len(machines) > MOST_PLACEMENTS:
        message = (
            f"{len(regions)} regions and {len(machines)} machine types are "
            f"{len(regions) * len(machines)} placements, and at most {MOST_PLACEMENTS} are "
            "possible"
        )
        path = (regions if len(regions) > len(machines) else machines)[0].path
        yield error("placements", message, "list only the ones that you would use", path)


def _without_placements(job: Job, info: TargetInfo) -> Iterator[Finding]:
    if isinstance(job.workers.machine, list) and _MACHINE not in info.unused:
        message = f"target {info.name} supports only one machine type"
        yield error("unsupported", message, "keep one", _MACHINE)
    repository = value_on(job.image.repository, info.name)
    for path, name in (("image.uri", job.image.uri), ("image.repository", repository)):
        if name and REGION in name:
            message = f"target {info.name} has no regions, and the name contains {REGION}"
            yield error("unsupported", message, "set a name without it for this target", path)


def _regions(job: Job, info: TargetInfo) -> list[_Choice]:
    return _choices(info.options_of(job).region, f"targets.{info.name}.region")


def _machines(job: Job, info: TargetInfo) -> list[_Choice]:
    given = job.workers.machine
    if isinstance(given, PerTarget):
        return _choices(value_on(given, info.name), f"{_MACHINE}.{info.name}")
    return _choices(given, _MACHINE)


def _choices(given: Union[str, list[str], None], path: str) -> list[_Choice]:
    if isinstance(given, list):
        return [_Choice(value, f"{path}[{index}]") for index, value in enumerate(given)]
    return [_Choice(given)]


def _placement_job(job: Job, info: TargetInfo, region: _Choice, machine: _Choice) -> PlacementJob:
    keys = {}
    if region.path:
        keys[f"targets.{info.name}.region"] = region.path
    if machine.path:
        keys |= dict.fromkeys((_MACHINE, f"{_MACHINE}.{info.name}"), machine.path)
        given: Any = job.workers.machine
        one: Any = machine.value
        if isinstance(given, PerTarget):
            one = with_value(given, info.name, machine.value)
        job = replace(job, workers=replace(job.workers, machine=one))
    options = info.options_of(job)
    if region.path:
        options = replace(options, region=region.value)
    job = with_options(job, info.name, options)
    placement = Placement(region=region.value, machine=machine.value)
    return PlacementJob(placement, _with_region(job, info, region.value), keys)


def _with_region(job: Job, info: TargetInfo, region: Optional[str]) -> Job:
    """The job with the image, data, buckets and keys of the region."""
    if region is None:
        return job
    target, image, options = info.name, job.image, info.options_of(job)
    repository: Any = image.repository
    if isinstance(repository, PerTarget):
        own = _in_region(value_on(repository, target), region)
        repository = with_value(repository, target, own)
    else:
        repository = _in_region(repository, region)
    image = replace(image, uri=_in_region(image.uri, region), repository=repository)
    texts = {n: t for n, t in asdict(options).items() if isinstance(t, str)}
    options = replace(options, **{name: _in_region(text, region) for name, text in texts.items()})
    changed = replace(
        job,
        image=image,
        roles={n: replace(r, image=_in_region(r.image, region)) for n, r in job.roles.items()},
        inputs={name: _input(each, target, region) for name, each in job.inputs.items()},
        outputs=_location(job.outputs, region),
        checkpoints=_location(job.checkpoints, region),
    )
    return with_options(changed, target, options)


def _input(given: Union[Location, Input], target: str, region: str) -> Union[Location, Input]:
    if not isinstance(given, Input):
        return Location(_in_region(given, region))
    uri = given.uri
    if not isinstance(uri, LocationPerTarget):
        return replace(given, uri=Location(_in_region(uri, region)))
    own = _location(uri.on(target), region)
    return replace(given, uri=replace(uri, **{target: own})) if own else given


def _location(given: Optional[Location], region: str) -> Optional[Location]:
    return None if given is None else Location(_in_region(given, region))


def _in_region(text: Any, region: str) -> Any:
    return text.replace(REGION, region) if text else text
