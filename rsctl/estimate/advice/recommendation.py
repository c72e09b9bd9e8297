"""Advice on a job: its options ranked, one of them recommended, in one sentence and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.changed_results import ChangedResult, changed_results
from rsctl.estimate.advice.hints import Hint, hints_of
from rsctl.estimate.advice.options import Option, Study, fastest, shown_options
from rsctl.estimate.advice.pool_size import break_even_reducers
from rsctl.estimate.advice.profile import Profile
from rsctl.estimate.advice.shared_cores import with_shared_cores
from rsctl.estimate.advice.situation import Situation

_AS_GOOD = 1.02
_LARGEST_ERROR = 0.9


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The recommendation. `reducer_machine` is None without reducers and on this machine.

    `low` and `high` are the ends of the step's time by the model's error. `gain` is the part of the
    step's time that is saved against no reducers, `saving` the part of the price, None if it is
    unknown. `is_certain` is false where the gain is less than the error.
    """

    topology: str
    reducers: int
    reducer_machine: str | None
    step_seconds: float
    low: float
    high: float
    efficiency: float
    bottleneck: str
    dollars_per_1000_steps: float | None
    run_dollars: float | None
    samples_per_second: float | None
    gain: float
    saving: float | None
    is_certain: bool
    sentence: str


class PoolSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of reducers on `machine` that mean something; None if there is no such number.

    From `saturating` on the workers are the bottleneck; `cheapest` has the least price for a step,
    `fastest` the least time; 0 is without any. `break_even` is the condition for a pool alone to
    beat a ring; `documented` is by the platform's rule.
    """

    machine: str | None = None
    saturating: int | None = None
    cheapest: int | None = None
    fastest: int | None = None
    break_even: int | None = None
    documented: int | None = None


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Advice on one job. `options` are those worth a look, `every_option` all that are offered.

    `changed_results` are settings that send less and change results, none of them recommended.

    `fastest` is set if the recommended option is not the fastest to 1 %.

    `default_machine` is the machine for reducers unless the job file names another.
    """

    target: str
    workers: int
    recommendation: Recommendation
    options: list[Option]
    assumptions: list[str]
    hints: list[Hint]
    pool_sizes: PoolSizes
    profile: Profile
    calibration: Calibration
    every_option: list[Option]
    fastest: Option | None = None
    default_machine: str | None = None
    changed_results: list[ChangedResult] = []


def make_advice(
    situation: Situation,
    profile: Profile,
    calibration: Calibration,
    steps: int | None = None,
    batch: int | None = None,
    assumptions: Sequence[str] = (),
) -> Advice:
    """Compare all options. `steps` is the number of steps in the run, `batch` the samples per rank
    and step.
    """
    profile = with_shared_cores(profile, situation.cluster)
    study = Study(situation, profile, calibration)
    options = [*study.without_reducers(), *study.with_reducers(), *study.for_comparison()]
    offered = [option for option in options if option.is_offered]
    base = next(option for option in offered if not option.reducers)
    best, quickest = recommended(offered), fastest(offered)
    return Advice(
        target=situation.target,
        workers=situation.cluster.workers,
        recommendation=_recommendation(best, base, calibration, steps, batch),
        options=shown_options(options, situation, best),
        assumptions=[*profile.assumed, *assumptions, _accuracy(calibration)],
        hints=hints_of(study, best, offered),
        pool_sizes=_pool_sizes(offered, situation, calibration),
        profile=profile,
        calibration=calibration,
        every_option=offered,
        fastest=quickest if quickest.step_seconds < best.step_seconds / 1.01 else None,
        changed_results=changed_results(study, best),
        default_machine=next((m.name for m in situation.reducer_machines), None),
    )


def recommended(offered: Sequence[Option]) -> Option:
    """The cheapest step, or the fastest where prices are unknown.

    Of options that are as good to 2 % it is the one with the fewest reducers, or with none: each
    worker has a connection to every one of them.
    """
    is_priced = any(option.dollars_per_1000_steps is not None for option in offered)

    def cost(option: Option) -> float:
        price = option.dollars_per_1000_steps
        return option.step_seconds if not is_priced else float("inf") if price is None else price

    least = min(map(cost, offered))
    near = [option for option in offered if cost(option) <= least * _AS_GOOD]
    return min(near, key=lambda option: (option.reducers, cost(option)))


