"""The running time that `limits.cost` leaves a job on Vertex AI. Pure."""

from __future__ import annotations

from rsctl.costs.limit import limit_time
from rsctl.spec.job import Job
from rsctl.targets.base import Pool
from rsctl.targets.vertex.billing import billing_of
from rsctl.targets.vertex.request import url_of
from rsctl.targets.vertex.resolved_pools import ResolvedPools
from rsctl.targets.vertex.scheduling import scheduling


def limited_by_cost(job: Job, resolved: ResolvedPools) -> Job:
    """The job with a time limit that keeps it below its cost, where it has none."""
    workers, reducers = job.workers, resolved.reducers
    pools = [
        Pool(
            role="worker",
            count=workers.count,
            machine=resolved.machine.name,
            accelerator=workers.accelerator,
        )
    ]
    if reducers is not None:
        pools.append(Pool(role="reducer", count=reducers.count, machine=reducers.machine.name))
    request = {"url": url_of(job), "body": {"jobSpec": {"scheduling": scheduling(job)}}}
    return limit_time(job, "vertex", pools, billing_of(request))
