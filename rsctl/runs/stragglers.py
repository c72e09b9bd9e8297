"""The rank that the others wait for in each step, by what DDP measures on every rank. Pure.

All ranks end a step together. So the slowest rank is the one that waits least for the gradients of
the others, and clocks of different nodes need not agree: a rank's wait less that of the slowest is
what the slowest costs it. What the slowest itself waits is the network's.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import comb
from typing import NamedTuple, Optional

import msgspec

from rsctl.findings import Finding, warning
from rsctl.runs.stream.events import MetricEvent, seconds_between

RANK = "node.rank"
"""The prefix of the metrics that nodes report of their ranks."""
CODE = "straggler"

_NAME = re.compile(r"node\.rank(\d{1,5})\.(step_ms|wait_ms|data_ms|buckets)")
_TIMES = frozenset(("step_ms", "wait_ms"))
"""Values in each report of a rank, the others before these."""
STEP_GLOBS = tuple(f"{RANK}*.{key}" for key in sorted(_TIMES))
"""Globs that match the names of these metrics of all ranks."""

_LEAST_PART = 0.05
"""The least part by which a straggler is slower than the median, and which it costs of a step."""
_ROUNDS = 5
_OF_ROUNDS = 4
"""The number of these rounds in which one rank must be the straggler before it is reported."""
_LEAST_SECONDS = 300.0
_KEPT = 100
_LOOKED_AT = 60
_MOST_CHANCE = 0.0001
"""The most probability that a rank is the slowest so often although all ranks are alike."""


class Straggler(msgspec.Struct, kw_only=True, frozen=True):
    """The slowest rank. Times in milliseconds a step, `slower` and `cost` as parts of 1.

    `slower` compares its own time, without the wait for gradients, with the median of all ranks.
    `cost_ms` is what the median of the others waits for it, `network_ms` what all wait for the
    network, `data_ms` its wait for input data, None if unknown, and `more_data_ms` that beyond the
    median rank's.
    """

    rank: int
    replica: str
    slower: float
    cost_ms: float
    step_ms: float
    compute_ms: float
    network_ms: float
    data_ms: Optional[float] = None
    more_data_ms: float = 0.0

    @property
    def is_one(self) -> bool:
        """Whether it is slow enough to matter."""
        cost = self.cost_ms / self.step_ms if self.step_ms else 0.0
        return self.slower >= _LEAST_PART and cost >= _LEAST_PART

    def describe(self) -> str:
        """One sentence without its end."""
        text = (
            f"rank {self.rank} ({self.replica}) is {self.slower:.0%} slower than the median: the "
            f"others wait {self.cost_ms:.3g} ms of each step of {self.step_ms:.3g} ms for it"
        )
        if self.more_data_ms < self.cost_ms / 2:
            return text
        return f"{text}, and it waits {self.data_ms:.3g} ms for input data"


class RankTimes(NamedTuple):
    """Milliseconds of a rank's step, of its wait for gradients and of its wait for input data, None
    if it uses no DataLoader; `buckets` is the number of its gradient buckets, 0 if unknown;
    `replica` is the rank's node.
    """

    replica: str
    step: float
    wait: float
    data: float | None = None
    buckets: int = 0

    @property
    def own(self) -> float:
        """The step without the wait for gradients."""
        return max(0.0, self.step - self.wait)

    @property
    def compute(self) -> float:
        """The step without both waits."""
        return max(0.0, self.own - (self.data or 0.0))


Latest = Mapping[str, Mapping[str, float]]
"""By replica, the last values of metrics, whose names may lack the prefix `node.rank`."""


def rank_times(latest: Latest) -> dict[int, RankTimes]:
    """The times of each rank by the last values of all; ranks with one of the two are left out."""
    found: dict[int, _Values] = {}
    for replica, values in latest.items():
        for name, value in values.items():
            if parts := _parse(name if name.startswith(RANK) else RANK + name):
                found.setdefault(parts[0], (replica, {}))[1][parts[1]] = value
    return _times(found)


_Values = tuple[str, dict[str, float]]
"""The replica of a rank, and its last values."""


@lru_cache(maxsize=65536)
def _parse(name: str) -> tuple[int, str] | None:
    """The rank and the last part of the name of a metric that a node reports of a rank."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def _times(found: Mapping[int, _Values]) -> dict[int, RankTimes]:
    return {
        rank: RankTimes(
            replica.partition("/")[0],
            of["step_ms"],
            of["wait_ms"],
            of.get("data_ms"),
            int(of.get("buckets", 0)),
        )
        for rank, (replica, of) in sorted(found.items())
        if of.keys() >= _TIMES
    }


def slowest_of(times: Mapping[int, RankTimes]) -> Straggler | None:
    """The slowest of these ranks; None with fewer than two."""
    if len(times) < 2:
        return None
    from statistics import median  # supervisors of other jobs do without

    rank = min(times, key=lambda each: (times[each].wait, each))
    own = times[rank]
    others = [of.wait for other, of in times.items() if other != rank]
    usual = median(of.own for of in times.values())
    return Straggler(
        rank=rank,
        replica=own.replica,
        slower=own.own / usual - 1 if usual else 0.0,
        cost_ms=median(others) - own.wait,
        step_ms=own.step,
        compute_ms=own.compute,
        network_ms=own.wait,
        data_ms=own.data,
        more_data_ms=max(0.0, (own.data or 0.0) - median(of.data or 0.0 for of in times.values())),
    )


