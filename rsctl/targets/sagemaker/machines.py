"""Resolves a job's pools: its machines on SageMaker and the number of reducers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Optional

from msgspec.structs import replace

from rsctl.estimate.catalog import Catalog, Machine, load, smallest
from rsctl.estimate.catalog.sizing import reducers_for
from rsctl.findings import Finding, error, note, warning
from rsctl.images.transport import NEURON_EXCHANGE
from rsctl.job.job import Job, PerTarget
from rsctl.job.options_common import first_of
from rsctl.job.units import Accelerator
from rsctl.job.values import value_on
from rsctl.targets.chief import chief_findings, chief_job, has_own_chief
from rsctl.targets.roles import role_findings, role_job
from rsctl.targets.sagemaker.catalog import family, has_own_disks, reducer_machine
from rsctl.targets.sagemaker.channels import CHIEF, REDUCERS, WORKERS
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.toolkit import counts_devices

_PREFERENCES = "targets.sagemaker.instance_preferences"
if TYPE_CHECKING:
    from rsctl.estimate.advice.automatic import Automatic

_EC2_ONLY = {"c6in", "c6gn", "c7gn", "c8gn", "hpc6a", "hpc7a", "hpc7g"}


class ResolvedPools(NamedTuple):
    """A job whose `auto`s are settled, its machines, and the findings about them.

    `worker` is None if no machine fits, with an error among the findings; `reducer` also if there
    are no reducers. `chief` is set if the first worker differs from the others, `roles` has the
    machines of the job's own roles. `job.reducers.count` is a number.
    """

    job: Job
    worker: Optional[Machine]
    reducer: Optional[Machine]
    findings: list[Finding]
    chief: Optional[Machine] = None
    roles: Mapping[str, Machine] = MappingProxyType({})

    @property
    def reducers(self) -> int:
        """The number of reducers."""
        count = self.job.reducers.count
        return 0 if count == "auto" else count

    @property
    def machines(self) -> list[Machine]:
        """The chief's machine if it has its own, the workers', the reducers', those of roles."""
        all_of_them = (self.chief, self.worker, self.reducer, *self.roles.values())
        return [machine for machine in all_of_them if machine is not None]

    @property
    def groups(self) -> list[tuple[str, Machine, int]]:
        """The names of the instance groups, their machines, and the number of machines in each.

        A single group is not a group in the request.
        """
        others = self.job.workers.count - (1 if self.chief else 0)
        found = [
            (CHIEF, self.chief, 1),
            (WORKERS, self.worker, others),
            (REDUCERS, self.reducer, self.reducers),
            *((name, each, self.job.roles[name].count) for name, each in self.roles.items()),
        ]
        return [(name, machine, count) for name, machine, count in found if machine and count]


def resolve_pools(job: Job) -> ResolvedPools:
    """Choose the machines that the job does not name."""
    catalog = load("sagemaker")
    job = _with_devices(job, catalog)
    worker, findings = _worker(job, catalog)
    own, chief = job, None
    if has_own_chief(job):
        own = chief_job(job)
        chief, about_chief = _worker(own, catalog)
        findings += chief_findings(job, about_chief, findings)
    if job.workers.count == 1 and chief:
        job, worker, chief = own, chief, None  # the only worker is the chief
    roles, more = _roles(job, catalog, findings)
    findings += more
    machine, more = _reducer(job, catalog, worker)
    findings += more
    count, sizing = _count(job, catalog, worker, machine)
    settled = replace(job, reducers=replace(job.reducers, count=count))
    machine = machine if count else None
    resolved = ResolvedPools(settled, worker, machine, findings + sizing, chief, roles)
    more = [*_disk_findings(resolved), *_preference_findings(resolved)]
    return resolved._replace(findings=[*resolved.findings, *more])


def named_machine(value: str | list[str] | PerTarget | None, key: str) -> tuple[str | None, str]:
    """The machine type that a key names for SageMaker, if any, and its key path.

    If it names several, the first.
    """
    if isinstance(value, PerTarget):
        return first_of(value_on(value, "sagemaker")), f"{key}.sagemaker"
    return first_of(value), key


def _worker(job: Job, catalog: Catalog) -> tuple[Machine | None, list[Finding]]:
    name, path = named_machine(job.workers.machine, "workers.machine")
    accelerator = job.workers.accelerator
    if name is None:
        chosen = smallest(catalog, accelerator)
        if chosen is None:
            return None, [_no_such_accelerator(job, catalog)]
        why = f"the smallest with {accelerator}" if accelerator else "the smallest for CPU jobs"
        return chosen, [note("machine", f"{chosen.name}, {why}", None, path)]
    machine = catalog.machines.get(name)
    if machine is None:
        return None, [_no_such_machine(name, path, catalog)]
    return machine, list(_accelerator_findings(job, machine, path))