def _recommendation(
    best: Option, base: Option, calibration: Calibration, steps: int | None, batch: int | None
) -> Recommendation:
    gain = 1 - best.step_seconds / base.step_seconds
    price, other = best.dollars_per_1000_steps, base.dollars_per_1000_steps
    error = calibration.error if best.exchange_seconds else 0.0  # the computation is given
    low, high = interval(best.step_seconds, error)
    saving = 1 - price / other if price is not None and other else None
    made = Recommendation(
        topology=best.topology,
        reducers=best.reducers,
        reducer_machine=best.reducer_machine,
        step_seconds=best.step_seconds,
        low=low,
        high=high,
        efficiency=best.efficiency,
        bottleneck=best.bottleneck,
        dollars_per_1000_steps=price,
        run_dollars=price * steps / 1000 if price is not None and steps else None,
        samples_per_second=best.throughput * batch if batch else None,
        gain=gain,
        saving=saving,
        is_certain=not best.reducers or gain > calibration.error,
        sentence="",
    )
    return replace(made, sentence=_sentence(made, best, base))


def interval(predicted: float, error: float) -> tuple[float, float]:
    """The measured times for which a prediction is off by `error`, a part of the measured time.

    The error is |predicted / measured - 1|, so that its ends are predicted / (1 ± error).
    """
    return predicted / (1 + error), predicted / (1 - min(error, _LARGEST_ERROR))


def _sentence(made: Recommendation, best: Option, base: Option) -> str:
    """One sentence: what to take, what it gives, and against what."""
    step = f"a step of {format_seconds(made.step_seconds)}"
    if made.low < made.high:
        step += f" ({format_seconds(made.low)} to {format_seconds(made.high)})"
    if not best.reducers:
        how = "" if best.topology == "none" else f" ({best.topology})"
        return f"Use no reducers{how}: {step}, limited by {made.bottleneck}."
    where = f" on {made.reducer_machine}" if made.reducer_machine else ""
    noun = "reducer" if made.reducers == 1 else "reducers"
    text = (
        f"Use {made.reducers} {noun}{where} ({made.topology}): {step}, {made.gain:.0%} less than "
        f"the {format_seconds(base.step_seconds)} without reducers"
    )
    if made.saving is not None:
        text += f", at a {made.saving:.0%} lower cost"
    return text + ("." if made.is_certain else "; this is within the error of the model.")


def _accuracy(calibration: Calibration) -> str:
    fitted = len(calibration.fitted_from)
    if calibration.median_error is None and fitted:
        count = "1 run" if fitted == 1 else f"{fitted} runs"
        return (
            f"fitted to {count}, which is too few to measure the error: step times may differ by "
            f"{calibration.error:.0%} or more"
        )
    if calibration.median_error is None:
        return f"not calibrated here: step times may differ by {calibration.error:.0%} or more"
    runs = len(calibration.fitted_from)
    if not runs:
        error = f"{calibration.median_error:.1%}"
        return f"not calibrated here: earlier predictions had a median error of {error}"
    return f"calibrated on {runs} runs: median error of step times {calibration.median_error:.1%}"


def _pool_sizes(
    offered: Sequence[Option], situation: Situation, calibration: Calibration
) -> PoolSizes:
    workers = situation.cluster.workers
    with_reducers = [option for option in offered if option.reducers]
    if not with_reducers or not situation.cluster.worker_bits:
        return PoolSizes(documented=situation.rule)
    machine = situation.reducer_machines[0]
    own = [option for option in with_reducers if option.reducer_machine == machine.name]
    base = [option for option in offered if not option.reducers]
    priced = [option for option in [*base, *own] if option.dollars_per_1000_steps is not None]
    bits = situation.cluster.worker_bits
    ratio = machine.bits / bits if machine.bits and bits else 1.0
    return PoolSizes(
        machine=machine.name,
        saturating=situation.saturating(machine, calibration),
        cheapest=min(priced, key=lambda o: o.rank).reducers if priced else None,
        fastest=fastest(own).reducers,
        break_even=break_even_reducers(workers, ratio) if workers > 2 else None,
        documented=situation.rule,
    )


def format_seconds(seconds: float) -> str:
    """`412 ms`, `1.85 s`."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"
