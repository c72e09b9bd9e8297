"""Checks of a request after its overlay: fields of the API, and pools. Pure.

Pools that the containers cannot run in Vertex AI would take, and bill their machines until
rsctl-launch has refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

from rsctl.findings import Finding, error, warning
from rsctl.node.platforms.vertex_pool_roles import POOL_ROLES, read_pool_roles
from rsctl.targets.launch_command import ranks_in
from rsctl.targets.managed.placeholders import ImagePlaceholder, Variable
from rsctl.targets.vertex.pools import (
    accelerator_of,
    chief_variables,
    count_of,
    roles_of,
    specs_of,
)

OVERLAY = "targets.vertex.overlay"
_CHIEF, _REDUCERS = 0, 2
_WORKERS, _ROLES = (0, 1), (2, 3)

_Path = tuple[Union[str, int], ...]


def patch_findings(
    before: dict[str, Any], body: dict[str, Any], has_own_reducers: bool, ranks: tuple[int, int]
) -> Iterator[Finding]:
    """`before` is the body without the patch; `ranks` is the default per node of each pool."""
    if body != before:
        yield from _field_findings(body)
    pools = specs_of(body)
    if pools == specs_of(before):
        return
    if not pools or not pools[_CHIEF]:
        yield _wrong("the job has no worker pool", "keep the first one")
        return
    chiefs = count_of(pools[_CHIEF])
    if chiefs != 1:
        text = f"the first worker pool has {chiefs} replicas, but it is only for the chief"
        yield _wrong(text, "keep it at 1, and set workers.count")
    if has_own_reducers and (len(pools) <= _REDUCERS or not pools[_REDUCERS]):
        text = "the job has no reducers, and its workers would wait for them"
        yield _wrong(text, "set reducers.count: 0 instead")
    busy = {*_WORKERS, *([_REDUCERS] if has_own_reducers else []), *_of_roles(before)}
    for number, pool in enumerate(pools):
        yield from _idle_launcher(number, pool, busy)
    for number in _of_roles(before):
        if len(pools) <= number or not pools[number]:
            text = (
                f"role {roles_of(before)[number]} has no worker pool, and the other nodes expect it"
            )
            yield _wrong(text, "remove the role instead")
    for number in _WORKERS[: len(pools)]:
        yield from _rank_findings(number, pools[number], ranks[number])


def world_size(body: dict[str, Any], ranks: tuple[int, int]) -> int:
    """The ranks of all workers; for a pool whose arguments do not say it, the default per node."""
    return sum(
        count_of(pool) * (ranks_in(_arguments(pool)) or default)
        for pool, default in zip(specs_of(body), ranks, strict=False)
    )


def images_in(body: dict[str, Any]) -> Iterator[ImagePlaceholder]:
    """The positions of images in the request, including the image that runs Python packages."""
    for path, name, container in _containers(body):
        key = "imageUri" if name == "containerSpec" else "executorImageUri"
        yield ImagePlaceholder((*path, key), container.get(key))


def variables_in(body: dict[str, Any]) -> Iterator[Variable]:
    """The environment variables of all containers."""
    for path, _, container in _containers(body):
        listed = container.get("env")
        for number, each in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(each, dict) and "value" in each:
                yield Variable((*path, "env", number, "value"), each.get("name"), each["value"])


def _containers(body: dict[str, Any]) -> Iterator[tuple[_Path, str, dict[str, Any]]]:
    """The program in each pool: the path in the request, the name of its field, the field."""
    for number, pool in enumerate(specs_of(body)):
        for name in ("containerSpec", "pythonPackageSpec"):
            container = pool.get(name)
            if isinstance(container, dict):
                yield ("body", "jobSpec", "workerPoolSpecs", number, name), name, container


def _field_findings(body: dict[str, Any]) -> Iterator[Finding]:
    """An unknown field may be newer than rsctl's description of the API."""
    from rsctl.targets.vertex.proto_json import UNKNOWN_NAME, MalformedJson, read_job

    try:
        read_job(body)
    except MalformedJson as problem:
        for line in str(problem).splitlines():
            if line.startswith(UNKNOWN_NAME):
                text = f"with this patch, the request has an unknown field: {line}"
                remedy = "see customJobs in the API's reference for its name"
                yield warning("overlay", text, remedy, OVERLAY)
            else:
                yield _wrong(f"the request is not a valid CustomJob: {line}", "correct this value")


def _of_roles(body: dict[str, Any]) -> list[int]:
    """The numbers of the pools that rsctl uses for the job's roles."""
    named = read_pool_roles(str(chief_variables(body).get(POOL_ROLES) or ""))
    return [number for number in _ROLES if f"workerpool{number}" in named]


def _idle_launcher(number: int, pool: dict[str, Any], busy: set[int]) -> Iterator[Finding]:
    """`busy` are the pools in which rsctl-launch starts a process."""
    if _arguments(pool)[:1] != ["--launcher"] or number in busy:
        return
    remedy = "give it a separate image and command, or make it a role with roles.NAME"
    remedy += ", or set reducers.count" if number == _REDUCERS else ""
    yield _wrong(
        f"worker pool {number} starts rsctl-launch, which has nothing to run there", remedy
    )


def _rank_findings(number: int, pool: dict[str, Any], default: int) -> Iterator[Finding]:
    """The number of ranks follows from the spec's accelerators, which a patch does not change."""
    machine = pool.get("machineSpec")
    machine = machine if isinstance(machine, dict) else {}
    has, ranks = accelerator_of(machine), ranks_in(_arguments(pool)) or default
    if has and has.per_node < ranks:
        text = (
            f"worker pool {number} is on {machine.get('machineType')} with {has}, but the "
            f"request starts {ranks} ranks on each"
        )
        remedy = "set workers.machine and workers.accelerator instead, which determine the ranks"
        yield warning("overlay", f"with this patch, {text}", remedy, OVERLAY)


def _arguments(pool: dict[str, Any]) -> list[str]:
    container = pool.get("containerSpec")
    arguments = container.get("args") if isinstance(container, dict) else None
    return [str(argument) for argument in arguments] if isinstance(arguments, list) else []


def _wrong(text: str, remedy: str) -> Finding:
    return error("overlay", f"with this patch, {text}", remedy, OVERLAY)
