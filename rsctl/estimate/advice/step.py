"""One training step with its communication: the overlap with the backward pass, and what bounds it.

DDP starts a bucket's all-reduce as soon as its gradients are there, and one after the other, so
finish_i = max(ready_i, finish_(i-1)) + T(K_i) (Li et al., "PyTorch Distributed", VLDB 2020). Where
several can be under way, the next need not wait for the latency of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.collectives import exchange
from rsctl.estimate.advice.exchange import Exchange, Topology
from rsctl.estimate.advice.profile import GradientBucket, Profile, regroup

REDUCER_BUCKET_MB = 64
"""The default size of DDP's bucket over rsctl's reducers, in MiB
(`rsctl.transport.pytorch.settings`).
"""
COMPUTATION, INPUT = "computation", "input data"
NOTICED = 0.05
"""The minimum part of a step that communication must add to be named as its bottleneck."""
DATA_BOUND = 0.2
"""The minimum part of a step spent waiting for input for this to be named."""


class ExchangeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How gradients travel: DDP's `bucket_mb` in MiB, None for its default; and what of their bytes
    is sent, 0.5 for `compression: bf16` of fp32. `may_compress` says that they could be halved."""

    bucket_mb: int | None = None
    sent_part: float = 1.0
    may_compress: bool = False


class StepPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """One step by one topology, in seconds.

    `exchange_seconds` is all communication of a step, `exposed_seconds` what of it the step waits
    for. `efficiency` is the step without communication divided by the step. `worker_bytes` and
    `reducer_bytes` are of all buckets together. `parts` are those of the exchanges, added up.
    """

    topology: Topology
    step_seconds: float
    exchange_seconds: float
    exposed_seconds: float
    efficiency: float
    bottleneck: str
    worker_bytes: float
    reducer_bytes: float
    parts: dict[str, float]


def finish_seconds(
    buckets: Sequence[GradientBucket],
    time_of: Callable[[int], float],
    delay_of: Callable[[int], float] = lambda _: 0.0,
) -> float:
    """When the last bucket has been reduced, from the step's start.

    `delay_of` is what of a bucket's time the next one does not wait for.
    """
    free = finish = 0.0
    for bucket in buckets:
        delay = delay_of(bucket.bytes)
        free = max(bucket.ready_seconds, free) + time_of(bucket.bytes) - delay
        finish = max(finish, free + delay)
    return finish


def predict(
    profile: Profile,
    cluster: ModelledCluster,
    topology: Topology,
    calibration: Calibration,
    settings: ExchangeSettings = ExchangeSettings(),  # noqa: B008 - frozen
) -> StepPrediction:
    """The step of a profile on a cluster."""
    is_reduced = topology in ("pool", "hybrid")
    default = REDUCER_BUCKET_MB if is_reduced and cluster.shares_work else None
    cap = settings.bucket_mb or profile.bucket_mb or default
    buckets = regroup(profile.buckets, cap, settings.sent_part)
    exchanges = {
        size: exchange(topology, cluster, size, calibration) for size in {b.bytes for b in buckets}
    }
    each = [exchanges[bucket.bytes] for bucket in buckets]
    total = sum(one.seconds for one in each)
    finish = finish_seconds(
        buckets,
        lambda size: exchanges[size].seconds,
        lambda size: exchanges[size].delay_seconds,
    )
    hidden = max(0.0, finish - profile.backward_end_seconds) if buckets else 0.0
    exposed = calibration.overlap * hidden + (1 - calibration.overlap) * total
    step = step_seconds(profile, exposed)
    parts = _added(each)
    return StepPrediction(
        topology=each[0].topology if each else "none",
        step_seconds=step,
        exchange_seconds=total,
        exposed_seconds=exposed,
        efficiency=profile.step_seconds / step,
        bottleneck=_bottleneck(profile, step, parts),
        worker_bytes=sum(one.worker_bytes for one in each),
        reducer_bytes=sum(one.reducer_bytes for one in each),
        parts=parts,
    )


def step_seconds(profile: Profile, exposed: float) -> float:
    """The step with so much communication that nothing hides.

    Where the input is prepared meanwhile, the step waits less for it, the longer it takes itself.
    """
    if profile.data_overlaps:
        return max(profile.step_seconds, profile.step_seconds - profile.data_seconds + exposed)
    return profile.step_seconds + exposed


def _added(exchanges: Sequence[Exchange]) -> dict[str, float]:
    parts: dict[str, float] = {}
    for one in exchanges:
        for name, seconds in one.parts.items():
            parts[name] = parts.get(name, 0.0) + seconds
    return parts


def _bottleneck(profile: Profile, step: float, parts: dict[str, float]) -> str:
    """The limiting factor beyond a step's computation, and that of communication if it limits.

    Communication that adds less than a twentieth to the step does not limit it.
    """
    if step - profile.step_seconds > NOTICED * step and parts:
        return max(parts, key=parts.__getitem__)
    waits = profile.data_seconds > DATA_BOUND * profile.step_seconds
    return INPUT if waits else COMPUTATION
