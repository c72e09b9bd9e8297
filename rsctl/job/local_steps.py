"""The type of the job spec for the outer optimizer of local steps, and checks of its keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from rsctl.findings import Finding, error, note

if TYPE_CHECKING:
    from rsctl.job.job import Job


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The optimizer that takes the workers' average change for a gradient."""

    optimizer: Annotated[
        Literal["nesterov", "sgd"],
        Meta(description="SGD with Nesterov's momentum, or with the usual one."),
    ] = "nesterov"
    lr: Annotated[
        float,
        Meta(
            description="Learning rate of the outer optimizer; 1 with momentum 0 averages the "
            "parameters.",
            gt=0,
            le=10,
        ),
    ] = 0.7
    momentum: Annotated[
        float, Meta(description="Momentum of the outer optimizer.", ge=0, le=0.999)
    ] = 0.9


def check_local_steps(job: Job) -> Iterator[Finding]:
    """Findings on `comm.local_steps` and the keys that belong to it."""
    comm = job.comm
    if comm.local_steps == 1:
        keys = {
            "outer": comm.outer != Outer(),
            "fragments": comm.fragments > 1,
            "quorum": comm.quorum is not None,
        }
        for key, is_set in keys.items():
            if is_set:
                message = "the workers exchange gradients in each step"
                yield note("unused", message, "set comm.local_steps", f"comm.{key}")
        return
    if comm.fragments > comm.local_steps:
        message = (
            f"{comm.fragments} fragments have no step each to travel in {comm.local_steps} local "
            "steps"
        )
        yield error("comm", message, "set fewer fragments, or more local steps", "comm.fragments")
    if comm.compression not in ("none", "fp16", "bf16"):
        message = f"{comm.compression} compresses gradients, and local steps exchange parameters"
        yield error("comm", message, "set none, fp16 or bf16", "comm.compression")
    if comm.hook is not None:
        message = f"hook {comm.hook} reduces gradients, and local steps exchange parameters"
        yield error("comm", message, "keep one of them", "comm.hook")
    message = (
        f"results change: each worker trains by itself for {comm.local_steps} steps, then an outer "
        f"{comm.outer.optimizer} step brings all of them together; each step of the optimizer sees "
        "one worker's batch, and gradients are clipped by it"
    )
    if comm.quorum is not None:
        yield from _check_quorum(job, comm.quorum)
        message += (
            f"; an exchange waits for {comm.quorum} of the ranks, and who counts in it depends on "
            "timing, so that no two runs are equal"
        )
    remedy = (
        "compare the loss with local_steps: 1 (rsctl compare), and hold it by rsctl gate with a "
        "metric of goal min"
    )
    yield note("local-steps", message, remedy, "comm.local_steps")


def _check_quorum(job: Job, quorum: int) -> Iterator[Finding]:
    comm, workers = job.comm, job.workers
    each = workers.processes if isinstance(workers.processes, int) else None
    ranks = workers.count * each if isinstance(workers.count, int) and each else None
    if ranks is not None and quorum > ranks:
        message = f"an exchange cannot wait for {quorum} ranks: the job has {ranks}"
        yield error("comm", message, f"set a number from 1 to {ranks}", "comm.quorum")
    if workers.accelerator is not None:
        message = "an exchange that does not wait for all ranks works with models on the CPU so far"
        yield error("comm", message, "remove comm.quorum", "comm.quorum")
    if comm.backend == "rsctl":
        message = "the script's own collectives would meet exchanges that late ranks have not left"
        yield error("comm", message, "set comm.backend: auto, or remove the quorum", "comm.quorum")
    if comm.on_reducer_loss == "fallback":
        message = "late ranks cannot repeat an exchange that a lost reducer has interrupted"
        remedy = "set comm.on_reducer_loss: fail, or remove the quorum"
        yield error("comm", message, remedy, "comm.quorum")
