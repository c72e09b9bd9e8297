"""The ResourceConfig of CreateTrainingJob: a job's machines and their volumes. Pure."""

from __future__ import annotations

import math
from typing import Any

from rsctl.estimate.catalog import Machine
from rsctl.job.job import Job
from rsctl.targets.sagemaker.catalog import has_own_disks
from rsctl.targets.sagemaker.machines import ResolvedPools
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.request_values import whole_seconds, without_empty
from rsctl.targets.sagemaker.rules import machine_types

_DEFAULT_VOLUME_GB = 30
"""The volume of a machine without disks, equal to the SageMaker SDK's default."""


def resource_config(resolved: ResolvedPools) -> dict[str, Any]:
    """The ResourceConfig for a job's machines."""
    job, options = resolved.job, sagemaker_options(resolved.job)
    worker, groups = resolved.worker.name if resolved.worker else None, resolved.groups
    resources: dict[str, Any] = {"InstanceType": worker, "InstanceCount": job.workers.count}
    if len(groups) > 1:
        resources = {"InstanceGroups": [_group(*group) for group in groups]}
    elif options.instance_preferences:
        names = (worker, *options.instance_preferences)
        preferences = [{"InstanceType": name} for name in names if name]
        resources = {"InstancePreferences": preferences, "InstanceCount": job.workers.count}
    resources = without_empty(resources)
    resources |= {
        "VolumeSizeInGB": _volume(job, machine_types(resources)),
        "VolumeKmsKeyId": options.volume_kms_key,
        "KeepAlivePeriodInSeconds": whole_seconds(options.keep_alive) or None,
        "TrainingPlanArn": options.training_plan,
        "InstancePlacementConfig": _placement(job),
    }
    return without_empty(resources)


def _group(name: str, machine: Machine, count: int) -> dict[str, Any]:
    return {"InstanceGroupName": name, "InstanceType": machine.name, "InstanceCount": count}


def _volume(job: Job, machines: list[str]) -> int | None:
    """Gigabytes of each machine's volume; a machine with its own disks gets none."""
    if job.workers.disk:
        return math.ceil(job.workers.disk / 1e9)
    return None if all(has_own_disks(name) for name in machines) else _DEFAULT_VOLUME_GB


def _placement(job: Job) -> dict[str, Any] | None:
    placement = sagemaker_options(job).placement
    if placement is None:
        return None
    servers = [
        {"UltraServerId": name, "InstanceCount": count}
        for name, count in placement.ultra_servers.items()
    ]
    config: dict[str, Any] = {"EnableMultipleJobs": placement.multiple_jobs}
    return {**config, "PlacementSpecifications": servers} if servers else config
