"""The `#SBATCH` lines of a job. Pure. Source: sbatch(1) of Slurm 22.05 and 24.11."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from rsctl.job.job import Job
from rsctl.targets.slurm.options import SlurmOptions, slurm_options
from rsctl.targets.slurm.pools import Allocation, Component, is_requeued

COMMENT = "rsctl:"
"""The job's comment begins with it; the run's ID follows."""


_GRACE = 120.0
LONGEST_GRACE = 65535
"""The most seconds of `--signal` (sbatch(1))."""


def grace_of(job: Job) -> float:
    """How long before the time limit the ranks are asked to end, in seconds."""
    return float(job.limits.grace or _GRACE)


def directives(job: Job, run: str, allocation: Allocation) -> Iterator[str]:
    """The lines; those of a further component follow `#SBATCH hetjob`."""
    for number, component in enumerate(allocation.components):
        if number:
            yield "#SBATCH hetjob"
        for option in _component_options(job, component, is_first=number == 0, run=run):
            yield f"#SBATCH {shlex.quote(option)}"


def _component_options(
    job: Job, component: Component, *, is_first: bool, run: str
) -> Iterator[str]:
    options = slurm_options(job)
    yield f"--job-name={run}"
    yield f"--comment={COMMENT}{run}"
    if is_first:
        yield f"--output={options.shared}/{run}.batch.log"
        yield "--open-mode=append"
        # The batch script passes it on to the steps that train.
        if (job.limits.timeout or 0) > grace_of(job):
            yield f"--signal=B:USR1@{round(grace_of(job))}"
    yield "--requeue" if is_requeued(job) else "--no-requeue"
    yield f"--time={_minutes(job)}"
    yield f"--nodes={component.nodes}"
    yield "--ntasks-per-node=1"
    if component.gpus:
        kind = f"{options.gpu_type}:" if options.gpu_type else ""
        yield f"--gpus-per-node={kind}{component.gpus}"
    if options.cpus and component.role == "worker":
        yield f"--cpus-per-task={options.cpus}"
    if options.exclusive or (options.exclusive is None and not options.cpus):
        yield "--exclusive"
    yield from _given(options, component, is_first=is_first)
    yield from options.sbatch


def _given(options: SlurmOptions, component: Component, *, is_first: bool) -> Iterator[str]:
    """The options that have the value of a key."""
    partition = options.partition
    if component.role == "reducer" and options.reducer_partition:
        partition = options.reducer_partition
    features = [each for each in (options.constraint, component.features) if each]
    memory = "0M" if options.memory == "all" else None
    if isinstance(options.memory, int):
        memory = f"{math.ceil(options.memory / 2**20)}M"
    is_worker = component.role == "worker"
    values = {
        "partition": partition,
        "account": options.account,
        "qos": options.qos,
        "reservation": options.reservation,
        "constraint": "&".join(f"({each})" if "|" in each else each for each in features),
        "exclude": options.exclude,
        "mem": memory,
        "switches": options.switches if is_worker else None,
        "segment": options.segment if is_worker else None,
        "licenses": options.licenses if is_first else None,
    }
    for name, value in values.items():
        if value:
            yield f"--{name}={value}"


def _minutes(job: Job) -> int:
    """The time limit in minutes, which is Slurm's resolution. Without a limit the plan fails."""
    return max(1, math.ceil((job.limits.timeout or 0) / 60))
