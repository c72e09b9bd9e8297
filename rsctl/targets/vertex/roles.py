"""The worker pools of a job's own roles: which pool each gets, its machine, the findings. Pure.

A CustomJob has four pools: the chief's, the workers', one for parameter servers or reducers and one
for evaluators. It ends with the chief, even if other replicas still run. Sources: "Distributed
training" and "Understand the training service" of the platform's documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Optional

import msgspec
from msgspec.structs import replace

from rsctl.estimate.catalog import Machine
from rsctl.findings import Finding, error, note, warning
from rsctl.job.installed_targets import with_options
from rsctl.job.job import Job
from rsctl.targets.launch_command import unlaunched
from rsctl.targets.managed.architecture import architecture_findings
from rsctl.targets.roles import role_findings, role_job
from rsctl.targets.vertex.checks import node_findings
from rsctl.targets.vertex.info import INFO
from rsctl.targets.vertex.machines import worker_machine
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.reducers import ReducerPool
from rsctl.targets.vertex.scheduling import strategy_of

PLATFORM_ROLES = {2: "ps", 3: "evaluator"}
"""The names of a pool's tasks in TF_CONFIG."""


class RolePool(msgspec.Struct, frozen=True):
    """A role's worker pool. `job` is the role's job, `image` the role's own if any."""

    name: str
    number: int
    job: Job
    machine: Machine
    image: Optional[str] = None


def place_roles(names: Iterable[str], has_reducers: bool) -> dict[str, int]:
    """The pool of each role; a role without a pool has no entry.

    Reducers take pool 2. `ps` and `evaluator` get the pool that has this name in TF_CONFIG; the
    others get the remaining pools, in the order of the job file.
    """
    free = [3] if has_reducers else [2, 3]
    names = list(names)
    placed = {PLATFORM_ROLES[number]: number for number in free if PLATFORM_ROLES[number] in names}
    others = (name for name in names if name not in placed)
    return placed | dict(zip(others, (n for n in free if n not in placed.values()), strict=False))


def pool_roles(job: Job, has_reducers: bool) -> dict[str, str]:
    """The pools' roles that rsctl-launch and a log's reader need: `workerpool2` is `ps`.

    If the containers do not run rsctl-launch, only names that the platform does not have.
    """
    placed = place_roles(job.roles, has_reducers)
    ordered = sorted(placed.items(), key=lambda item: item[1])
    return {
        f"workerpool{number}": name
        for name, number in ordered
        if job.run.is_launched or name != PLATFORM_ROLES[number]
    }


def resolve_roles(
    job: Job, worker: Optional[Machine], reducers: Optional[ReducerPool], workers: list[Finding]
) -> tuple[list[RolePool], list[Finding]]:
    """The pools of all roles that have one, and the errors of the roles.

    `worker` is the workers' machine, `workers` are the findings about them.
    """
    pools: list[RolePool] = []
    findings: list[Finding] = []
    placed = place_roles(job.roles, reducers is not None)
    for name in job.roles:
        own = role_job(job, name)
        about: list[Finding] = []
        machine = worker_machine(own, about)
        about += node_findings(own, None)
        about += architecture_findings(own, machine, None, INFO.platform)
        findings += role_findings(job, name, about, workers)
        findings += _ends(job, name)
        if name not in placed:
            findings.append(_no_pool(job, name, reducers is not None))
        elif machine is not None:
            own = own if _is_like_workers(own, machine, job, worker) else _without_reservation(own)
            pools.append(RolePool(name, placed[name], own, machine, job.roles[name].image))
            findings += _pool_findings(job, pools[-1], worker, reducers is not None)
    return pools, findings


def _is_like_workers(own: Job, machine: Machine, job: Job, worker: Optional[Machine]) -> bool:
    """Whether a role has the workers' machine, with the same accelerators."""
    is_same = worker is not None and machine.name == worker.name
    return is_same and own.workers.accelerator == job.workers.accelerator


def _without_reservation(job: Job) -> Job:
    """A reservation applies to machines of the workers' kind."""
    options = replace(vertex_options(job), reservation=None)
    return with_options(job, INFO.name, options)


def _no_pool(job: Job, name: str, has_reducers: bool) -> Finding:
    others = [other for other in job.roles if other != name]
    taken = ["reducers"] if has_reducers else []
    taken += [other for other in others if other in place_roles(job.roles, has_reducers)]
    message = (
        "a job of Vertex AI has two worker pools besides the workers', and "
        f"{' and '.join(taken)} {'take' if len(taken) > 1 else 'takes'} them"
    )
    remedy = "remove a role, or combine two roles in one"
    remedy += "; or set reducers.count: 0" if has_reducers else ""
    return error("role", message, remedy, f"roles.{name}")


def _ends(job: Job, name: str) -> Iterator[Finding]:
    """rsctl-launch has the chief wait for a role that ends by itself; it must be in both."""
    role = job.roles[name]
    if role.ends == "with-workers" or (job.run.is_launched and role.image is None):
        return
    message = (
        "Vertex AI ends a job when its chief has ended, even if other replicas still run, and "
    )
    message += (
        f"{unlaunched(job)[0]} does not use rsctl-launch, which would make the chief wait"
        if not job.run.is_launched
        else "a separate image has no rsctl-launch, which would report its end to the chief"
    )
    remedy = f"set roles.{name}.ends: with-workers, and let the chief wait for its work"
    yield error("unsupported", message, remedy, f"roles.{name}.ends")


def _pool_findings(
    job: Job, pool: RolePool, worker: Optional[Machine], has_reducers: bool
) -> Iterator[Finding]:
    path = f"roles.{pool.name}"
    yield from _name_findings(job, pool, path, has_reducers)
    if worker is None:
        return
    is_like_workers = _is_like_workers(pool.job, pool.machine, job, worker)
    if strategy_of(job) == "FLEX_START" and not is_like_workers:
        message = "flex start gives all pools the same machine type, and the role's is different"
        remedy = "use the workers' machine type for it, or set another targets.vertex.capacity"
        yield error("role", message, remedy, f"{path}.machine")
    if vertex_options(job).persistent_resource and pool.machine.name != worker.name:
        message = f"the persistent resource must also have a pool of {pool.machine.name}"
        yield note("role", message, None, "targets.vertex.persistent_resource")
    if pool.image is None and pool.machine.arm != worker.arm:
        machines = f"{pool.machine.name} and {worker.name}"
        message = f"{machines} have different processors, but share one image"
        remedy = f"use machine types with the same processors, or set {path}.image"
        yield error("arm", message, remedy, f"{path}.machine")


def _name_findings(job: Job, pool: RolePool, path: str, has_reducers: bool) -> Iterator[Finding]:
    """The roles that TF_CONFIG names differently; rsctl-launch corrects it for TensorFlow's
    names.
    """
    called = PLATFORM_ROLES[pool.number]
    message = f"it is worker pool {pool.number}, which Vertex AI's TF_CONFIG calls {called}"
    if pool.name not in PLATFORM_ROLES.values():
        yield note("role", message, None, path)
    elif pool.name != called and not job.run.is_launched:
        message += ": reducers take pool 2" if has_reducers else ""
        yield warning("role", message, "for TensorFlow, set reducers.count: 0", path)
