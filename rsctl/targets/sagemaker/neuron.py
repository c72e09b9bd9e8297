"""The numbers of ranks that AWS's Trainium can form groups of. Pure.

Sources: Neuron's runtime ("Supported number of Neuron Cores is 1, 2, 8, 16 or a multiple of 32",
huggingface/optimum-neuron#619) and AWS Neuron's guide to errors in training, which names several
trn1.2xlarge as a cause of "NEFF is invalid".
"""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, error
from rsctl.targets.sagemaker.machines import ResolvedPools

_SMALL = "ml.trn1.2xlarge"
_LARGE = ("ml.trn1.32xlarge", "ml.trn1n.32xlarge")
_RANKS = (1, 2, 8, 16)
_CORES = 32


def neuron_findings(resolved: ResolvedPools) -> Iterator[Finding]:
    """The ranks that Trainium's collectives refuse once the machines have started."""
    job = resolved.job
    if job.run.launcher not in ("torchrun", "mpi"):
        return
    workers = job.workers.count
    names = [machine.name for machine in (resolved.worker, resolved.chief) if machine]
    if _SMALL in names and workers > 1:
        message = f"{workers} x {_SMALL} cannot exchange gradients: it has no network for "
        message += 'collectives of Neuron, which end with "NEFF is invalid"'
        remedy = f"set workers.count: 1, or use {_LARGE[0]}"
        yield error("neuron", message, remedy, "workers.count")
    if not any(name in _LARGE for name in names):
        return
    ranks, total = job.workers.ranks, job.workers.ranks * workers
    if total % _CORES == 0 or total in _RANKS:
        return
    message = f"{total} ranks ({workers} x {ranks}) cannot form a group on Trainium: the "
    message += f"collectives of Neuron take {', '.join(map(str, _RANKS))} or a multiple of {_CORES}"
    has_own = job.workers.processes != "auto"
    path = "workers.processes" if has_own else "workers.count"
    yield error("neuron", message, "set workers.processes: auto", path)
