"""The contract of target slurm: RSCTL_SLURM_NODES, which a job's batch script sets.

    RSCTL_SLURM_NODES="worker 0 gpu-1 10.0.0.1 21345;worker 1 gpu-2 10.0.0.2 22764;reducer 0 …"
    RSCTL_SLURM_REPLICA="worker 1"

Each replica has its role, its index, the name of its node, an address of the node, and a port that
was free there. slurm_probe.py has offered the ports, and Slurm itself uses the addresses. So
nothing in a container asks Slurm, and no port is guessed. slurm_task.py sets the second variable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rsctl.node.cluster import Cluster, addresses, invalid, missing
from rsctl.node.errors import LaunchError

NODES = "RSCTL_SLURM_NODES"
REPLICA = "RSCTL_SLURM_REPLICA"
LOGS = "RSCTL_SLURM_LOGS"
"""The variable with the folder of the attempt's logs."""

UNHEALTHY_FILE = "unhealthy"
"""The file there with the nodes that have failed the job's checks."""

_ROLES = ("worker", "reducer")
_ENTRY = re.compile(r"([a-z][a-z0-9-]*) (\d+) (\S+) ([A-Za-z0-9._:-]+) (\d{1,5})")


class Entry(NamedTuple):
    """A replica, and where it is."""

    role: str
    number: int
    node: str
    address: str
    port: int


def entries(environ: Mapping[str, str]) -> dict[str, list[Entry]]:
    """All replicas by their roles, each role in the order of its indexes. Raises LaunchError."""
    if not environ.get(NODES):
        raise missing(
            f"RSCTL_TARGET is slurm, but {NODES} is not set, so this node does not know its role "
            "and the other nodes",
            "Start the job with `rsctl submit`, or run the script of `rsctl plan -o script`.",
        )
    found: dict[str, list[Entry]] = {}
    for text in environ[NODES].split(";"):
        match = _ENTRY.fullmatch(text.strip())
        if match is None:
            raise _invalid(NODES, f"has {text.strip()[:80]!r}, which is not a replica")
        role, index, node, address, port = match.groups()
        found.setdefault(role, []).append(Entry(role, int(index), node, address, int(port)))
    for role, replicas in found.items():
        replicas.sort(key=lambda entry: entry.number)
        if [entry.number for entry in replicas] != list(range(len(replicas))):
            raise _invalid(NODES, f"does not have each {role} once")
    if "worker" not in found:
        raise _invalid(NODES, "has no workers")
    return found


def read(environ: Mapping[str, str]) -> Cluster:
    """The cluster as these variables describe it. Raises LaunchError if they make no sense."""
    pools = entries(environ)
    role, _, index = environ.get(REPLICA, "").partition(" ")
    if role not in pools or not index.isdigit() or int(index) >= len(pools[role]):
        raise _invalid(REPLICA, f"is {environ.get(REPLICA)!r}, which is not one of the replicas")
    roles = {name: pools[name] for name in pools if name not in _ROLES}
    reducers = pools.get("reducer", [])
    addressed = {"worker": pools["worker"], **roles} if roles else {}
    return Cluster(
        role=role,
        index=int(index),
        workers=_hosts(pools["worker"]),
        reducers=_hosts(reducers),
        interface=None,
        port=pools["worker"][0].port,
        reducer_ports=tuple(entry.port for entry in reducers),
        platform="slurm",
        roles={name: _hosts(replicas) for name, replicas in roles.items()},
        role_hosts=addresses(
            {name: [(e.address, e.port) for e in replicas] for name, replicas in addressed.items()}
        ),
    )


def _hosts(replicas: list[Entry]) -> tuple[str, ...]:
    return tuple(entry.address for entry in replicas)


def _invalid(variable: str, problem: str) -> LaunchError:
    remedy = "The job's batch script sets it; do not set it in run.env or in the image."
    return invalid(f"{variable} {problem}", remedy)
