"""The machines of a request, or of DescribeTrainingJob's answer, as pools of replicas. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rsctl.estimate.catalog import load
from rsctl.targets.base import Pool
from rsctl.targets.sagemaker.channels import CHIEF, REDUCERS, WORKERS

GROUPS = {CHIEF: "worker", WORKERS: "worker", REDUCERS: "reducer"}
"""The roles of the instance groups that rsctl's own requests have, and rsctl-launch knows. A group
with another name has the nodes of the job's own role with this name.
"""

_ROLE = re.compile(r"[a-z][a-z0-9]{0,15}(-[a-z][a-z0-9]{0,15})?")


def pools_of(request: Mapping[str, Any]) -> list[Pool]:
    """The job's pools. Groups with foreign names are one pool of workers, algo-1 first."""
    if own := own_groups_of(request):
        return [
            _pool(
                GROUPS.get(each["InstanceGroupName"], each["InstanceGroupName"]),
                int(each.get("InstanceCount") or 0),
                _machines([each]),
            )
            for each in own
        ]
    resources = request.get("ResourceConfig") or {}
    if groups := resources.get("InstanceGroups") or []:
        total = sum(int(group.get("InstanceCount") or 0) for group in groups)
        return [_pool("worker", total, _machines(groups))]
    count = resources.get("SelectedInstanceCount") or resources.get("InstanceCount")
    machine = resources.get("SelectedInstanceType") or resources.get("InstanceType")
    if machine is None and (preferred := resources.get("InstancePreferences")):
        count = count or preferred[0].get("InstanceCount")
        return [_pool("worker", int(count or 1), _machines(preferred))]
    return [_pool("worker", int(count or 1), [str(machine)] if machine else [])]


def own_groups_of(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The instance groups, the chief's first, if rsctl's requests can have them: `workers` and
    others, which can be roles.
    """
    groups = (request.get("ResourceConfig") or {}).get("InstanceGroups") or []
    names = [str(group.get("InstanceGroupName")) for group in groups]
    if WORKERS not in names or not all(_ROLE.fullmatch(name) for name in names):
        return []
    known = {name: place for place, name in enumerate(GROUPS)}
    return sorted(groups, key=lambda group: known.get(group["InstanceGroupName"], len(known)))


def _machines(listed: list[Mapping[str, Any]]) -> list[str]:
    """Each type once."""
    return list(dict.fromkeys(str(each.get("InstanceType")) for each in listed))


def _pool(role: str, count: int, machines: list[str]) -> Pool:
    """Facts from the catalogue, if they are equal for all machines."""
    machine_entry = load("sagemaker").machines.get(machines[0]) if len(machines) == 1 else None
    has = (
        f"{machine_entry.accelerator}:{machine_entry.accelerators[0]}"
        if machine_entry and machine_entry.accelerators
        else None
    )
    return Pool(
        role=role,
        count=count,
        machine=", ".join(machines) or None,
        accelerator=has,
        gbps=machine_entry.gbps if machine_entry else None,
    )