def _with_devices(job: Job, catalog: Catalog) -> Job:
    """A job whose ranks follow from the machine's accelerators, whether it names them or not."""
    if job.workers.accelerator or not counts_devices(job):
        return job
    machine = catalog.machines.get(named_machine(job.workers.machine, "")[0] or "")
    if machine is None or not machine.accelerators:
        return job
    has = Accelerator(f"{machine.accelerator}:{machine.accelerators[0]}")
    return replace(job, workers=replace(job.workers, accelerator=has))


def _accelerator_findings(job: Job, machine: Machine, path: str) -> Iterator[Finding]:
    has = f"{machine.accelerator}:{machine.accelerators[0]}" if machine.accelerators else None
    wanted = job.workers.accelerator
    if wanted and not machine.fits(wanted):
        brings = f"has {has}" if has else "has no accelerators"
        yield error(
            "machine",
            f"{machine.name} {brings}, but workers.accelerator is {wanted}",
            f"set workers.accelerator: {has}" if has else "remove one of the two",
            path,
        )
    elif has and not wanted:
        yield warning(
            "machine",
            f"{machine.name} has {has}, which a job without workers.accelerator does not use",
            f"set workers.accelerator: {has}",
            path,
        )


def _roles(
    job: Job, catalog: Catalog, workers: list[Finding]
) -> tuple[dict[str, Machine], list[Finding]]:
    """The machines of the job's own roles; `workers` are the findings about the workers'."""
    machines: dict[str, Machine] = {}
    findings: list[Finding] = []
    for name in job.roles:
        machine, about = _worker(role_job(job, name), catalog)
        findings += role_findings(job, name, about, workers)
        if machine is not None:
            machines[name] = machine
    return machines, findings


def _reducer(
    job: Job, catalog: Catalog, worker: Machine | None
) -> tuple[Machine | None, list[Finding]]:
    if not job.reducers.count:
        return None, []
    name, path = named_machine(job.reducers.machine, "reducers.machine")
    if name in (None, "auto"):
        return reducer_machine(catalog, worker.gbps if worker else None), []
    machine = catalog.machines.get(str(name))
    if machine is None:
        return None, [_no_such_machine(str(name), path, catalog)]
    if machine.accelerators:
        message = f"{machine.name} has accelerators, which a reducer does not use"
        return machine, [warning("machine", message, "set reducers.machine: auto", path)]
    return machine, []


def _count(
    job: Job, catalog: Catalog, worker: Machine | None, machine: Machine | None
) -> tuple[int, list[Finding]]:
    """How many reducers, and why."""
    path, count = "reducers.count", job.reducers.count
    if count == 0 or worker is None or machine is None:
        return 0, []
    pointless = _pointless(job, catalog, worker)
    if count != "auto":
        if pointless is None:
            return count, []
        return count, [warning("reducers", pointless, "set reducers.count: 0", path)]
    if job.workers.count == 1:
        return 0, [
            note("reducers", "0 reducers: a single worker exchanges no gradients", None, path)
        ]
    if pointless is not None:
        return 0, [note("reducers", f"0 reducers: {pointless}", None, path)]
    if not worker.gbps or not machine.gbps:
        unknown = worker if not worker.gbps else machine
        message = (
            f"the number of reducers depends on the bandwidth, and the bandwidth of {unknown.name} "
            "is "
        )
        return 0, [error("reducers", message + "unknown", "set a number", path)]
    needed = reducers_for(job.workers.count, worker.gbps, machine.gbps)
    why = f"{job.workers.count} workers x {worker.gbps:g} Gbit/s / {machine.gbps:g} Gbit/s"
    if advised := _advised(job, worker, machine):
        needed, why = advised.reducers, advised.why
    noun = "reducer" if needed == 1 else "reducers"
    return needed, [note("reducers", f"{needed} {noun} on {machine.name}: {why}", None, path)]


def _advised(job: Job, worker: Machine, machine: Machine) -> Automatic | None:
    if job.model is None:
        return None
    from rsctl.estimate.advice.automatic import automatic_reducers  # few plans need the model

    return automatic_reducers(job, "sagemaker", worker, machine)


