"""One training step with its communication: the overlap with the backward pass, and its limit.

DDP starts a bucket's all-reduce as soon as its gradients are ready, and one after the other, so
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
    is sent, 0.5 for `compression: bf16` of fp32. `may_compress` says that they could be halved,
    `reducers_only` that nothing but rsctl's reducers can add what is sent, `is_compressed` that
    `compression` is set, `gradients_only` that what is set is refused beside local steps.

    With `local_steps` above 1, parameters travel once in so many steps, in so many `fragments`, and
    gradients do not. `parameter_part` is their size in fp32, as a part of the gradients' size.
    """

    bucket_mb: int | None = None
    sent_part: float = 1.0
    may_compress: bool = False
    reducers_only: bool = False
    is_compressed: bool = False
    gradients_only: bool = False
    local_steps: int = 1
    fragments: int = 1
    parameter_part: float = 1.0


class StepPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """One step by one topology, in seconds; with local steps the average of a round.

    `exchange_seconds` is all communication of a step, `exposed_seconds` the part that the step
    waits for. `efficiency` is the step without communication divided by the step. `worker_bytes`
    and `reducer_bytes` are of all buckets together. `parts` are the parts of the exchanges, added
    up.
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

    `delay_of` is the part of a bucket's time that the next bucket does not wait for.
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
    sent = settings.sent_part if is_reduced or not settings.reducers_only else 1.0
    buckets = regroup(profile.buckets, cap, sent)
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
    rounds = settings.local_steps
    if rounds > 1:
        exposed = _exposed_of_round(profile, settings, total) / rounds
    step = step_seconds(profile, exposed)
    parts = {name: seconds / rounds for name, seconds in _added(each).items()}
    return StepPrediction(
        topology=each[0].topology if each else "none",
        step_seconds=step,
        exchange_seconds=total / rounds,
        exposed_seconds=exposed,
        efficiency=profile.step_seconds / step,
        bottleneck=_bottleneck(profile, step, parts),
        worker_bytes=sum(one.worker_bytes for one in each) / rounds,
        reducer_bytes=sum(one.reducer_bytes for one in each) / rounds,
        parts=parts,
    )


def _exposed_of_round(profile: Profile, settings: ExchangeSettings, total: float) -> float:
    """The time of a round in which a worker waits for the exchange of its parameters.

    Several fragments travel while the worker takes the steps until the next one.
    """
    if settings.fragments == 1:
        return total
    computing = profile.step_seconds * settings.local_steps / settings.fragments
    return settings.fragments * max(0.0, total / settings.fragments - computing)


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
    """The limiting factor beyond a step's computation; if it is communication, also its own limit.

    Communication that adds less than a twentieth to the step does not limit it.
    """
    if step - profile.step_seconds > NOTICED * step and parts:
        return max(parts, key=parts.__getitem__)
    waits = profile.data_seconds > DATA_BOUND * profile.step_seconds
    return INPUT if waits else COMPUTATION
