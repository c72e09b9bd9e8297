"""The running time that `limits.cost` leaves a job on Vertex AI. Pure."""

from __future__ import annotations

from rsctl.estimate.costs.limit import limit_time
from rsctl.job.job import Job
from rsctl.targets.base import Pool
from rsctl.targets.chief import chief_job
from rsctl.targets.vertex.billing import billing_of
from rsctl.targets.vertex.pool_resolution import ResolvedPools
from rsctl.targets.vertex.request import url_of
from rsctl.targets.vertex.scheduling import scheduling


def limited_by_cost(job: Job, resolved: ResolvedPools) -> Job:
    """The job with a time limit that keeps it below its cost limit, if it has no time limit."""
    chief, reducers = chief_job(job), resolved.reducers
    nodes = ((chief, resolved.chief, 1), (job, resolved.machine, job.workers.count - 1))
    pools = [
        Pool(role="worker", count=count, machine=machine.name, accelerator=own.workers.accelerator)
        for own, machine, count in nodes
    ]
    if reducers is not None:
        pools.append(Pool(role="reducer", count=reducers.count, machine=reducers.machine.name))
    pools += [
        Pool(
            role=role.name,
            count=role.job.workers.count,
            machine=role.machine.name,
            accelerator=role.job.workers.accelerator,
        )
        for role in resolved.roles
    ]
    request = {"url": url_of(job), "body": {"jobSpec": {"scheduling": scheduling(job)}}}
    return limit_time(job, "vertex", pools, billing_of(request))
