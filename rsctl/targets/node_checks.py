"""The variable by which a job's workers learn which checks they run before their ranks. Pure."""

from __future__ import annotations

from typing import Optional

from rsctl.job.job import Job
from rsctl.node.health.settings import CHECKS, Checks, write_checks
from rsctl.targets.chief import chief_job

_NOT_NVIDIA = ("v5", "v6", "tpu")


def checks_env(job: Job, gbps: Optional[float] = None) -> dict[str, Optional[str]]:
    """The variable; empty without checks. `gbps` is what the catalogue has for each worker."""
    chosen = job.checks
    if not chosen.chosen or not job.run.is_launched:
        return {}
    checks = Checks(chosen.network, chosen.gpu, chosen.cpu, gbps, _gpus(job))
    return {CHECKS: write_checks(checks)}


def _gpus(job: Job) -> Optional[float]:
    """The NVIDIA GPUs that each worker has at least; None if it has others, or none.

    The workers of a pool in a cloud have one environment, so the chief's count for all.
    """
    counts = []
    for each in (job, chief_job(job)):
        accelerator = each.workers.accelerator
        if accelerator is None or accelerator.is_neuron or accelerator.startswith(_NOT_NVIDIA):
            return None
        counts.append(accelerator.per_node)
    return float(min(counts))
