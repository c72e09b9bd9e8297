"""The job of the chief: `workers` and `run`, overridden by `chief`. Pure.

Code that renders a worker gets this job for the first one, and the job itself for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Union

import msgspec
from msgspec.structs import replace

from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job, PerTarget

_Args = Union[Mapping[str, Any], list[str]]
_WORKER_KEY = re.compile(r"\bworkers\.(machine|accelerator|disk)\b")
_OF_MACHINES = ("workers.machine", "workers.accelerator")


def has_own_chief(job: Job) -> bool:
    """Whether the chief differs from the other workers in anything that the job says."""
    return job.chief != type(job.chief)()


def chief_job(job: Job) -> Job:
    """The job with the chief's machine, disk, arguments and variables for all workers."""
    chief, workers, run = job.chief, job.workers, job.run
    accelerator = workers.accelerator
    if chief.accelerator is not None:
        accelerator = None if chief.accelerator == "none" else chief.accelerator
    return replace(
        job,
        chief=type(job.chief)(),
        workers=replace(
            workers,
            machine=_laid_over(workers.machine, chief.machine),
            accelerator=accelerator,
            disk=chief.disk or workers.disk,
        ),
        run=replace(run, args=laid_over_args(run.args, chief.args), env={**run.env, **chief.env}),
    )


def _laid_over(workers: Any, chief: Any) -> Any:
    """A machine for each target; where the chief names none, it is the other workers'."""
    if chief is None or not isinstance(chief, PerTarget):
        return workers if chief is None else chief
    given = msgspec.structs.asdict(chief)
    if isinstance(workers, PerTarget):
        return replace(workers, **{name: value for name, value in given.items() if value})
    return replace(chief, **{name: value or workers for name, value in given.items()})


def laid_over_args(common: _Args, own: _Args | None) -> Any:
    """A mapping merged into the mapping of `run.args`, name by name, or a list in its place.

    `spec.role_checks` refuses a mapping over a list."""
    if isinstance(own, Mapping) and isinstance(common, Mapping):
        return {**common, **own}
    return common if own is None else own


def chief_findings(job: Job, chief: list[Finding], workers: list[Finding]) -> list[Finding]:
    """The findings of a check of `chief_job` that do not apply to the other workers.

    They name the chief's keys if it sets them.
    """
    return [_of_chief(job, finding) for finding in chief if finding not in workers]


def rank_findings(job: Job, chief: int, others: int, has_reducers: bool) -> Iterator[Finding]:
    """Findings on ranks that the chief and the other workers have in different numbers.

    torchrun itself adds up the ranks of its nodes, however many each has.
    """
    is_one_rank = chief == others or not job.run.is_launched  # without rsctl-launch none is ours
    if job.workers.count == 1 or is_one_rank or not has_own_chief(job):
        return
    differ = f"the chief has {chief} rank(s) and every other worker {others}"
    same = "set workers.processes for the same number on all"
    own = [name for name in ("accelerator", "machine") if getattr(job.chief, name) is not None]
    key = f"chief.{[*own, 'accelerator'][0]}"
    if has_reducers:
        message = f"{differ}: reducers require the same number on all nodes"
        yield error("chief", message, f"{same}, or reducers.count: 0", key)
    if job.run.launcher == "mpi":
        message = f"{differ}: launcher mpi starts the same number on all nodes"
        yield error("mpi", message, f"{same}, or use launcher torchrun", key)


def gpu_findings(job: Job) -> Iterator[Finding]:
    """A warning where only the chief has GPUs, or only the others: NCCL needs one for each rank."""
    if job.workers.count == 1:
        return
    has_gpus = [each.workers.accelerator is not None for each in (chief_job(job), job)]
    if has_gpus[0] != has_gpus[1] and job.run.launcher == "torchrun" and job.comm.backend == "auto":
        without = "the other workers have" if has_gpus[0] else "the chief has"
        message = f"NCCL needs a GPU for each rank, and {without} none"
        remedy = "set comm.backend: gloo, or launcher once for a chief that does not train"
        yield warning("chief", message, remedy, "chief.accelerator")


def _of_chief(job: Job, finding: Finding) -> Finding:
    remedy = _named(finding.remedy) if finding.remedy else None
    is_inherited = job.chief.accelerator is None and job.workers.accelerator is not None
    if finding.is_error and is_inherited and finding.path in _OF_MACHINES and remedy:
        remedy += "; for a chief without accelerators, set chief.accelerator: none"
    return replace(
        finding,
        message=f"the chief: {_named(finding.message)}",
        remedy=remedy,
        path=_key(job, finding.path) if finding.path else None,
    )


def _named(text: str) -> str:
    return _WORKER_KEY.sub(r"chief.\1", text)


def _key(job: Job, path: str) -> str:
    block, _, name = path.partition(".")
    variable = name.partition(".")[2]
    is_own = (
        (block == "workers" and getattr(job.chief, name.partition(".")[0], None) is not None)
        or (path == "run.args" and job.chief.args is not None)
        or (name.startswith("env.") and variable in job.chief.env)
    )
    return f"chief.{name}" if is_own else path
