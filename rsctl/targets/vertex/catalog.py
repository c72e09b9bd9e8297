"""Vertex AI's limits, default quotas, multi-regions and images of reducers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from rsctl.estimate.catalog import Machine, load, read_file
from rsctl.job.units import Accelerator

PREEMPTIBLE_CPUS = "custom_model_training_preemptible_cpus"
"""The quota for the vCPUs of spot and flex-start jobs, on machines of any family."""

_PREFIX = "custom_model_training_"
_TPU_MACHINE = re.compile(r"cloud-tpu\b|ct[0-9]|tpu[0-9]")
_REGION = re.compile(r"([a-z]+)-[a-z]+[0-9]{1,2}")


class FlexStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The GPUs that are available by flex start, and the longest running time in seconds."""

    gpus: list[str]
    longest: int


class VertexRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rules.yaml`; `default_quotas` are numbers by quota, each with its regions."""

    multi_regions: dict[str, str]
    reduction_server: str
    bucket_mb: int
    flex_start: FlexStart
    default_timeout: int
    needs_reservation: list[str]
    no_peering: list[str]
    most_env: int
    args_limit: int
    own_env: list[str]
    most_label: int
    most_labels: int
    disk_gb: tuple[int, int]
    default_quotas: dict[str, dict[int, list[str]]]

    def multi_region(self, region: str) -> str | None:
        """us, europe or asia, the nearest one; None for a text that is not a region."""
        match = _REGION.fullmatch(region)
        return self.multi_regions.get(match[1]) if match else None

    def reducer_image(self, region: str) -> str:
        """Reduction Server's image for a region. Only Google's own agent has permission to pull
        it.
        """
        return self.reduction_server.format(multi_region=self.multi_region(region))

    def default_quota(self, quota: str, region: str) -> int | None:
        """The default quota of a project in a region; None if unknown."""
        for number, regions in self.default_quotas.get(quota, {}).items():
            if region in regions or "*" in regions:
                return number
        return None


@lru_cache
def rules() -> VertexRules:
    """The rules of Vertex AI."""
    return read_file("rsctl.targets.vertex:rules.yaml", VertexRules)


def has_tpus(machine_spec: Mapping[str, Any]) -> bool:
    """Whether a machineSpec of the API is for TPUs: by its machine, its accelerators or a slice."""
    name = str(machine_spec.get("machineType") or "")
    kind = str(machine_spec.get("acceleratorType") or "")
    return bool(
        _TPU_MACHINE.match(name) or kind.startswith("TPU") or machine_spec.get("tpuTopology")
    )


def quotas_of(
    machine: Machine, accelerator: Accelerator | None, count: int, is_preemptible: bool
) -> Counter[str]:
    """The usage of a project's quotas by a number of nodes: vCPUs and accelerators, by metric.

    Spot and flex-start jobs have separate quotas: one for the vCPUs of all machines, and one for
    each kind of GPU. Quotas with unknown names are omitted.
    """
    wanted: Counter[str] = Counter()
    vcpus = PREEMPTIBLE_CPUS if is_preemptible else machine.quota
    if vcpus:
        wanted[vcpus] += machine.vcpus * count
    gpu = load("vertex").gpus.get(accelerator.type) if accelerator else None
    quota = machine.gpu_quota or (gpu.quota if gpu else None)
    if accelerator and quota:
        own = f"{_PREFIX}preemptible_{quota.removeprefix(_PREFIX)}" if is_preemptible else quota
        wanted[own] += accelerator.per_node * count
    return wanted
