"""The contract of rsctl's local targets: RSCTL_CLUSTER, RSCTL_ROLE_HOSTS, and variables of ports.

    RSCTL_CLUSTER={"role": "worker", "index": 0, "workers": ["HOST"], "reducers": ["HOST"],
                   "roles": {"ps": ["HOST"]}, "interface": "eth0"}
    RSCTL_ROLE_HOSTS={"worker": ["HOST:PORT"], "ps": ["HOST:PORT"], "cache": ["HOST:PORT"]}

`roles` are those that rsctl-launch starts; it and `interface` may be left out. The ports are
RSCTL_PORT and RSCTL_REDUCER_PORTS. Jobs without roles have no RSCTL_ROLE_HOSTS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rsctl.node.cluster import Cluster, invalid, missing, reducer_ports, rendezvous_port
from rsctl.node.errors import LaunchError
from rsctl.node.roles import ROLE_HOSTS

_ROLES = ("worker", "reducer")


def read(environ: Mapping[str, str]) -> Cluster:
    """The cluster as these variables describe it. Raises LaunchError if they make no sense."""
    if "RSCTL_CLUSTER" not in environ:
        raise missing(
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
    roles = _roles(fields.get("roles", {}))
    pools = {**{name: _hosts(fields, f"{name}s") for name in _ROLES}, **roles}
    if not isinstance(role, str) or role not in pools:
        names = [*pools][:-1]
        raise _invalid(f"has the role {role!r}; roles are {', '.join(names)} and {[*pools][-1]}")
    if not pools["worker"]:
        raise _invalid("has no workers")
    if type(index) is not int or not 0 <= index < len(pools[role]):
        of_role = f"{role}s" if role in _ROLES else f"nodes of role {role}"
        raise _invalid(f"has the index {index!r}, but there are {len(pools[role])} {of_role}")
    if interface is not None and not isinstance(interface, str):
        raise _invalid(f"has the interface {interface!r}, which is not a valid name")
    return Cluster(
        role=role,
        index=index,
        workers=pools["worker"],
        reducers=pools["reducer"],
        interface=interface or None,
        port=rendezvous_port(environ),
        reducer_ports=reducer_ports(environ, len(pools["reducer"])),
        roles=roles,
        role_hosts=_role_hosts(environ, {"worker": pools["worker"], **roles}),
    )


def _roles(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _invalid("has roles that are not a JSON object")
    roles = {str(name): _hosts(value, name) for name in value}
    empty = next((name for name in roles if name in _ROLES or not roles[name]), None)
    if empty is not None:
        raise _invalid(f"has the role {empty!r}, which has no hosts or is not a valid name")
    return roles


def _role_hosts(
    environ: Mapping[str, str], pools: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The values that the target has set; it alone knows ports, and containers that it starts
    itself.
    """
    if ROLE_HOSTS not in environ:
        return {}
    try:
        given = json.loads(environ[ROLE_HOSTS])
    except ValueError as error:
        raise _invalid(f"is not JSON: {error}", ROLE_HOSTS) from error
    if not isinstance(given, dict):
        raise _invalid("is not a JSON object", ROLE_HOSTS)
    hosts = {str(name): _hosts(given, name, ROLE_HOSTS) for name in given}
    for name, nodes in pools.items():
        if len(hosts.get(name, ())) != len(nodes):
            counts = f"{len(hosts.get(name, ()))} addresses of {name}, but {len(nodes)} nodes"
            raise _invalid(f"has {counts}", ROLE_HOSTS)
    return hosts


def _hosts(fields: dict[str, object], key: str, variable: str = "RSCTL_CLUSTER") -> tuple[str, ...]:
    hosts = fields.get(key, [])
    if isinstance(hosts, list) and all(isinstance(host, str) and host for host in hosts):
        return tuple(hosts)
    raise _invalid(f"has {key} that is not a list of host names", variable)


def _invalid(problem: str, variable: str = "RSCTL_CLUSTER") -> LaunchError:
    return invalid(f"{variable} {problem}")
