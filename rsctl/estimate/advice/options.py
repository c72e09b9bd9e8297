"""The ways in which a job's gradients could travel, each with its step time and its price. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.exchange import Topology
from rsctl.estimate.advice.pool_size import sampled_counts
from rsctl.estimate.advice.profile import Profile
from rsctl.estimate.advice.situation import ReducerMachine, Situation
from rsctl.estimate.advice.step import ExchangeSettings, predict

_HOUR = 3600.0
_MOST_REDUCERS = 10_000
_AS_FAST = 1.01


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One way: `reducers` of a machine, or none. Seconds and US dollars; None is unknown.

    `throughput` is in steps of one rank a second, all ranks together. `is_offered` is false for
    options that are only for comparison: rsctl cannot have it so.
    """

    topology: Topology
    workers: int
    reducers: int
    machine: str | None
    reducer_machine: str | None
    step_seconds: float
    exchange_seconds: float
    exposed_seconds: float
    efficiency: float
    throughput: float
    bottleneck: str
    worker_bytes: float
    reducer_bytes: float
    parts: dict[str, float]
    dollars_per_hour: float | None
    dollars_per_1000_steps: float | None
    is_offered: bool = True

    @property
    def rank(self) -> tuple[float, float, int]:
        """By price where there is one, then by time, then by the number of reducers."""
        return self.dollars_per_1000_steps or 0.0, self.step_seconds, self.reducers


class Study(NamedTuple):
    """All that a prediction takes: a job's machines, its step, the constants of the model."""

    situation: Situation
    profile: Profile
    calibration: Calibration

    def without_reducers(self) -> list[Option]:
        """The exchange among the job's workers: NCCL uses the faster of ring and tree."""
        if self.situation.cluster.inside is None:
            return [self.option("ring")]
        both = [self.option("ring"), self.option("tree")]
        return [min(both, key=lambda option: option.step_seconds)]

    def with_reducers(self) -> list[Option]:
        """Pools and hybrids of all sizes up to where more reducers add nothing."""
        if self.situation.refused or self.situation.cluster.workers == 1:
            return []
        return [
            self.option("pool", machine, count)
            for machine in self.situation.reducer_machines
            for count in self._counts(machine)
        ]

    def for_comparison(self) -> list[Option]:
        """Topologies that rsctl has no way to choose, for their times."""
        cluster = self.situation.cluster
        if cluster.workers == 1:
            return []
        found = [self.option("tree")] if cluster.inside is None else []
        if cluster.ranks > 1:
            found.append(self.option("hierarchical"))
        found.append(self.option("co-located"))
        for machine in self.situation.reducer_machines[:1]:
            found.append(self.option("central", machine, 1))
        return [msgspec.structs.replace(option, is_offered=False) for option in found]

    def option(
        self, topology: Topology, machine: ReducerMachine | None = None, count: int = 0
    ) -> Option:
        """One option, with its cost."""
        profile, situation = self.profile, self.situation
        cluster = situation.with_reducers(machine, count) if machine else situation.cluster
        predicted = predict(profile, cluster, topology, self.calibration, situation.settings)
        rate = situation.dollars(machine, count)
        return Option(
            **msgspec.structs.asdict(predicted),
            workers=cluster.workers,
            reducers=count,
            machine=situation.worker_machine,
            reducer_machine=machine.name if machine else None,
            throughput=cluster.world / predicted.step_seconds,
            dollars_per_hour=rate,
            dollars_per_1000_steps=rate and rate / _HOUR * predicted.step_seconds * 1000,
        )

    def option_like(self, other: Option, settings: ExchangeSettings) -> Option:
        """The option with the topology and reducers of another one, and other settings."""
        situation = msgspec.structs.replace(self.situation, settings=settings)
        named = (m for m in situation.reducer_machines if m.name == other.reducer_machine)
        machine = next(named, None) if other.reducers else None
        return self._replace(situation=situation).option(other.topology, machine, other.reducers)

    def _counts(self, machine: ReducerMachine) -> list[int]:
        enough = min(_MOST_REDUCERS, self.situation.saturating(machine, self.calibration))
        own = [count for count in (self.situation.count, self.situation.rule) if count]
        half = [(enough + 1) // 2]
        return sampled_counts(max([enough, *own]), [enough, *half, *own])


def shown_options(
    options: Sequence[Option], situation: Situation, recommended: Option
) -> list[Option]:
    """The options worth a row each: the recommended one, the others ranked, those to compare with.

    Of the usual machine for reducers the cheapest number, the fastest, half as many, one, the job's
    own and the documented one; of another that is better the cheapest and the fastest.
    """
    offered = [option for option in options if option.is_offered]
    kept = [option for option in offered if not option.reducers]
    usual, *other = pools_by_machine(offered) or [[]]
    kept += _of_pool(usual, situation)
    for pool in other:
        kept += {option.reducers: option for option in (_cheapest(pool), fastest(pool))}.values()
    ranked = sorted((o for o in kept if o is not recommended), key=lambda o: o.rank)
    compared = [option for option in options if not option.is_offered]
    return [recommended, *ranked, *sorted(compared, key=lambda o: o.step_seconds)]


def pools_by_machine(options: Sequence[Option]) -> list[list[Option]]:
    """The options with the usual machine for reducers, and with the best of the other machines.

    The options of the other machine are left out if they are not better.
    """
    pools: dict[str | None, list[Option]] = {}
    for option in options:
        if option.reducers and option.is_offered:
            pools.setdefault(option.reducer_machine, []).append(option)
    if not pools:
        return []
    usual, *others = pools.values()
    best = min(others, key=lambda pool: _cheapest(pool).rank, default=usual)
    return [usual, best] if _cheapest(best).rank < _cheapest(usual).rank else [usual]


def fastest(options: Sequence[Option]) -> Option:
    """The cheapest option among the options that are as fast as the fastest, to 1 %; without prices
    the option with the fewest reducers.
    """
    best = min(option.step_seconds for option in options)
    near = [option for option in options if option.step_seconds <= best * _AS_FAST]
    return min(near, key=lambda option: (_price(option), option.reducers, option.step_seconds))


def _price(option: Option) -> float:
    price = option.dollars_per_1000_steps
    return inf if price is None else price


def _of_pool(options: list[Option], situation: Situation) -> Iterator[Option]:
    if not options:
        return
    fast = fastest(options).reducers
    wanted = {1, fast, (fast + 1) // 2, situation.count, situation.rule}
    wanted.add(_cheapest(options).reducers)
    yield from (option for option in options if option.reducers in wanted)


def _cheapest(options: Sequence[Option]) -> Option:
    return min(options, key=lambda option: option.rank)
