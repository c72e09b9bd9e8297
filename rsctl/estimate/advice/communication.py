"""The communication of a step alone: of a sharded model, or if the computation is unknown. Pure.

FSDP and ZeRO have no all-reduce. With stage 3, which is the default of FSDP, each step gathers the
parameters for the forward pass, gathers them again for the backward pass, and reduces and scatters
the gradients; stages 1 and 2 gather once (Rajbhandari et al., "ZeRO", SC 2020, section 7). Each of
these sends (N-1)/N of the model: a half of a ring's all-reduce. Layers are prefetched while others
compute, so that a step takes between the longer of computation and communication, and their sum.
"""

from __future__ import annotations

import msgspec

from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.collectives import exchange
from rsctl.estimate.advice.options import Option, Study
from rsctl.estimate.advice.profile import even_profile
from rsctl.estimate.advice.recommendation import format_seconds as _time
from rsctl.estimate.advice.situation import Situation

_SHORT = 1e-9  # of a step without computation, in which nothing hides
_COLLECTIVES = ("all-gather, forward", "all-gather, backward", "reduce-scatter")


class Collective(msgspec.Struct, frozen=True, kw_only=True):
    """One way, or one part, of a step's communication; bytes are those that each worker sends."""

    name: str
    reducers: int = 0
    reducer_machine: str | None = None
    seconds: float
    worker_bytes: float
    bottleneck: str


class Communication(msgspec.Struct, frozen=True, kw_only=True):
    """The communication of a step of a job.

    With `sharded`, the name of the library, `collectives` are the parts of one step; otherwise they
    are alternatives. `low` and `high` are the ends of the step's time, None if its computation is
    unknown. From `saturating` reducers on the workers are the bottleneck.
    """

    target: str
    workers: int
    gradient_bytes: int
    collectives: list[Collective]
    sentence: str
    sharded: str | None = None
    low: float | None = None
    high: float | None = None
    saturating: int | None = None
    documented: int | None = None
    assumptions: list[str] = []


def sharded_communication(
    situation: Situation, gradient_bytes: int, step_seconds: float | None, calibration: Calibration
) -> Communication:
    """The collectives of FSDP or ZeRO of stage 3 in one step."""
    ring = exchange("ring", situation.cluster, gradient_bytes, calibration)
    parts = [
        Collective(
            name=name,
            seconds=ring.seconds / 2,
            worker_bytes=ring.worker_bytes / 2,
            bottleneck=ring.bottleneck,
        )
        for name in _COLLECTIVES
    ]
    total = sum(part.seconds for part in parts)
    sentence = f"Use no reducers: {situation.refused}. Communication of a step: {_time(total)}"
    low = high = None
    if step_seconds is not None:
        low, high = max(step_seconds, total), step_seconds + total
        sentence += f"; a step takes {_time(low)} if all of it is prefetched, {_time(high)} if none"
    assumed = ["parameters are gathered twice in a step: FSDP's default, or stage 3 of ZeRO"]
    if situation.sharded == "deepspeed":
        assumed.append(f"stages 1 and 2 of ZeRO gather once: {_time(total * 2 / 3)}")
    return Communication(
        target=situation.target,
        workers=situation.cluster.workers,
        gradient_bytes=gradient_bytes,
        collectives=parts,
        sentence=f"{sentence}.",
        sharded=situation.sharded,
        low=low,
        high=high,
        assumptions=assumed,
    )


def exchange_alone(
    situation: Situation, gradient_bytes: int, calibration: Calibration
) -> Communication:
    """The all-reduce of a step without and with reducers, where the computation is unknown."""
    study = Study(situation, even_profile(gradient_bytes, _SHORT), calibration)
    (base,), pools = study.without_reducers(), study.with_reducers()
    saturating, shown = None, []
    if pools:
        machine = situation.reducer_machines[0]
        saturating = situation.saturating(machine, calibration)
        wanted = {1, situation.count, situation.rule, saturating, (saturating + 1) // 2}
        own = (option for option in pools if option.reducer_machine == machine.name)
        shown = [option for option in own if option.reducers in wanted]
    return Communication(
        target=situation.target,
        workers=situation.cluster.workers,
        gradient_bytes=gradient_bytes,
        collectives=[_collective(option) for option in (base, *shown)],
        sentence=_sentence(base, shown, saturating),
        saturating=saturating,
        documented=situation.rule,
        assumptions=["nothing of the communication overlaps with computation, which is unknown"],
    )


def _sentence(base: Option, pools: list[Option], saturating: int | None) -> str:
    text = f"The exchange of a step takes {_time(base.exchange_seconds)} without reducers"
    if pools:
        best = min(pools, key=lambda option: option.exchange_seconds)
        noun = "reducer" if best.reducers == 1 else "reducers"
        text += (
            f" and {_time(best.exchange_seconds)} with {best.reducers} {noun}; {saturating} make "
            "the workers the bottleneck"
        )
    return f"{text}. Give model.step_seconds to learn whether reducers pay off."


def _collective(option: Option) -> Collective:
    return Collective(
        name=option.topology,
        reducers=option.reducers,
        reducer_machine=option.reducer_machine,
        seconds=option.exchange_seconds,
        worker_bytes=option.worker_bytes,
        bottleneck=option.bottleneck,
    )
