"""A profile of recorded steps: the lines that the binding to PyTorch prints for a running script.

It prints the medians over the last steps as `steps` lines, a part of the buckets in each
(rsctl/transport/pytorch/recording.py).
"""

from __future__ import annotations

from typing import Annotated, Optional

import msgspec
from msgspec import Meta

from rsctl.estimate.advice.profile import GradientBucket, Profile

_Seconds = Annotated[float, Meta(ge=0, le=1e6)]
_Count = Annotated[int, Meta(ge=1, le=100_000)]
_Buckets = Annotated[tuple[tuple[int, float, float], ...], Meta(max_length=10_000)]

SPREAD_SHOWN_FROM = 0.02
QUEUED_SHOWN_FROM = 0.05


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over `steps` steps of rank 0 in a job of `world` ranks, in seconds.

    `seconds` is a step, `low` and `high` its quartiles; `compute` is the step without the time in
    which it only waited for gradients, `data` the time in which it waited for input. `prefetches`
    says that a DataLoader with worker processes prepares the input. `communicates` is false where
    gradients were not exchanged. `bucket_mb` is the script's own `bucket_cap_mb`, in MiB, if it
    asks for one. `cores` are the cores that a rank kept busy, `queued` the part of the time in
    which it waited for a core; None if unknown. `buckets` have bytes, and when they are ready and
    reduced, from the step's start.
    """

    steps: _Count
    seconds: _Seconds
    low: _Seconds
    high: _Seconds
    compute: _Seconds
    data: _Seconds
    world: _Count
    prefetches: bool
    communicates: bool
    buckets: _Buckets
    bucket_mb: Optional[Annotated[float, Meta(gt=0, le=1e6)]] = None
    cores: Optional[Annotated[float, Meta(ge=0, le=1e6)]] = None
    queued: Optional[Annotated[float, Meta(ge=0, le=1e6)]] = None

    @property
    def gradient_bytes(self) -> int:
        """All buckets together."""
        return sum(size for size, _, _ in self.buckets)


def profile_of_record(record: StepRecord, source: str) -> Profile:
    """The step without communication. Raises ValueError where the record has no bucket."""
    if not record.buckets:
        raise ValueError("no bucket was recorded")
    assumed = []
    if record.communicates and record.prefetches:
        assumed.append("the wait for input is assumed to be as long as with communication")
    spread = (record.high - record.low) / record.seconds if record.seconds else 0.0
    if spread >= SPREAD_SHOWN_FROM:
        assumed.append(
            f"the median of {record.steps} steps, half of which took "
            f"{record.low:.3g} to {record.high:.3g} s"
        )
    if record.queued is not None and record.queued >= QUEUED_SHOWN_FROM:
        assumed.append(
            f"the measured rank waited for a core in {record.queued:.0%} of the time, because "
            "ranks or other programs share the cores: without them, a step is shorter"
        )
    return Profile(
        cores=record.cores,
        gradient_bytes=record.gradient_bytes,
        step_seconds=record.compute,
        buckets=tuple(
            GradientBucket(size, min(ready, record.compute)) for size, ready, _ in record.buckets
        ),
        data_seconds=min(record.data, record.compute),
        data_overlaps=record.prefetches,
        bucket_mb=record.bucket_mb,
        source=source,
        assumed=tuple(assumed),
    )
