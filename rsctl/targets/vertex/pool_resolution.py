"""Resolves a job's pools: machines, ranks and reducers, with all findings about the job. Pure.

`resolve_pools` decides everything; the code for the request only writes the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

import msgspec

from rsctl.estimate.catalog import Machine
from rsctl.findings import Finding, error, note
from rsctl.job.job import Job
from rsctl.targets.chief import (
    chief_findings,
    chief_job,
    gpu_findings,
    has_own_chief,
    rank_findings,
)
from rsctl.targets.launch_command import unlaunched
from rsctl.targets.managed.architecture import architecture_findings
from rsctl.targets.managed.image_names import image_name_findings
from rsctl.targets.reducer_loss import reducer_loss_findings
from rsctl.targets.variables import tls_findings
from rsctl.targets.vertex.checks import QuotaPool, job_findings, quota_findings, worker_findings
from rsctl.targets.vertex.environment import awaited_roles
from rsctl.targets.vertex.info import INFO
from rsctl.targets.vertex.machines import is_tpu, worker_machine
from rsctl.targets.vertex.names import name_findings
from rsctl.targets.vertex.reducers import ReducerPool, reducers_of
from rsctl.targets.vertex.roles import RolePool, pool_roles, resolve_roles
from rsctl.targets.vertex.scheduling import scheduling_findings, strategy_of


class ResolvedPools(msgspec.Struct, frozen=True):
    """The workers' machine, the ranks on each, the reducers if there are any, and other roles.

    `pool_roles` are the roles by the names of their worker pools, as the containers need them, and
    `awaited` those whose ends the chief waits for.
    `chief` and `chief_processes` are the first worker's: in most jobs equal to all others'.
    """

    machine: Machine
    processes: int
    reducers: Optional[ReducerPool]
    chief: Machine
    chief_processes: int
    roles: Sequence[RolePool] = ()
    pool_roles: Mapping[str, str] = {}
    awaited: Sequence[str] = ()

    @property
    def ranks(self) -> tuple[int, int]:
        """The ranks on the chief, and on each other worker."""
        return self.chief_processes, self.processes

    @property
    def has_own_reducers(self) -> bool:
        """Whether reducers are rsctl's, which start from the workers' image."""
        return self.reducers is not None and self.reducers.kind == "rsctl"


def resolve_pools(job: Job) -> tuple[Optional[ResolvedPools], list[Finding]]:
    """The pools, or None if there are errors among the findings."""
    findings = list(name_findings(job))
    machine, about_workers = _worker(job)
    reducers = reducers_of(job, machine, findings)
    are_ours = reducers is not None and reducers.kind == "rsctl"
    findings += tls_findings(job, are_ours)
    if are_ours:
        findings += reducer_loss_findings(job, "Vertex AI")
    findings += scheduling_findings(job)
    findings += job_findings(job)
    about_workers += _findings(job, machine, reducers)
    findings += about_workers
    chief, processes = machine, ranks_of(job)
    chief_processes = processes
    if has_own_chief(job):
        replica_job = chief_job(job)
        chief, about_chief = _worker(replica_job)
        about_chief += _findings(replica_job, chief, reducers)
        findings += chief_findings(job, about_chief, about_workers)
        chief_processes = ranks_of(replica_job)
        findings += rank_findings(job, chief_processes, processes, reducers is not None)
        findings += gpu_findings(job)
    findings += _end_findings(job)
    roles, about_roles = resolve_roles(job, machine, reducers, about_workers)
    findings += about_roles
    if machine is None or chief is None:
        return None, findings
    machines = {role.name: role.machine for role in roles}
    findings += image_name_findings(job, machine, chief, machines)
    findings += _pool_findings(job, chief, machine, reducers, roles)
    if any(finding.is_error for finding in findings):
        return None, findings
    named = pool_roles(job, reducers is not None)
    ranks = (processes, reducers, chief, chief_processes)
    return ResolvedPools(machine, *ranks, roles, named, awaited_roles(job)), findings


def _worker(job: Job) -> tuple[Optional[Machine], list[Finding]]:
    findings: list[Finding] = []
    return worker_machine(job, findings), findings


def _findings(
    job: Job, machine: Optional[Machine], reducers: Optional[ReducerPool]
) -> Iterator[Finding]:
    """The mistakes in workers on a machine type."""
    yield from worker_findings(job, reducers)
    own = reducers.machine if reducers is not None and reducers.kind == "rsctl" else None
    yield from architecture_findings(job, machine, own, INFO.platform)


def _end_findings(job: Job) -> Iterator[Finding]:
    """Say that the other workers end with the chief; torchrun and MPI wait anyway."""
    if job.workers.count == 1 or (job.run.is_launched and job.run.launcher != "once"):
        return
    message, remedy = "Vertex AI ends the other workers when the chief ends", None
    if job.run.is_launched:
        message += "; rsctl-launch on the chief waits for them before"
    else:
        message += f"; with {unlaunched(job)[0]}, the results of workers that still run are unknown"
        remedy = "have the chief's program wait for the other workers"
    yield note("chief", message, remedy, "run.package" if job.run.package else "run.launcher")


def _pool_findings(
    job: Job,
    chief: Machine,
    machine: Machine,
    reducers: Optional[ReducerPool],
    roles: Sequence[RolePool],
) -> Iterator[Finding]:
    """The conflicts among the pools."""
    if chief.arm != machine.arm:
        message = f"{chief.name} and {machine.name} have different processors, but share one image"
        yield error("arm", message, "use machine types with the same processors", "chief.machine")
    if chief.name != machine.name and strategy_of(job) == "FLEX_START":
        message = "flex start gives all pools the same machine type, and the chief's is different"
        remedy = "remove chief.machine, or set another targets.vertex.capacity"
        yield error("chief", message, remedy, "chief.machine")
    same = chief.name == machine.name
    others = job.workers.count - (0 if same else 1)
    gpus = job.workers.accelerator
    of_chief = chief_job(job).workers.accelerator
    pools = [] if same else [QuotaPool("chief.machine", 1, chief, of_chief)]
    pools += [QuotaPool("workers.count", others, machine, gpus)] if others else []
    if reducers:
        pools.append(QuotaPool("reducers.count", reducers.count, reducers.machine))
    pools += [
        QuotaPool(
            f"roles.{r.name}.count", r.job.workers.count, r.machine, r.job.workers.accelerator
        )
        for r in roles
    ]
    yield from quota_findings(job, pools)


def ranks_of(job: Job) -> int:
    """The number of ranks on each worker: one for each GPU, otherwise one, also for TPUs."""
    workers = job.workers
    if workers.processes != "auto":
        return workers.processes
    if workers.accelerator is None or is_tpu(workers.accelerator):
        return 1
    return workers.accelerator.per_node
