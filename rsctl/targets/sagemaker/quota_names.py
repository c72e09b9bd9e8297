"""The names of quotas, as in Service Quotas and in SageMaker's refusals. Pure."""

from __future__ import annotations

from rsctl.job.job import Job

LONGEST_RUN_QUOTA = "Longest run time for a training job"


def usage_quota(job: Job, machine: str) -> str:
    """The quota of a machine type in a job."""
    return f"{machine} for {_kind(job)} usage"


def machines_quota(job: Job) -> str:
    """The quota of the machines of one job, of all types."""
    return f"Maximum number of instances per {_kind(job)}"


def warm_quota(machine: str) -> str:
    """The quota of the machines of a type that are kept warm."""
    return f"{machine} for training warm pool usage"


def _kind(job: Job) -> str:
    """Spot machines have quotas of their own."""
    return "spot training job" if job.limits.spot else "training job"
