"""Chooses a job's machines, and checks them against its accelerators and region. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.estimate.catalog import Catalog, Gpu, Machine, load, smallest
from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job, PerTarget
from rsctl.job.options_common import first_of
from rsctl.job.units import Accelerator
from rsctl.job.values import value_on
from rsctl.job.yaml_tree import quoted
from rsctl.targets.vertex.catalog import rules
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.tpus import tpu_findings

_MACHINE = "workers.machine"
_ACCELERATOR = "workers.accelerator"
_REDUCER = "reducers.machine"


def catalog() -> Catalog:
    """The machines of Vertex AI."""
    return load("vertex")


def gpus_of(machine: Machine, accelerator: Accelerator) -> Gpu:
    """The known accelerators of a machine; the machine's own data takes precedence."""
    known = catalog().gpus[accelerator.type]
    if machine.accelerator is None or machine.enum is None:
        return known
    return Gpu(enum=machine.enum, regions=machine.regions or known.regions, retired=known.retired)


def is_tpu(accelerator: Accelerator) -> bool:
    """Whether these are TPUs."""
    return any(m.tpu and m.accelerator == accelerator.type for m in catalog().machines.values())


def named_machine(given: str | list[str] | PerTarget | None) -> str | None:
    """The first machine that a spec names for this target; None to let rsctl choose one."""
    name = first_of(value_on(given, "vertex"))
    return None if name == "auto" else name


def worker_machine(job: Job, findings: list[Finding]) -> Machine | None:
    """The workers' machine; None, with the reasons in `findings`, if there is none."""
    accelerator = job.workers.accelerator
    if accelerator and accelerator.type not in catalog().gpus:
        findings.append(_unknown_accelerator(accelerator))
        return None
    name = named_machine(job.workers.machine)
    machine = find_machine(name, _MACHINE, findings) if name else _smallest(accelerator, findings)
    if machine is None:
        return None
    findings += _combination(machine, accelerator)
    findings += tpu_findings(job, machine)
    findings += _availability(job, machine, accelerator)
    return machine


def reducer_machine(job: Job, findings: list[Finding]) -> Machine | None:
    """The reducers' machine; None, with the reason in `findings`, if there is none."""
    standard = catalog().reducer
    machine = find_machine(named_machine(job.reducers.machine) or standard, _REDUCER, findings)
    if machine is None:
        return None
    remedy = f"set reducers.machine: auto, which selects {standard}"
    if machine.accelerator:
        message = f"reducers use no GPU, and {machine.name} always has some"
        findings.append(error("reducers", message, remedy, _REDUCER))
    elif (machine.gbps or 0) < (catalog().machines[standard].gbps or 0):
        speed = f"{machine.gbps:g} Gbit/s" if machine.gbps else "an unknown bandwidth"
        message = (
            f"{machine.name} has {speed}, and each worker sends to all reducers at the same time"
        )
        findings.append(warning("reducers", message, remedy, _REDUCER))
    return machine


def find_machine(name: str, path: str, findings: list[Finding]) -> Machine | None:
    """A machine of the catalogue; an unknown or retired one is among `findings`."""
    machine = catalog().machines.get(name)
    if machine is None:
        findings.append(_unknown_machine(name, path))
    elif machine.retired:
        message = f"{name} is no longer available: {machine.retired}"
        findings.append(error("machine", message, "use another machine type", path))
    return machine


def _smallest(accelerator: Accelerator | None, findings: list[Finding]) -> Machine | None:
    machine = smallest(catalog(), accelerator)
    if machine is None and accelerator is not None:
        findings.append(_impossible(accelerator))
    return machine


def _unknown_machine(name: str, path: str) -> Finding:
    from difflib import get_close_matches

    close = get_close_matches(name, catalog().machines, 1)
    instead = f"did you mean {close[0]}? " if close else ""
    return error(
        "machine",
        f"{quoted(name)} is not a known machine type of Vertex AI as of {catalog().as_of}",
        f"{instead}for a newer one, set the nearest known type here and machineType in "
        "targets.vertex.overlay",
        path,
    )


