"""The contract of SageMaker's training jobs: resourceconfig.json.

    {"current_host": "algo-3", "hosts": ["algo-1", "algo-2", "algo-3"],
     "current_group_name": "workers", "current_instance_type": "ml.g5.12xlarge",
     "instance_groups": [{"instance_group_name": "reducers", "hosts": ["algo-2"], ...},
                         {"instance_group_name": "workers", "hosts": ["algo-3", "algo-1"], ...}],
     "network_interface_name": "eth0"}

`hosts` is sorted as texts: algo-10 comes before algo-2, and rsctl sorts by number. Groups and their
hosts are not sorted, and a group's hosts need not follow each other. Jobs of one group leave the
groups out or call theirs `homogeneousCluster`. Source: "How Amazon SageMaker Provides Training
Information", and for the groups AWS's own sagemaker-training toolkit, whose offline form has
`current_instance_group` in place of `current_group_name`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from rsctl.node.cluster import Cluster, addresses, invalid, missing, reducer_ports, rendezvous_port
from rsctl.node.errors import LaunchError

RESOURCE_CONFIG = "/opt/ml/input/config/resourceconfig.json"
"""Where SageMaker describes the cluster to a container."""

CHIEF, WORKERS, REDUCERS = "chief", "workers", "reducers"
"""The groups of a job that has reducers, or a first worker of its own kind. A group of another
name beside them has the nodes of a role of the job's own, which is called so."""

ROLE_PORTS = "RSCTL_ROLE_PORTS"
"""The variable of ports by role where nodes share one host: {"worker": [1], "ps": [2]}."""

_SINGLE_GROUP = "homogeneousCluster"
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_ROLE = re.compile(r"[a-z][a-z0-9-]{0,62}")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
_MAX_BYTES = 1 << 20


class Resources(NamedTuple):
    """The file, checked: hosts sorted by number, by group. `group` and `host` are this node's."""

    host: str
    group: str
    groups: dict[str, tuple[str, ...]]
    instance_type: str
    interface: str | None


def sagemaker_path(environ: Mapping[str, str], path: str) -> str:
    """A path of SageMaker's container contract; rehearsals without containers move its root."""
    return os.path.join(environ.get("RSCTL_ROOT") or "/", path.lstrip("/"))


def read(environ: Mapping[str, str]) -> Cluster:
    """The cluster. Raises LaunchError with what in the file makes no sense."""
    found = resources(environ)
    groups = found.groups
    is_alone = len(groups) == 1
    name = found.group if is_alone else WORKERS
    roles = {each: groups[each] for each in groups if each not in (CHIEF, name, REDUCERS)}
    if name not in groups or not all(_ROLE.fullmatch(role) for role in roles):
        raise _invalid(
            f"has the groups {', '.join(sorted(groups))}; rsctl-launch supports {CHIEF}, "
            f"{WORKERS}, {REDUCERS}, and those of roles besides {WORKERS}"
        )
    workers = groups[name] if is_alone else groups.get(CHIEF, ()) + groups[name]
    reducers = () if is_alone else groups.get(REDUCERS, ())
    pools = {"worker": workers, "reducer": reducers, **roles}
    role, hosts = next((role, hosts) for role, hosts in pools.items() if found.host in hosts)
    port = rendezvous_port(environ)
    return Cluster(
        role=role,
        index=hosts.index(found.host),
        workers=workers,
        reducers=reducers,
        interface=found.interface,
        port=port,
        reducer_ports=reducer_ports(environ, len(reducers)),
        platform="sagemaker",
        roles=roles,
        role_hosts=_role_hosts({"worker": workers, **roles}, port, environ) if roles else {},
    )


