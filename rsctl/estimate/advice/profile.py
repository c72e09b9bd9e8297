"""One training step of a script: its gradients, when they are ready, how long it computes.

Units: bytes and seconds. DDP's buckets follow torch/csrc/distributed/c10d/reducer.cpp,
`compute_bucket_assignment_by_size`: gradients in the order in which the backward pass makes them,
and a bucket is closed by the one with which it reaches its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rsctl.job.job import Model

MIB = 2**20
FIRST_BUCKET_BYTES = MIB
"""DDP's first bucket where the size is left at its default (`kDefaultFirstBucketBytes`)."""
DEFAULT_BUCKET_MB = 25
"""DDP's `bucket_cap_mb` by default, in MiB (`kDefaultBucketBytesCap`)."""
BACKWARD_PART = 2 / 3
"""The backward pass's part of the computation: it has two products of matrices for each one of the
forward pass (Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 2.1)."""

DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
_PIECES = 1024


class GradientBucket(msgspec.Struct, frozen=True):
    """Gradients that are sent together: `bytes`, and from when on they can be.

    `ready_seconds` counts from the step's start.
    """

    bytes: int
    ready_seconds: float


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's step as it would be without communication.

    `step_seconds` is the whole step, `data_seconds` its wait for input, at its start.
    `data_overlaps` says that the next input is prepared meanwhile (a DataLoader with workers of its
    own), so that a step that takes longer waits less for it. `buckets` are in the order of the
    backward pass; when recorded by a small `bucket_cap_mb` they can be regrouped into any larger
    one. `bucket_mb` is the script's own `bucket_cap_mb`, in MiB, None if it asks for none. `cores`
    are the cores that a rank keeps busy, None if that was not measured. `source` is `spec`, `run
    RUN` or `measured ...`; `assumed` has what was unknown.
    """

    gradient_bytes: int
    step_seconds: float
    buckets: tuple[GradientBucket, ...]
    data_seconds: float = 0.0
    data_overlaps: bool = True
    bucket_mb: float | None = None
    cores: float | None = None
    source: str = "spec"
    assumed: tuple[str, ...] = ()

    @property
    def backward_end_seconds(self) -> float:
        """When the last gradient is ready, from the step's start."""
        return self.buckets[-1].ready_seconds if self.buckets else self.step_seconds


def profile_of_model(model: Model) -> Profile:
    """The profile of `model: {parameters, dtype, step_seconds}` in a job file.

    Gradients become ready evenly over the backward pass, which is the last two thirds of the step.
    Raises ValueError if the model lacks one of `parameters` and `step_seconds`.
    """
    if not model.parameters or model.step_seconds is None:
        raise ValueError("model.parameters and model.step_seconds")
    return even_profile(model.parameters * DTYPE_BYTES[model.dtype], model.step_seconds)


def even_profile(gradient_bytes: int, step_seconds: float, data_seconds: float = 0.0) -> Profile:
    """A profile whose gradients become ready evenly over the backward pass."""
    computing = step_seconds - data_seconds
    begin, backward = step_seconds - BACKWARD_PART * computing, BACKWARD_PART * computing
    count = max(1, min(_PIECES, gradient_bytes // MIB))
    ends = [gradient_bytes * (i + 1) // count for i in range(count)]
    pieces = tuple(
        GradientBucket(end - start, begin + backward * end / gradient_bytes)
        for start, end in zip([0, *ends], ends, strict=False)
    )
    return Profile(
        gradient_bytes=gradient_bytes,
        step_seconds=step_seconds,
        buckets=pieces,
        data_seconds=data_seconds,
        source="spec",
        assumed=(
            "gradients become ready evenly over the backward pass",
            "the backward pass is the last two thirds of the computation",
        ),
    )


def regroup(
    pieces: Sequence[GradientBucket], cap_mb: float | None, scale: float = 1.0
) -> tuple[GradientBucket, ...]:
    """DDP's buckets of gradients that are recorded in smaller ones.

    `cap_mb` is `bucket_cap_mb` in MiB; None is DDP's default, with its small first bucket. `scale`
    is by how much gradients are larger or smaller when they travel: 0.5 where fp32 is sent as bf16.
    Limits count before that, as in DDP.
    """
    limit = (cap_mb or DEFAULT_BUCKET_MB) * MIB
    limits: list[float] = [FIRST_BUCKET_BYTES] if cap_mb is None else [limit]
    buckets: list[GradientBucket] = []
    size = 0
    for i, piece in enumerate(pieces):
        size += piece.bytes
        if size >= limits[-1] or i == len(pieces) - 1:
            buckets.append(GradientBucket(round(size * scale), piece.ready_seconds))
            limits.append(limit)
            size = 0
    return tuple(buckets)
