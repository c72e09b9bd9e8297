"""Machines and accelerators as JobService knows them, and what a job takes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rsctl.estimate.catalog import Catalog, Machine, load
from rsctl.targets.vertex.catalog import quotas_of
from rsctl.targets.vertex.pools import accelerator_of

_NO_GPU = ("", "ACCELERATOR_TYPE_UNSPECIFIED")


def machine_problems(machine: dict[str, Any]) -> Iterator[str]:
    """The mistakes in a MachineSpec. Accepts families that the catalogue does not have."""
    name = machine.get("machineType", "")
    if not name:
        yield "Required field is not set: machine_spec.machine_type"
        return
    catalog = load("vertex")
    known = catalog.machines.get(name)
    family = name.partition("-")[0]
    if known is None and family in {other.partition("-")[0] for other in catalog.machines}:
        yield f'Machine type "{name}" is not supported.'
    yield from _accelerators(machine, catalog, known)
    yield from _reservation(machine.get("reservationAffinity", {}))


def demand(spec: dict[str, Any]) -> Counter[str]:
    """The usage of the project's quotas by a CustomJobSpec, by metric."""
    strategy = spec.get("scheduling", {}).get("strategy", "STANDARD")
    catalog = load("vertex")
    wanted: Counter[str] = Counter()
    for pool in filter(None, spec.get("workerPoolSpecs", [])):
        machine, count = pool.get("machineSpec", {}), int(pool.get("replicaCount", "1"))
        known = catalog.machines.get(machine.get("machineType", ""))
        if known is not None:
            each = accelerator_of(machine)
            wanted += quotas_of(known, each, count, strategy in ("SPOT", "FLEX_START"))
    return wanted


def size(machine_type: str) -> tuple[int, float] | None:
    """vCPUs and GiB of a machine, if the catalogue has it."""
    known = load("vertex").machines.get(machine_type)
    return (known.vcpus, known.memory_gib) if known else None


def _accelerators(
    machine: dict[str, Any], catalog: Catalog, known: Machine | None
) -> Iterator[str]:
    enum, count = machine.get("acceleratorType", ""), machine.get("acceleratorCount", 0)
    if (enum in _NO_GPU) != (count == 0):
        yield "accelerator_type and accelerator_count go together"
        return
    gpu = catalog.accelerator_named(enum) if enum not in _NO_GPU else None
    if known is not None and known.tpu:
        yield from _slice(machine, known)
        return
    if gpu and catalog.gpus[gpu].retired:
        yield f'Accelerator "{enum}" is not supported: {catalog.gpus[gpu].retired}.'
    if known is None or enum.startswith("TPU"):
        return
    if enum in _NO_GPU:
        if known.accelerators:
            yield f'Machine type "{known.name}" needs its accelerators: {known.accelerators}'
    elif gpu is None or known.enum not in (None, enum) or count not in known.counts(gpu):
        yield f'{count} accelerators "{enum}" are not supported for machine type "{known.name}".'


def _slice(machine: dict[str, Any], known: Machine) -> Iterator[str]:
    """The topology that a TPU machine is part of; older requests name the chips in its place."""
    topology = machine.get("tpuTopology", "")
    if not topology and machine.get("acceleratorType", "") in _NO_GPU:
        yield f'Required field is not set: machine_spec.tpu_topology of "{known.name}"'
    elif topology and topology not in known.topologies:
        yield f'TPU topology "{topology}" is not supported for machine type "{known.name}".'


def _reservation(affinity: dict[str, Any]) -> Iterator[str]:
    kind = affinity.get("reservationAffinityType")
    has_values = bool(affinity.get("key") and affinity.get("values"))
    if kind == "SPECIFIC_RESERVATION" and not has_values:
        yield "reservation_affinity: SPECIFIC_RESERVATION needs key and values"
