"""Maps Vertex AI's worker pools to roles, replicas and pools. Pure.

Pool 0 has the chief, pool 1 the other workers. Pool 2 is for parameter servers or reducers, pool 3
for evaluators, as the platform itself calls them in TF_CONFIG; roles with other names use them too,
and the request's variable RSCTL_POOL_ROLES lists them. Source: "Distributed training" of the
platform's documentation.
"""

from __future__ import annotations

import re
from typing import Any

from rsctl.estimate.catalog import load
from rsctl.job.units import Accelerator
from rsctl.node.platforms.vertex_pool_roles import POOL_ROLES, read_pool_roles
from rsctl.targets.base import Pool, merged_pools

GOOGLES_REDUCER = re.compile(r"(us|europe|asia)-docker\.pkg\.dev/vertex-ai-restricted/.*")
"""The image of Reduction Server, one for each multi-region."""

Roles = tuple[str, str, str, str]
"""The role of the replicas in each worker pool."""

_TASK = re.compile(r"workerpool([0-3])-(\d{1,5})", re.ASCII)
_WORKER, _REDUCER = "worker", "reducer"
_PS, _EVALUATOR = "ps", "evaluator"


def roles_of(job: Any) -> Roles:
    """The roles of a CustomJob's pools; for a job that was made elsewhere, the platform's names."""
    env = chief_variables(job)
    has_reducers = has_googles_reducers(job) or env.get("RSCTL_REDUCER_KIND") == "rsctl"
    named = read_pool_roles(str(env.get(POOL_ROLES) or ""))
    third = _REDUCER if has_reducers else named.get("workerpool2", _PS)
    return _WORKER, _WORKER, third, named.get("workerpool3", _EVALUATOR)


def replica_of(task: Any, roles: Roles) -> str | None:
    """`worker-3` for `workerpool1-2`; None for a name that is not a replica, such as `service`."""
    match = _TASK.fullmatch(task) if isinstance(task, str) else None
    if match is None:
        return None
    pool, index = int(match[1]), int(match[2])
    return f"{roles[pool]}-{index + (pool == 1)}"


def key_of_role(role: str) -> str:
    """The block of the spec for a role's pool."""
    return f"{role}s" if role in (_WORKER, _REDUCER) else f"roles.{role}"


def replicas_of_pool(job: Any, number: int) -> list[str]:
    """The names of all replicas of a pool of a CustomJob, such as `worker-1`, `worker-2`."""
    specs = specs_of(job)
    count = count_of(specs[number]) if number < len(specs) else 0
    roles = roles_of(job)
    names = [replica_of(f"workerpool{number}-{index}", roles) for index in range(count)]
    return [name for name in names if name]


def pools_of(job: Any) -> list[Pool]:
    """The pools of a CustomJob for a plan: the chief's is merged with the other workers' if
    alike.
    """
    specs = zip(roles_of(job), specs_of(job), strict=False)
    return merged_pools(
        [_pool(role, count_of(spec), spec.get("machineSpec")) for role, spec in specs]
    )


def has_googles_reducers(job: Any) -> bool:
    """Whether pool 2 is Reduction Server."""
    specs = specs_of(job)
    container = specs[2].get("containerSpec") if len(specs) > 2 else None
    image = container.get("imageUri") if isinstance(container, dict) else None
    return isinstance(image, str) and GOOGLES_REDUCER.fullmatch(image) is not None


def specs_of(job: Any) -> list[dict[str, Any]]:
    """The worker pools of a CustomJob; `{}` for missing ones."""
    spec = job.get("jobSpec") if isinstance(job, dict) else None
    pools = spec.get("workerPoolSpecs") if isinstance(spec, dict) else None
    return [p if isinstance(p, dict) else {} for p in pools] if isinstance(pools, list) else []


def chief_of(body: Any) -> dict[str, Any]:
    """The chief's container or package; empty if it has neither."""
    pools = specs_of(body)
    chief = pools[0] if pools else {}
    container = chief.get("containerSpec") or chief.get("pythonPackageSpec")
    return container if isinstance(container, dict) else {}


def variables_of(container: dict[str, Any]) -> dict[str, str | None]:
    """A container's variables; None for a secret."""
    listed = container.get("env")
    pairs = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {str(each.get("name")): each.get("value") for each in pairs}


def chief_variables(job: Any) -> dict[str, str | None]:
    """The variables of the chief's container or package in a CustomJob."""
    return variables_of(chief_of(job))


def count_of(pool: dict[str, Any]) -> int:
    """The replicas of a worker pool."""
    return _count(pool.get("replicaCount"))


def _count(raw: Any) -> int:
    """int64 is text in JSON."""
    try:
        return max(0, int(raw))
    except (TypeError, ValueError):
        return 0


def _pool(role: str, count: int, machine: Any) -> Pool:
    machine = machine if isinstance(machine, dict) else {}
    name = str(machine["machineType"]) if "machineType" in machine else None
    accelerator = accelerator_of(machine)
    machine_entry = load("vertex").machines.get(name or "")
    return Pool(
        role=role,
        count=count,
        machine=name,
        accelerator=str(accelerator) if accelerator else None,
        gbps=machine_entry.bandwidth(accelerator) if machine_entry else None,
    )


def accelerator_of(machine: dict[str, Any]) -> Accelerator | None:
    """A machineSpec's accelerators by their names in the spec, if the catalogue has the API's name.

    For TPUs the accelerators of one host: the request names their machine and the topology.
    """
    catalog, kind = load("vertex"), str(machine.get("acceleratorType") or "")
    host = catalog.machines.get(str(machine.get("machineType") or ""))
    if host is not None and host.tpu and not kind:
        return Accelerator(f"{host.accelerator}:{host.accelerators[0]}")
    count = _count(machine.get("acceleratorCount"))
    if not kind or not count:
        return None
    name = catalog.accelerator_named(kind) or kind.removeprefix("NVIDIA_").lower().replace("_", "-")
    return Accelerator(f"{name}:{count}")
