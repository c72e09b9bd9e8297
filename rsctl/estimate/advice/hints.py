"""Why reducers do not help a job, and which change would help, with numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from rsctl.estimate.advice.exchange import GB
from rsctl.estimate.advice.inputs import GROUP_BYTES
from rsctl.estimate.advice.options import Option, Study
from rsctl.estimate.advice.profile import GradientBucket, Profile
from rsctl.estimate.advice.step import DATA_BOUND, INPUT, NOTICED, ExchangeSettings

FAST_NETWORK_BITS = 400e9
_WORTHWHILE = 0.03
_LARGE_BUCKET_MB = 128
_EIGHT_BITS = (
    "gradients sent in 8 bits, which changes the results (compare the loss before you use it)"
)


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One remark: `why` reducers gain nothing or little, or `instead` with the step it would give.

    `step_seconds` is the step of the recommended option with the change; None if it is unknown.
    `setting` is the change as KEY=VALUE, if it is a change of the job file.
    """

    kind: str
    text: str
    step_seconds: float | None = None
    setting: str | None = None


def hints_of(study: Study, best: Option, offered: Sequence[Option]) -> list[Hint]:
    """All remarks on the recommended option, and on why the other offered options are worse."""
    base = next(option for option in offered if not option.reducers)
    found = list(_reasons(study, best, base))
    if not found and not best.reducers:
        found += _price(base, offered)
    if study.profile.data_seconds > DATA_BOUND * study.profile.step_seconds:
        found.append(_input(study.profile))
    found += sorted(_changes(study, best), key=lambda hint: hint.step_seconds or 0.0)
    return found


def _reasons(study: Study, best: Option, base: Option) -> Iterator[Hint]:
    cluster = study.situation.cluster
    if cluster.workers == 1:
        yield _why("there is only one node, which exchanges nothing over a network")
        return
    if study.situation.refused:
        yield _why(study.situation.refused)
    if cluster.workers == 2 and not best.reducers:
        yield _why("a ring of two nodes sends each gradient once, as with reducers: 2(N-1)/N is 1")
    if cluster.worker_bits is None:
        yield _why("no network limits this target, and reducers add a hop on the same cores")
    elif cluster.worker_bits >= FAST_NETWORK_BITS:
        gbps = cluster.worker_bits / 1e9
        cores = cluster.worker_bits / 8 / GB * study.calibration.reducer_cpu_seconds_per_gb
        yield _why(
            f"nodes have {gbps:g} Gbit/s: reducers use TCP, and one would need {cores:.0f} cores "
            "to receive that rate"
        )
    if best.reducers:
        return
    added = base.step_seconds - study.profile.step_seconds
    if added < NOTICED * base.step_seconds:
        part = max(0.0, added) / base.step_seconds
        yield _why(
            "communication overlaps with computation: even without any communication, a "
            f"step would be only {part:.1%} faster"
        )
    elif base.bottleneck == "latency":
        yield _why("the model is small: latency limits its exchange, not bandwidth")


def _price(base: Option, offered: Sequence[Option]) -> Iterator[Hint]:
    """That reducers would be faster and do not pay."""
    pools = [option for option in offered if option.reducers]
    near = min(pools, key=lambda option: option.rank, default=base)
    rate, other = near.dollars_per_hour, base.dollars_per_hour
    if rate is None or not other or near.step_seconds >= base.step_seconds:
        return
    noun = "reducer" if near.reducers == 1 else "reducers"
    where = f" on {near.reducer_machine}" if near.reducer_machine else ""
    gain, needed = base.step_seconds / near.step_seconds, rate / other
    yield _why(
        f"reducers do not pay off: with {near.reducers} {noun}{where} a step is {gain:.3f} times "
        f"as fast, and must be {needed:.3f} times as fast to justify their price"
    )


def _input(profile: Profile) -> Hint:
    part = profile.data_seconds / profile.step_seconds
    text = (
        f"the step spends {part:.0%} of its time waiting for input data, which no topology "
        "reduces; read shards sequentially from a local disk, with more DataLoader workers"
    )
    return Hint(kind="instead", text=text)


def _changes(study: Study, best: Option) -> Iterator[Hint]:
    """The changes that would shorten a sample's share of the step by 3 % or more, other things
    being equal.
    """
    if best.bottleneck == INPUT:
        return
    for text, setting, changed, profile, samples in _candidates(study, best):
        option = study._replace(profile=profile).option_like(best, changed)
        step = option.step_seconds / samples
        gain = 1 - step / best.step_seconds
        if gain >= _WORTHWHILE:
            remark = f"{text}: {gain:.0%} less time for the same samples"
            yield Hint(kind="instead", text=remark, step_seconds=step, setting=setting)


def _candidates(
    study: Study, best: Option
) -> Iterator[tuple[str, str | None, ExchangeSettings, Profile, int]]:
    """A change, its setting, and how many steps the changed profile is."""
    settings, profile = study.situation.settings, study.profile
    if settings.local_steps > 1:
        return  # buckets and accumulated gradients do not travel
    if settings.may_compress:
        half = replace(settings, sent_part=settings.sent_part / 2)
        yield "gradients sent in 16 bits", "comm.compression=bf16", half, profile, 1
        if best.reducers and study.situation.cluster.shares_work:
            part = settings.sent_part * GROUP_BYTES / 4
            eighth = replace(settings, sent_part=part, reducers_only=True)
            yield _EIGHT_BITS, "comm.compression=int8", eighth, profile, 1
    large = replace(settings, bucket_mb=_LARGE_BUCKET_MB)
    setting = f"comm.bucket_mb={_LARGE_BUCKET_MB}"
    yield f"buckets of {_LARGE_BUCKET_MB} MB", setting, large, profile, 1
    text = "gradients of two steps accumulated (no_sync), or twice the batch"
    yield text, None, settings, _doubled(profile), 2


def _doubled(profile: Profile) -> Profile:
    """Two steps of computation before one exchange."""
    once = profile.step_seconds
    return replace(
        profile,
        step_seconds=2 * once,
        data_seconds=2 * profile.data_seconds,
        buckets=tuple(GradientBucket(b.bytes, b.ready_seconds + once) for b in profile.buckets),
    )


def _why(text: str) -> Hint:
    return Hint(kind="why", text=text)
