"""The contract of rsctl's local targets: RSCTL_CLUSTER, RSCTL_PORT and RSCTL_REDUCER_PORTS.

    RSCTL_CLUSTER={"role": "worker", "index": 0, "workers": ["HOST"], "reducers": ["HOST"],
                   "interface": "eth0"}

`interface` may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rsctl.runtime.cluster import REMEDY, Cluster, reducer_ports, rendezvous_port
from rsctl.runtime.errors import USAGE, LaunchError

_ROLES = ("worker", "reducer")


def read(environ: Mapping[str, str]) -> Cluster:
    """The cluster as these variables describe it. Raises LaunchError if they make no sense."""
    if "RSCTL_CLUSTER" not in environ:
        raise LaunchError(
            USAGE,
            "cluster-missing",
            "RSCTL_CLUSTER is not set, so this node does not know its role and the other nodes",
            "Start the job with `rsctl submit`; to start a container by hand, set RSCTL_CLUSTER as "
            'in {"role": "worker", "index": 0, "workers": ["localhost"], "reducers": []}.',
        )
    try:
        fields = json.loads(environ["RSCTL_CLUSTER"])
    except ValueError as error:
        raise _invalid(f"is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise _invalid("is not a JSON object")
    role, index, interface = fields.get("role"), fields.get("index"), fields.get("interface")
    pools = {name: _hosts(fields, f"{name}s") for name in _ROLES}
    if role not in _ROLES:
        raise _invalid(f"has the role {role!r}; roles are {' and '.join(_ROLES)}")
    if not pools["worker"]:
        raise _invalid("has no workers")
    if type(index) is not int or not 0 <= index < len(pools[role]):
        raise _invalid(f"has the index {index!r}, and {len(pools[role])} {role}s")
    if interface is not None and not isinstance(interface, str):
        raise _invalid(f"has the interface {interface!r}, which is no name")
    return Cluster(
        role=role,
        index=index,
        workers=pools["worker"],
        reducers=pools["reducer"],
        interface=interface or None,
        port=rendezvous_port(environ),
        reducer_ports=reducer_ports(environ, len(pools["reducer"])),
    )


def _hosts(fields: dict[str, object], key: str) -> tuple[str, ...]:
    hosts = fields.get(key, [])
    if isinstance(hosts, list) and all(isinstance(host, str) and host for host in hosts):
        return tuple(hosts)
    raise _invalid(f"has {key} that are no list of host names")


def _invalid(problem: str) -> LaunchError:
    return LaunchError(
        USAGE,
        "cluster-invalid",
        f"RSCTL_CLUSTER {problem}",
        REMEDY,
    )
