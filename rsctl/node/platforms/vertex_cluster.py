"""The contract of Vertex AI's custom jobs: CLUSTER_SPEC, which every replica has.

    {"cluster": {"workerpool0": ["HOST:2222"], "workerpool1": [...], "workerpool2": [...]},
     "environment": "cloud", "task": {"type": "workerpool1", "index": 0}, "job": ...}

A job of one replica has `chief` for workerpool0, in the cluster and in the task. `job` may be a
JSON string, and there may be further keys, such as `open_ports`: nothing here needs them. Real
values with their sources: tests/fixtures/real/vertex_cluster_spec.json.

Pool 0 is the chief alone, pool 1 the other workers, pool 2 the reducers. The reducers in pool 2 are
rsctl's only if RSCTL_REDUCER_KIND is `rsctl`; otherwise they are Google's, or a user's parameter
servers, which read CLUSTER_SPEC themselves. RSCTL_POOL_ROLES names the pools of the job's own roles
(pool_roles.py). Source: "Distributed training" of the platform's documentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain

from rsctl.node.cluster import Cluster, addresses, invalid, missing
from rsctl.node.errors import USAGE, LaunchError
from rsctl.node.platforms.vertex_pool_roles import POOL_ROLES, read_pool_roles

_CHIEF, _WORKERS, _REDUCERS = "workerpool0", "workerpool1", "workerpool2"
_ONLY = "chief"
"""The name of workerpool0 in a job of one replica."""

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]")
_Address = tuple[str, int]


def read(environ: Mapping[str, str]) -> Cluster:
    """The cluster. Raises LaunchError with what in CLUSTER_SPEC makes no sense."""
    fields = _object(_parsed(environ), "")
    pools = _pools(_object(fields.get("cluster"), "cluster"))
    named = read_pool_roles(environ.get(POOL_ROLES, ""))
    nodes = {name: _addresses(pools, name) for name in (_CHIEF, _WORKERS, _REDUCERS, *named)}
    if len(nodes[_CHIEF]) != 1:
        raise _invalid(f"has {len(nodes[_CHIEF])} hosts in {_CHIEF}, which is only for the chief")
    workers = nodes[_CHIEF] + nodes[_WORKERS]
    reducers = nodes[_REDUCERS] if environ.get("RSCTL_REDUCER_KIND") == "rsctl" else ()
    roles = {named[pool]: nodes[pool] for pool in named if nodes[pool]}
    _require_different(workers + reducers + tuple(chain(*roles.values())))
    role, index = _role(_object(fields.get("task"), "task"), nodes, named)
    if role == "reducer" and not reducers:
        raise _foreign(f"{_REDUCERS} has no reducers of rsctl")
    return Cluster(
        role=role,
        index=index,
        workers=tuple(host for host, _ in workers),
        reducers=tuple(host for host, _ in reducers),
        interface=None,
        port=workers[0][1],
        reducer_ports=tuple(port for _, port in reducers),
        platform="vertex",
        roles={name: tuple(host for host, _ in of_role) for name, of_role in roles.items()},
        role_hosts=addresses({"worker": workers, **roles}) if roles else {},
    )


def _parsed(environ: Mapping[str, str]) -> object:
    text = environ.get("CLUSTER_SPEC")
    if not text:
        raise missing(
            "RSCTL_TARGET is vertex, but CLUSTER_SPEC is not set, so this node does not know its "
            "role and the other nodes"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"is not JSON: {error}") from error


def _object(value: object, key: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _invalid(f"has {key} that is not a JSON object" if key else "is not a JSON object")
    return value


def _pools(cluster: dict[str, object]) -> dict[str, object]:
    """The pools by the names that they have in a job of several replicas."""
    if _ONLY not in cluster:
        return cluster
    if _CHIEF in cluster:
        raise _invalid(f"has both {_CHIEF} and {_ONLY}")
    return {**cluster, _CHIEF: cluster[_ONLY]}


def _addresses(pools: dict[str, object], name: str) -> tuple[_Address, ...]:
    """The hosts and ports of a pool; a pool that was left empty may be missing."""
    entries = pools.get(name) or []
    if not isinstance(entries, list):
        raise _invalid(f"has {name} that is not a list")
    return tuple(_address(entry, name) for entry in entries)


def _address(entry: object, pool: str) -> _Address:
    host, _, port = entry.rpartition(":") if isinstance(entry, str) else ("", "", "")
    is_port = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 1 << 16
    if not is_port or not _HOST.fullmatch(host):
        raise _invalid(f"has {str(entry)[:80]!r} in {pool}, which is not HOST:PORT")
    return host.strip("[]"), int(port)


def _require_different(addresses: tuple[_Address, ...]) -> None:
    twice = next((address for address in addresses if addresses.count(address) > 1), None)
    if twice is not None:
        raise _invalid(f"names {twice[0]}:{twice[1]} twice")


def _role(
    task: dict[str, object],
    addresses: dict[str, tuple[_Address, ...]],
    named: Mapping[str, str],
) -> tuple[str, int]:
    """Role and index within it, from pool and index within that."""
    pool, index = task.get("type"), task.get("index")
    pool = _CHIEF if pool == _ONLY else pool
    if not isinstance(pool, str) or pool not in addresses:
        raise _foreign(f"this node is in {str(pool)[:80]!r}")
    if type(index) is not int or not 0 <= index < len(addresses[pool]):
        hosts = len(addresses[pool])
        raise _invalid(f"has the task index {str(index)[:80]}, but {hosts} hosts in {pool}")
    if pool in named:
        return named[pool], index
    if pool == _REDUCERS:
        return "reducer", index
    return "worker", index + (1 if pool == _WORKERS else 0)


def _foreign(problem: str) -> LaunchError:
    return LaunchError(
        USAGE,
        "cluster-foreign",
        f"rsctl-launch has nothing to run here: {problem}",
        f"Give nodes other than {_CHIEF} and {_WORKERS} a separate image and command.",
    )


def _invalid(problem: str) -> LaunchError:
    remedy = "The platform sets it; do not set it in run.env or in the image."
    return invalid(f"CLUSTER_SPEC {problem}", remedy)
