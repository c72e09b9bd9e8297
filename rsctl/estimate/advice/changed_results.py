"""Settings that send less and change what a training computes, with time and price. Pure.

They are never part of a recommendation: a shorter step is worth nothing if
the loss needs more steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from rsctl.estimate.advice.options import Option, Study
from rsctl.estimate.advice.step import ExchangeSettings

_LEAST_GAIN = 0.01
_STEPS = 32
EIGHT_BIT_PART = 260 / 256 / 4
"""Bytes of a number of 8 bits with its part of a scale, as a part of fp32's."""

_BF16_LOSS = (
    "each average has a relative error of about 0.2 % for any number of workers, because reducers "
    "add in fp32; a ring also rounds at each hop"
)
_INT8_LOSS = (
    "unknown for this model; error feedback adds what rounding has left out to the next gradient"
)
_LOCAL_LOSS = (
    "unknown for this model: 8 workers with 500 local steps matched synchronous training of "
    "language models on C4, other models and short runs can be worse"
)


class ChangedResult(msgspec.Struct, frozen=True, kw_only=True):
    """One setting that changes results, with the topology and reducers of the recommendation.

    `setting` is the change as KEY=VALUE. `worker_bytes` is what a worker sends in a step, on
    average. `loss` is what is known of its effect, `source` who says so.
    """

    setting: str
    worker_bytes: float
    step_seconds: float
    dollars_per_1000_steps: float | None
    loss: str
    source: str


def changed_results(study: Study, best: Option) -> list[ChangedResult]:
    """The settings that shorten the recommended option's step by 1 % or more."""
    if best.topology == "none":
        return []
    settings, cluster = study.situation.settings, study.situation.cluster
    found = []
    for setting, changed, loss, source in _candidates(
        settings, best.reducers > 0 and cluster.shares_work
    ):
        option = study.option_like(best, changed)
        if option.step_seconds > (1 - _LEAST_GAIN) * best.step_seconds:
            continue
        found.append(
            ChangedResult(
                setting=setting,
                worker_bytes=option.worker_bytes,
                step_seconds=option.step_seconds,
                dollars_per_1000_steps=option.dollars_per_1000_steps,
                loss=loss,
                source=source,
            )
        )
    return found


def _candidates(
    settings: ExchangeSettings,
    can_add_8_bits: bool,
) -> Iterator[tuple[str, ExchangeSettings, str, str]]:
    if settings.may_compress:
        half = replace(settings, sent_part=settings.sent_part / 2)
        yield "comm.compression=bf16", half, _BF16_LOSS, "measured by rsctl with random gradients"
        if can_add_8_bits and settings.local_steps == 1:
            part = settings.parameter_part * EIGHT_BIT_PART
            eighth = replace(settings, sent_part=part, reducers_only=True)
            source = "error feedback: Karimireddy et al., arXiv 1901.09847"
            yield "comm.compression=int8", eighth, _INT8_LOSS, source
    if settings.local_steps == 1 and not settings.gradients_only:
        # The change of a parameter travels in fp32, unless it is compressed.
        part = settings.sent_part if settings.is_compressed else settings.parameter_part
        local = replace(settings, local_steps=_STEPS, sent_part=part)
        yield f"comm.local_steps={_STEPS}", local, _LOCAL_LOSS, "DiLoCo, arXiv 2311.08105"
