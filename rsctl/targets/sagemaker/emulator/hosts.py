"""The hosts of a job: names, instance groups and addresses.

`hosts` of resourceconfig.json is sorted as texts, so that algo-10 comes before algo-2; AWS's images
take the first of them for rank 0. Which number is in which group, and in which order a group has
its hosts, is not documented, but for an example in which neither is sorted: here numbers are dealt
out to the groups in turn, and the lists of several groups run backwards.

Sources: "How Amazon SageMaker Provides Training Information"; ENVIRONMENT_VARIABLES.md and
`get_master_hostname` in environment.py of aws/sagemaker-training-toolkit@3383937.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from rsctl.targets.managed.emulator.nodes import JobNodes, Kind

ALONE = "homogeneousCluster"
"""The platform's name for the group of a job that has none."""

CHIEF, WORKERS, REDUCERS = "chief", "workers", "reducers"
"""The groups that rsctl's own requests have, beside those of roles."""

_RENDEZVOUS_PORT, _REDUCER_PORT = 29500, 29600
_INTERFACES: dict[Kind, str] = {"docker": "eth0", "process": "lo"}


class EmulatedHost(NamedTuple):
    """One machine, `algo-3`. `node` is its name for the runner, `address` for other hosts."""

    name: str
    node: str
    address: str
    group: str
    machine: str


class InstanceGroup(NamedTuple):
    """An instance group."""

    name: str
    machine: str
    size: int


def groups_of(resources: dict[str, Any]) -> list[InstanceGroup]:
    """The groups of a ResourceConfig; of preferred machines, the first."""
    listed = resources.get("InstanceGroups")
    if listed:
        return [
            InstanceGroup(each["InstanceGroupName"], each["InstanceType"], each["InstanceCount"])
            for each in listed
        ]
    first = (resources.get("InstancePreferences") or [{}])[0]
    machine = first.get("InstanceType") or resources.get("InstanceType", "")
    return [
        InstanceGroup(
            ALONE, machine, first.get("InstanceCount") or resources.get("InstanceCount", 1)
        )
    ]


def hosts_of(resources: dict[str, Any], nodes: JobNodes) -> list[EmulatedHost]:
    """All hosts, by number.

    Where hosts are known by addresses, these are in the order of the numbers, which is what the
    others sort them by.
    """
    dealt = _deal(groups_of(resources))
    names = [f"algo-{number}" for number in range(1, len(dealt) + 1)]
    by_address = sorted(names, key=lambda name: _numbers(nodes.address(name)))
    return [
        EmulatedHost(name, node, nodes.address(node), group.name, group.machine)
        for name, node, group in zip(names, by_address, dealt, strict=True)
    ]


def _deal(groups: list[InstanceGroup]) -> list[InstanceGroup]:
    """The group of each number."""
    turns = range(max(group.size for group in groups))
    return [group for turn in turns for group in groups if turn < group.size]


def _numbers(address: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", address)]


def resource_config(host: EmulatedHost, hosts: list[EmulatedHost], runner: Kind) -> dict[str, Any]:
    """The content of one host's resourceconfig.json."""
    groups = dict.fromkeys((each.group, each.machine) for each in reversed(hosts))
    in_order = sorted(hosts, key=lambda each: each.name)
    in_groups = hosts[::-1] if len(groups) > 1 else in_order
    return {
        "current_host": host.address,
        "current_instance_type": host.machine,
        "current_group_name": host.group,
        "hosts": [each.address for each in in_order],
        "instance_groups": [
            {
                "instance_group_name": group,
                "instance_type": machine,
                "hosts": [each.address for each in in_groups if each.group == group],
            }
            for group, machine in groups
        ],
        "network_interface_name": _INTERFACES[runner],
        "topology": None,
    }


def ports(hosts: list[EmulatedHost], nodes: JobNodes) -> dict[str, str]:
    """The variables by which rsctl's runtime listens elsewhere than in the cloud, if it must."""
    reducers = [host for host in hosts if host.group == REDUCERS]
    workers = [host for host in hosts if host.group == CHIEF]
    workers += [host for host in hosts if host.group in (WORKERS, ALONE)]
    workers = workers or [host for host in hosts if host.group != REDUCERS]
    env = {}
    rendezvous = nodes.port(workers[0].node, _RENDEZVOUS_PORT) if workers else _RENDEZVOUS_PORT
    if rendezvous != _RENDEZVOUS_PORT:
        env["RSCTL_PORT"] = str(rendezvous)
        env |= _role_ports(hosts, workers, nodes)
    # A reducer's node listens one below its reducer too (rsctl.node.liveness).
    listening = [nodes.port(host.node, _REDUCER_PORT - 1) + 1 for host in reducers]
    if any(port != _REDUCER_PORT for port in listening):
        env["RSCTL_REDUCER_PORTS"] = ",".join(map(str, listening))
    return env


def _role_ports(
    hosts: list[EmulatedHost], workers: list[EmulatedHost], nodes: JobNodes
) -> dict[str, str]:
    """The groups of workers and of the nodes of roles, in a job that has any."""
    roles = dict.fromkeys(host.group for host in hosts if host not in workers)
    found = {
        role: [
            nodes.port(host.node, _RENDEZVOUS_PORT - 1) + 1 for host in hosts if host.group == role
        ]
        for role in roles
        if role != REDUCERS
    }
    if not found:
        return {}
    listening = {"worker": [nodes.port(host.node, _RENDEZVOUS_PORT) for host in workers], **found}
    return {"RSCTL_ROLE_PORTS": json.dumps(listening)}