def _role_hosts(
    pools: dict[str, tuple[str, ...]], port: int, environ: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """HOST:PORT of workers and roles; the ports are the same, but where nodes share one host."""
    text = environ.get(ROLE_PORTS)
    if not text:
        return addresses({role: [(host, port) for host in pools[role]] for role in pools})
    try:
        ports = json.loads(text)
        return addresses(
            {role: zip(pools[role], map(int, ports[role]), strict=True) for role in pools}
        )
    except (ValueError, TypeError, KeyError) as error:
        problem = f"{ROLE_PORTS} does not have a port for each node: {_shown(text)}"
        raise invalid(problem) from error


def resources(environ: Mapping[str, str]) -> Resources:
    """Read and check the file. Raises LaunchError."""
    fields = _parsed(sagemaker_path(environ, RESOURCE_CONFIG))
    host = fields.get("current_host")
    if not isinstance(host, str) or not _HOST.fullmatch(host):
        raise _invalid(f"has the current_host {_shown(host)}, which is not a valid host name")
    groups = _groups(fields)
    group = _current_group(fields, groups, host)
    interface = fields.get("network_interface_name")
    if interface is not None and not (
        isinstance(interface, str) and _INTERFACE.fullmatch(interface)
    ):
        raise _invalid(
            f"has the network_interface_name {_shown(interface)}, which is not a valid name"
        )
    kind = fields.get("current_instance_type")
    return Resources(host, group, groups, kind if isinstance(kind, str) else "", interface)


def _parsed(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            fields = json.loads(file.read(_MAX_BYTES))
    except OSError as error:
        problem = f"RSCTL_TARGET is sagemaker, but {path} cannot be read: {error.strerror}"
        raise missing(problem) from error
    except (ValueError, RecursionError) as error:
        raise _invalid(f"is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise _invalid("is not a JSON object")
    return fields


def _groups(fields: dict[str, object]) -> dict[str, tuple[str, ...]]:
    """The hosts of each group; one group of all where the file has none."""
    entries = fields.get("instance_groups") or []
    if not isinstance(entries, list):
        raise _invalid("has instance_groups that are not a list")
    if not entries:
        return {_SINGLE_GROUP: _hosts(fields.get("hosts"), "hosts")}
    groups: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        name = entry.get("instance_group_name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or name in groups:
            raise _invalid(f"has a group of the name {_shown(name)}")
        groups[name] = _hosts(entry.get("hosts"), f"hosts of group {name[:64]!r}")
    all_hosts = [host for hosts in groups.values() for host in hosts]
    if len(set(all_hosts)) < len(all_hosts):
        raise _invalid("has a host in more than one group")
    return groups


def _hosts(hosts: object, what: str) -> tuple[str, ...]:
    if not isinstance(hosts, list) or not hosts:
        raise _invalid(f"has {what} that are not a list of host names")
    invalid = [host for host in hosts if not (isinstance(host, str) and _HOST.fullmatch(host))]
    if invalid:
        raise _invalid(f"has {_shown(invalid[0])} among the {what}")
    if len(set(hosts)) < len(hosts):
        raise _invalid(f"has a host twice among the {what}")
    return tuple(sorted(hosts, key=_numbers))


def _numbers(host: str) -> list[tuple[int, str]]:
    """Sorts algo-10 after algo-9, and addresses likewise."""
    parts = re.findall(r"([0-9]+)|([^0-9]+)", host)
    return [(int(number or 0), text) for number, text in parts]


def _current_group(fields: dict[str, object], groups: dict[str, tuple[str, ...]], host: str) -> str:
    member = next((name for name, hosts in groups.items() if host in hosts), None)
    if member is None:
        raise _invalid(f"has the current_host {host}, which is in no group and not among the hosts")
    given = fields.get("current_group_name") or fields.get("current_instance_group") or member
    if given != member and (len(groups) > 1 or fields.get("instance_groups")):
        raise _invalid(f"has {host} in group {member}, but {_shown(given)} as the current group")
    return member


def _shown(value: object) -> str:
    return repr(value)[:80]


def _invalid(problem: str) -> LaunchError:
    remedy = "The platform writes it. Check whether targets.sagemaker.overlay changes the groups."
    return invalid(f"{RESOURCE_CONFIG} {problem}", remedy)
