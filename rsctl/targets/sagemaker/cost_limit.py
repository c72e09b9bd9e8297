"""The running time that `limits.cost` leaves a job on SageMaker. Pure."""

from __future__ import annotations

from typing import Any

from rsctl.estimate.costs.limit import limit_time
from rsctl.job.job import Job
from rsctl.targets.base import Pool
from rsctl.targets.sagemaker.billing import billing_of
from rsctl.targets.sagemaker.machines import ResolvedPools
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.pools import GROUPS


def limited_by_cost(job: Job, resolved: ResolvedPools) -> Job:
    """The job with a time limit that keeps it below its cost limit, if it has no time limit."""
    pools = [
        Pool(role=GROUPS.get(name, name), count=count, machine=machine.name)
        for name, machine, count in resolved.groups
    ]
    request: dict[str, Any] = {"region": sagemaker_options(job).first_region, "body": {}}
    return limit_time(job, "sagemaker", pools, billing_of(request))