def _pointless(job: Job, catalog: Catalog, worker: Machine) -> str | None:
    """Why reducers gain nothing for such workers, with the arithmetic; None if they may."""
    if worker.accelerator and Accelerator(worker.accelerator).is_neuron:
        return f"{NEURON_EXCHANGE}, which does not use reducers"
    if worker.own_transport is None or not worker.gbps:
        return None
    best = catalog.machines[catalog.reducer]
    needed = reducers_for(job.workers.count, worker.gbps, best.gbps or 1.0)
    return (
        f"{worker.name} has its own transport ({worker.own_transport}), which reducers do not "
        f"use: to be as fast over TCP, the job would need {job.workers.count} x {worker.gbps:g} "
        f"/ {best.gbps:g} = {needed} machines {best.name}"
    )


def _preference_findings(resolved: ResolvedPools) -> Iterator[Finding]:
    """Check alternatives to the workers' machine: each must start the same number of ranks."""
    names = sagemaker_options(resolved.job).instance_preferences
    if names and len(resolved.groups) > 1:
        yield _preferences_of_groups(resolved)
    earlier = [resolved.worker.name] if resolved.worker else []
    for index, name in enumerate(names):
        yield from _preference_problem(name, f"{_PREFERENCES}[{index}]", earlier, resolved.worker)
        earlier.append(name)


def _preferences_of_groups(resolved: ResolvedPools) -> Finding:
    """Check for preferences together with instance groups: they exclude each other."""
    if resolved.roles:
        condition, other = "if all nodes are workers", "roles"
    elif resolved.chief:
        condition, other = "if all workers are identical", "chief"
    else:
        condition, other = "for jobs without reducers", "set reducers.count: 0"
    message = f"SageMaker chooses among machine types only {condition}"
    return error("machine", message, f"remove it, or {other}", _PREFERENCES)


def _preference_problem(
    name: str, path: str, earlier: list[str], worker: Machine | None
) -> Iterator[Finding]:
    """The problem of one preference; `earlier` are the machines before it."""
    catalog = load("sagemaker")
    machine = catalog.machines.get(name)
    if machine is None:
        yield _no_such_machine(name, path, catalog)
    elif name in earlier:
        message = f"{name} is listed twice, or is the same as workers.machine"
        yield error("machine", message, "remove it", path)
    elif worker and machine.accelerators[:1] != worker.accelerators[:1]:
        message = (
            f"{name} has {_accelerators(machine)}, but {worker.name} has {_accelerators(worker)}"
        )
        remedy = (
            "use machine types with the same number, because each starts the same number of ranks"
        )
        yield error("machine", message, remedy, path)


def _accelerators(machine: Machine) -> str:
    return f"{machine.accelerators[0]} accelerators" if machine.accelerators else "no accelerators"


def _disk_findings(resolved: ResolvedPools) -> Iterator[Finding]:
    if resolved.job.workers.disk and resolved.worker and has_own_disks(resolved.worker.name):
        yield warning(
            "disk",
            (
                f"{resolved.worker.name} has built-in disks of a fixed size: SageMaker attaches no "
                "volume to it"
            ),
            "remove workers.disk",
            "workers.disk",
        )


def _no_such_machine(name: str, path: str, catalog: Catalog) -> Finding:
    if family(name) in _EC2_ONLY:
        remedy = "use one of family ml.c5n, or auto"
    elif f"ml.{name}" in catalog.machines:
        remedy = f"write ml.{name}"
    else:
        import difflib

        close = difflib.get_close_matches(name[:80], catalog.machines, n=1)
        remedy = f"did you mean {close[0]}?" if close else "use one whose name starts with ml."
    return error("machine", f"SageMaker training has no machine type {name!r}", remedy, path)


def _no_such_accelerator(job: Job, catalog: Catalog) -> Finding:
    wanted = job.workers.accelerator
    kind = wanted.type if wanted else ""
    counts = sorted({n for m in catalog.machines.values() for n in m.counts(kind)})
    path = "workers.accelerator"
    fitting = [m.name for m in catalog.machines.values() if wanted and m.fits(wanted)]
    if fitting:
        message = f"rsctl does not choose {' and '.join(fitting)} for {wanted} by default"
        remedy = f"set it: workers.machine: {fitting[0]}"
        return error("machine", message.replace(" and ", " or "), remedy, path)
    if counts:
        remedy = f"a machine type has {' or '.join(map(str, counts))} of {kind}"
    else:
        known = sorted({m.accelerator for m in catalog.machines.values() if m.accelerator})
        remedy = f"use one of: {', '.join(known)}"
    message = f"SageMaker training has no machine type with {wanted}"
    return error("machine", message, remedy, path)