class _Rounds:
    """Finds the slowest rank each time when all ranks have reported again.

    A round has at least the ranks that `known` metrics are of.
    """

    def __init__(self, known: Iterable[MetricEvent] = ()) -> None:
        self._values: dict[int, _Values] = {}
        parsed = (_parse(metric.name) for metric in known)
        self._known = {parts for parts in parsed if parts and parts[1] in _TIMES}
        self._fresh: set[tuple[int, str]] = set()
        self._time = ""

    def read(self, metrics: Iterable[MetricEvent]) -> Iterator[tuple[str, Straggler]]:
        """Take values; the time of each round, and its slowest rank."""
        for time, times in self.times(metrics):
            if slowest := slowest_of(times):
                yield time, slowest

    def times(self, metrics: Iterable[MetricEvent]) -> Iterator[tuple[str, dict[int, RankTimes]]]:
        """Take values; the time of each round, and the times of its ranks.

        It is the latest of the times so far: the clock of one node may differ from the others'.
        """
        for metric in metrics:
            parts = _parse(metric.name)
            if parts is None:
                continue
            rank, key = parts
            self._time = max(self._time, metric.time)
            values = self._values.get(rank)
            if values is None or values[0] != metric.replica:
                values = self._values[rank] = (metric.replica, {})
            values[1][key] = metric.value
            if key not in _TIMES:
                continue
            self._fresh.add(parts)
            self._known.add(parts)
            if len(self._fresh) == len(self._known) >= 4:
                self._fresh = set()
                yield self._time, _times(self._values)


def waits_of(metrics: Iterable[MetricEvent]) -> Iterator[tuple[str, float]]:
    """The time of each report, and the part of a step that the ranks have waited for a straggler:
    0 where no rank is one.
    """
    for time, slowest in _Rounds().read(metrics):
        yield time, min(1.0, slowest.cost_ms / slowest.step_ms) if slowest.is_one else 0.0


def steady_straggler(newest_first: Iterable[MetricEvent]) -> Straggler | None:
    """The rank that was the slowest more often than by chance in the last rounds, with the median
    times of these rounds; None if there is no such rank.

    Ranks whose steps only scatter take turns, and one of them is the slowest in each step. Values
    before these rounds are not read.
    """
    metrics = _last_reports(newest_first)
    rounds = deque(_Rounds(metrics).times(metrics), maxlen=_LOOKED_AT)
    slowest = [found for _, times in rounds if (found := slowest_of(times))]
    if not slowest:
        return None
    rank, count = Counter(each.rank for each in slowest).most_common(1)[0]
    ranks = len(rounds[-1][1])
    if ranks * _at_least(count, len(slowest), 1 / ranks) > _MOST_CHANCE:
        return None
    found = slowest_of(_medians([times for _, times in rounds]))
    return found if found is not None and found.rank == rank and found.is_one else None


def _last_reports(newest_first: Iterable[MetricEvent]) -> list[MetricEvent]:
    """The values of the last rounds, oldest first, and a part of the round before them."""
    metrics, counts = [], Counter[str]()
    for metric in newest_first:
        metrics.append(metric)
        counts[metric.name] += 1
        if counts[metric.name] > _LOOKED_AT + 1:
            break
    return metrics[::-1]


def _at_least(count: int, of: int, chance: float) -> float:
    """The probability of so many successes or more in `of` trials."""
    return sum(comb(of, n) * chance**n * (1 - chance) ** (of - n) for n in range(count, of + 1))


def _medians(rounds: Sequence[Mapping[int, RankTimes]]) -> dict[int, RankTimes]:
    """The median times of each rank of the last round."""
    from statistics import median

    found = {}
    for rank, last in rounds[-1].items():
        own = [times[rank] for times in rounds if rank in times]
        data = [each.data for each in own if each.data is not None]
        found[rank] = last._replace(
            step=median(each.step for each in own),
            wait=median(each.wait for each in own),
            data=median(data) if data else None,
        )
    return found


class StragglerMonitor:
    """Reports a rank that has held up the others for five minutes, once."""

    def __init__(self) -> None:
        self._reader = _Rounds()
        self._rounds: deque[tuple[str, int | None]] = deque(maxlen=_KEPT)
        self._reported: set[int] = set()

    def read(self, metrics: Iterable[MetricEvent]) -> list[tuple[Finding, str]]:
        """Take values; findings, each with the replica that it is about."""
        reports = [self._round(time, slowest) for time, slowest in self._reader.read(metrics)]
        return [report for report in reports if report]

    def _round(self, time: str, slowest: Straggler) -> tuple[Finding, str] | None:
        is_one = slowest.is_one
        self._rounds.append((time, slowest.rank if is_one else None))
        if not is_one or slowest.rank in self._reported:
            return None
        since = self._since(slowest.rank)
        if since is None or seconds_between(since, time) < _LEAST_SECONDS:
            return None
        self._reported.add(slowest.rank)
        message = f"{slowest.describe()}, for more than 5 minutes"
        remedy = "compare its node with the others: rsctl metrics, and `rsctl debug` for its stack"
        return warning(CODE, message, remedy), slowest.replica

    def _since(self, rank: int) -> str | None:
        """Since when a rank is the straggler in four of each five rounds."""
        since, recent = None, list(self._rounds)
        for index in range(len(recent), _ROUNDS - 1, -1):
            window = recent[index - _ROUNDS : index]
            if sum(each == rank for _, each in window) < _OF_ROUNDS:
                break
            since = window[0][0]
        return since