def _unknown_accelerator(accelerator: Accelerator) -> Finding:
    known = ", ".join(name for name, gpu in catalog().gpus.items() if not gpu.retired)
    if "tpu" in accelerator.type or accelerator.type.startswith(("v2", "v3", "v4", "v5", "v6")):
        tpus = {m.accelerator: m.accelerators[0] for m in catalog().machines.values() if m.tpu}
        known = ", ".join(f"{name}:{count}" for name, count in tpus.items() if name)
        message = f"{accelerator.type!r} is not a known TPU of Vertex AI"
        return error("accelerator", message, f"use one of: {known}", _ACCELERATOR)
    message = f"Vertex AI has no accelerator {accelerator.type!r}"
    return error("accelerator", message, f"use one of: {known}", _ACCELERATOR)


def _combination(machine: Machine, accelerator: Accelerator | None) -> Iterator[Finding]:
    """Check that the machine can have this number of these GPUs."""
    if machine.fits(accelerator):
        return
    if machine.accelerator:
        only = f"{machine.accelerator}:{machine.accelerators[0]}"
        wanted = f", not {accelerator}" if accelerator else ", but workers.accelerator is not set"
        remedy = f"set workers.accelerator: {only}, or use another machine type"
        yield error("machine", f"{machine.name} always has {only}{wanted}", remedy, _ACCELERATOR)
    elif accelerator and machine.counts(accelerator.type):
        counts = " or ".join(str(count) for count in machine.counts(accelerator.type))
        message = (
            f"{machine.name} can have {counts} of {accelerator.type}, not {accelerator.per_node}"
        )
        remedy = (
            f"set workers.accelerator: {accelerator.type}:{machine.counts(accelerator.type)[0]}"
        )
        yield error("machine", message, remedy, _ACCELERATOR)
    elif accelerator and not catalog().gpus[accelerator.type].retired:
        yield error(
            "machine",
            f"{machine.name} cannot have {accelerator.type}",
            f"use one of: {_machines_with(accelerator)}; or remove workers.machine",
            _MACHINE,
        )


def _impossible(accelerator: Accelerator) -> Finding:
    """The error if no machine has that many, or any."""
    retired = catalog().gpus[accelerator.type].retired
    if retired:
        return _retired(accelerator, retired)
    machines = catalog().machines.values()
    counts = sorted({count for m in machines for count in m.counts(accelerator.type)})
    listed = ", ".join(str(count) for count in counts)
    message = f"no machine type has {accelerator.per_node} of {accelerator.type}"
    remedy = f"possible values: {listed}"
    if is_tpu(accelerator):
        remedy += (
            "; these are for one host, and targets.vertex.tpu_topology sets a slice of several"
        )
    return error("accelerator", message, remedy, _ACCELERATOR)


def _retired(accelerator: Accelerator, why: str) -> Finding:
    message = f"{accelerator.type} is no longer available: {why}"
    return error("accelerator", message, "use t4, l4 or another newer GPU", _ACCELERATOR)


def _availability(job: Job, machine: Machine, accelerator: Accelerator | None) -> Iterator[Finding]:
    """Check that the GPUs still exist, exist in the region, and need no reservation."""
    if accelerator is None:
        return
    gpu, region = gpus_of(machine, accelerator), vertex_options(job).first_region
    if gpu.retired:
        yield _retired(accelerator, gpu.retired)
    if region and gpu.regions and region not in gpu.regions:
        yield error(
            "region",
            f"as of {catalog().as_of}, {region} has no {accelerator.type} for training",
            f"use one of: {', '.join(gpu.regions)}",
            "targets.vertex.region",
        )
    has_reservation = vertex_options(job).reservation not in (None, "none", [])
    if machine.name in rules().needs_reservation and not has_reservation:
        message = f"{machine.name} is available only with a reservation"
        remedy = "set your reservation in targets.vertex.reservation"
        yield error("machine", message, remedy, "targets.vertex.reservation")


def _machines_with(accelerator: Accelerator) -> str:
    names = [
        machine.name
        for machine in catalog().machines.values()
        if machine.choose and accelerator.per_node in machine.counts(accelerator.type)
    ]
    return ", ".join(names[:5]) or f"those with another number of {accelerator.type}"
