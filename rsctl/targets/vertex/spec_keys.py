"""Maps fields that Vertex AI's refusals name to the keys of the spec they come from. Pure.

    List of found errors: 1.Field: job_spec.worker_pool_specs[0].machine_spec.accelerator_type;
    Message: Both `accelerator_type` and `accelerator_count` should be specified or none.

Real texts with their sources: tests/fixtures/real/cloud_errors.json.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rsctl.targets.vertex.pools import Roles, key_of_role

_OPTIONS = "targets.vertex"
_LIST = re.compile(r"List of found errors:", re.IGNORECASE)
_ENTRY = re.compile(
    r"\d{1,3}\.\s?Field:\s*(?P<field>[^;\s]{1,200});\s*Message:\s*(?P<text>.{1,1000}?)"
    r"\s*(?=\d{1,3}\.\s?Field:|$)",
    re.DOTALL,
)
_POOL = re.compile(r"job_spec\.worker_pool_specs\[(\d)\]\.?")
_OF_POOL = {
    "machine_spec.machine_type": "{role}.machine",
    "machine_spec.accelerator": "{nodes}.accelerator",
    "machine_spec.tpu_topology": f"{_OPTIONS}.tpu_topology",
    "machine_spec.reservation_affinity": f"{_OPTIONS}.reservation",
    "machine_spec": "{role}.machine",
    "replica_count": "{role}.count",
    "disk_spec.boot_disk_type": f"{_OPTIONS}.boot_disk",
    "disk_spec": "{role}.disk",
    "container_spec.image_uri": "image",
    "container_spec.command": "{run}.command",
    "container_spec.args": "{run}.args",
    "container_spec.env": "{run}.env",
    "python_package_spec.executor_image_uri": "image.uri",
    "python_package_spec.package_uris": "run.package",
    "python_package_spec.python_module": "{run}.module",
    "python_package_spec.args": "{run}.args",
    "python_package_spec.env": "{run}.env",
    "nfs_mounts": f"{_OPTIONS}.nfs",
    "lustre_mounts": f"{_OPTIONS}.lustre",
    "": "{role}",
}
_OF_JOB = {
    "display_name": "name",
    "labels": f"{_OPTIONS}.labels",
    "encryption_spec": f"{_OPTIONS}.encryption_key",
    "job_spec.scheduling.timeout": "limits.timeout",
    "job_spec.scheduling.max_wait_duration": "limits.queue",
    "job_spec.scheduling.restart_job_on_worker_restart": f"{_OPTIONS}.restart",
    "job_spec.scheduling.disable_retries": "limits.restarts",
    "job_spec.scheduling.strategy": f"{_OPTIONS}.capacity",
    "job_spec.scheduling": "limits",
    "job_spec.service_account": f"{_OPTIONS}.service_account",
    "job_spec.network": f"{_OPTIONS}.network",
    "job_spec.reserved_ip_ranges": f"{_OPTIONS}.reserved_ip_ranges",
    "job_spec.psc_interface_config": f"{_OPTIONS}.psc",
    "job_spec.base_output_directory": "outputs",
    "job_spec.tensorboard": f"{_OPTIONS}.tensorboard",
    "job_spec.experiment_run": f"{_OPTIONS}.experiment_run",
    "job_spec.experiment": f"{_OPTIONS}.experiment",
    "job_spec.persistent_resource_id": f"{_OPTIONS}.persistent_resource",
    "job_spec.enable_web_access": f"{_OPTIONS}.web_access",
    "job_spec.enable_dashboard_access": f"{_OPTIONS}.dashboard_access",
}


class FieldError(NamedTuple):
    """One entry of the list: the request's field, the spec's key, and the error."""

    field: str
    path: str
    text: str


def field_errors(message: str, roles: Roles) -> list[FieldError]:
    """The entries of a refusal that lists its errors; none for another text.

    `roles` are the roles of the job's worker pools.
    """
    match = _LIST.search(message)
    if match is None:
        return []
    entries = _ENTRY.finditer(message, match.end())
    return [
        FieldError(entry["field"], key_of(entry["field"], roles), entry["text"].strip())
        for entry in entries
    ]


def key_of(field: str, roles: Roles) -> str:
    """The key that sets a field: the most specific known key, otherwise the target's block."""
    field = field.removeprefix("custom_job.")
    pool = _POOL.match(field)
    if pool is None:
        return _longest(_OF_JOB, field) or _OPTIONS
    block = key_of_role(roles[min(int(pool[1]), len(roles) - 1)])
    key = _longest(_OF_POOL, field[pool.end() :]) or "{role}"
    is_own = block.startswith("roles.")
    nodes, run = (block, block) if is_own else ("workers", "run")
    return key.format(role=block, nodes=nodes, run=run)


def _longest(known: dict[str, str], field: str) -> str | None:
    """The entry for the longest known prefix of the field."""
    matching = [name for name in known if field.startswith(name)]
    return known[max(matching, key=len)] if matching else None
