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
        for key, is_set in (("outer", comm.outer != Outer()), ("fragments", comm.fragments > 1)):
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
    remedy = (
        "compare the loss with local_steps: 1 (rsctl compare), and hold it by rsctl gate with a "
        "metric of goal min"
    )
    yield note("local-steps", message, remedy, "comm.local_steps")
