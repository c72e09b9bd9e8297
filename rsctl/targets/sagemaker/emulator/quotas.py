"""How many machines an account may have at once, by type and by use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from rsctl.targets.sagemaker.emulator.hosts import groups_of
from rsctl.targets.sagemaker.emulator.job_record import JobRecord


def demand(resources: dict[str, Any], is_spot: bool) -> Counter[str]:
    """The usage of a job, by the limits' names: of preferred machines, the usage of each type.

    Source: AWS, "Instance preference lists for training jobs".
    """
    use = "for spot training job usage" if is_spot else "for training job usage"
    wanted: Counter[str] = Counter()
    preferences = resources.get("InstancePreferences", [])
    each_alone = [{**resources, "InstancePreferences": [each]} for each in preferences]
    for group in chain.from_iterable(map(groups_of, each_alone or [resources])):
        wanted[f"{group.machine} {use}"] += group.size
    return wanted


def exceeded(
    wanted: Mapping[str, int], records: Iterable[JobRecord], limits: Mapping[str, int]
) -> str | None:
    """The service's message if a job would go beyond a limit; a name without a limit has none."""
    used: Counter[str] = Counter()
    for record in records:
        if not record.has_ended:
            used.update(demand(record["ResourceConfig"], record.is_spot))
    for name, count in wanted.items():
        if name in limits and used[name] + count > limits[name]:
            return (
                f"The account-level service limit '{name}' is {limits[name]} Instances, with "
                f"current utilization of {used[name]} Instances and a request delta of {count} "
                "Instances. Please use AWS Service Quotas to request an increase for this quota. "
                "If AWS Service Quotas is not available, contact AWS support to request an "
                "increase for this quota."
            )
    return None
