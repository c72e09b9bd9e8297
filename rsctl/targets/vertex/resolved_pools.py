"""Resolves a job's pools: machines, ranks and reducers, with all findings about the job. Pure.

`resolve_pools` finds everything at once; the request is then only written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from rsctl.catalog import Machine
from rsctl.findings import Finding
from rsctl.spec.job import Job
from rsctl.targets.managed.architecture import architecture_findings
from rsctl.targets.variables import tls_findings
from rsctl.targets.vertex.checks import job_findings, size_findings
from rsctl.targets.vertex.info import INFO
from rsctl.targets.vertex.machines import worker_machine
from rsctl.targets.vertex.names import name_findings
from rsctl.targets.vertex.reducers import Reducers, reducers_of
from rsctl.targets.vertex.scheduling import scheduling_findings


@dataclass(frozen=True)
class ResolvedPools:
    """The workers' machine, the ranks on each, and the reducers if there are any."""

    machine: Machine
    processes: int
    reducers: Optional[Reducers]

    @property
    def has_own_reducers(self) -> bool:
        """Whether reducers are rsctl's, which start from the workers' image."""
        return self.reducers is not None and self.reducers.kind == "rsctl"


def resolve_pools(job: Job) -> tuple[Optional[ResolvedPools], list[Finding]]:
    """The pools, or None if there are errors among the findings."""
    findings = list(name_findings(job))
    machine = worker_machine(job, findings)
    reducers = reducers_of(job, machine, findings)
    findings += tls_findings(job, reducers is not None and reducers.kind == "rsctl")
    findings += scheduling_findings(job)
    findings += job_findings(job)
    own = reducers.machine if reducers is not None and reducers.kind == "rsctl" else None
    findings += architecture_findings(job, machine, own, INFO.platform)
    if machine is not None:
        findings += size_findings(job, machine, reducers)
    if machine is None or any(finding.is_error for finding in findings):
        return None, findings
    return ResolvedPools(machine, ranks_of(job), reducers), findings


def ranks_of(job: Job) -> int:
    """How many ranks each worker has: one for each GPU, or one."""
    workers = job.workers
    if workers.processes != "auto":
        return workers.processes
    return workers.accelerator.per_node if workers.accelerator else 1
