"""The parts of a run's step, and which of them moved between two measurements.

rsctl's binding to PyTorch records the steps of rank 0 (`rsctl.runs.step_times`), and DDP measures
the wait of every rank (`rsctl.runs.stragglers`). A run has the parts that one of them has recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Optional

import msgspec

from rsctl.runs.step_times import steps_of
from rsctl.runs.store import Store
from rsctl.runs.stragglers import RANK, RankTimes, rank_times, slowest_of
from rsctl.runs.stream.formatting import format_number

PARTS = {
    "step.compute": "computation",
    "step.data": "wait for input data",
    "step.exchange": "exchange of gradients",
    "step.wait": "wait for the slowest rank",
}
"""The parts of a step in seconds, which together are the step, by the name of their sample."""
BUCKETS = "step.buckets"
"""The number of gradient buckets that a step exchanges."""

_WAIT = "rank.wait"
_TIMES = {**PARTS, _WAIT: "wait for gradients"}
_TITLES = {**_TIMES, BUCKETS: "number of gradient buckets"}

NO_STEPS = (
    "the parts of a step are not recorded: DistributedDataParallel times each hundredth step, and "
    "run.env: {RSCTL_RECORD_STEPS: 1} records all"
)

_LEAST = 0.05
"""The least change that matters, as a part of the steps' time before."""

_LEAST_SHOWN, _MOST_SHOWN = 0.001, 10.0
"""The changes that are shown in percent, as fractions of the baseline."""


class Moved(msgspec.Struct, kw_only=True, frozen=True):
    """A value on both sides; None if a side does not have it.

    `rank` is the rank of a part of a step, None for the part of rank 0 or of the median rank.
    `aggregate` says how a metric's value was made of its steady part; None if it was measured once.
    """

    name: str
    baseline: Optional[float]
    candidate: Optional[float]
    unit: Optional[str] = None
    rank: Optional[int] = None
    aggregate: Optional[str] = None

    @property
    def change(self) -> float:
        """The candidate's value less the baseline's; 0 if one is unknown."""
        if self.baseline is None or self.candidate is None:
            return 0.0
        return self.candidate - self.baseline

    def __str__(self) -> str:
        title = _TITLES.get(self.name, self.name)
        title += "" if self.rank is None else f" of rank {self.rank}"
        title += f" ({self.aggregate})" if self.aggregate else ""
        text = f"{title}: {self._text(self.baseline)} -> {self._text(self.candidate)}"
        if not self.change:
            return text
        change = f"{'+' if self.change > 0 else '-'}{self._text(abs(self.change))}"
        relative = self._relative()
        return f"{text} ({change}{f', {relative}' if relative else ''})"

    def _relative(self) -> str:
        """The change in percent, or as a factor where that is easier to read."""
        if not self.baseline or self.candidate is None:
            return ""
        relative = self.change / abs(self.baseline)
        if abs(relative) < _LEAST_SHOWN:
            return f"under {_LEAST_SHOWN:.1%}"
        if abs(relative) < 0.01:
            return f"{relative:+.1%}"
        if abs(relative) < _MOST_SHOWN:
            return f"{relative:+.0%}"
        factor = self.candidate / self.baseline
        return f"{format_number(factor)} x" if factor > 0 else ""

    def _text(self, value: float | None) -> str:
        if value is None:
            return "unknown"
        if self.name in _TIMES:
            return f"{1000 * value:.3g} ms"
        return f"{format_number(value)}{f' {self.unit}' if self.unit else ''}"


def step_values(store: Store, run: str) -> dict[str, float]:
    """The parts of a run's step in seconds, and the number of its buckets. Raises StoreError.

    They are rank 0's where its steps were recorded, otherwise the median rank's.
    """
    record, ranks = steps_of(store, run), rank_times(store.latest(run, RANK))
    slowest = slowest_of(ranks)
    if record is None:
        if not ranks:
            return {}
        found = {"step.compute": median(of.compute for of in ranks.values()) / 1000}
        data = [of.data for of in ranks.values() if of.data is not None]
        if len(data) == len(ranks):
            found["step.data"] = median(data) / 1000
        if buckets := max(of.buckets for of in ranks.values()):
            found[BUCKETS] = buckets
        wait = median(of.wait for of in ranks.values()) / 1000
        own = 0.0 if slowest is None else max(0.0, wait - slowest.network_ms / 1000)
    else:
        found = {"step.compute": max(0.0, record.compute - record.data), "step.data": record.data}
        wait = max(0.0, record.seconds - record.compute)
        own = _wait_for_slowest(ranks, slowest.network_ms) if slowest else 0.0
        if record.buckets:
            found[BUCKETS] = len(record.buckets)
    own = min(own, wait)
    return {**found, "step.exchange": wait - own, **({} if slowest is None else {"step.wait": own})}


def _wait_for_slowest(ranks: Mapping[int, RankTimes], network_ms: float) -> float:
    return max(0.0, ranks[0].wait - network_ms) / 1000 if 0 in ranks else 0.0


def moved_values(before: Mapping[str, float], after: Mapping[str, float]) -> list[Moved]:
    """The parts of a step on both sides, the one that moved most first, then the buckets."""
    names = [name for name in (*PARTS, BUCKETS) if name in before or name in after]
    found = [
        Moved(
            name=name,
            baseline=before.get(name),
            candidate=after.get(name),
            unit="s" if name in PARTS else None,
        )
        for name in names
    ]
    return sorted(found, key=lambda one: (one.name == BUCKETS, -abs(one.change)))


def moved_ranks(before: Mapping[int, RankTimes], after: Mapping[int, RankTimes]) -> list[Moved]:
    """Computation and waits of each rank on both sides, the one that moved most first. The wait for
    gradients is that for the slowest rank and for the network.
    """
    found = []
    for rank in sorted({*before, *after}):
        sides = before.get(rank), after.get(rank)
        for name, part in (
            ("step.compute", "compute"),
            ("step.data", "data"),
            (_WAIT, "wait"),
        ):
            known = [None if of is None else getattr(of, part) for of in sides]
            values = [None if each is None else each / 1000 for each in known]
            if part == "data" and None in values:
                continue
            found.append(
                Moved(name=name, rank=rank, unit="s", baseline=values[0], candidate=values[1])
            )
    return sorted(found, key=lambda one: -abs(one.change))


def causes(parts: Sequence[Moved]) -> list[Moved]:
    """The parts that became longer by enough to matter, and the number of buckets with them."""
    whole = sum(part.baseline or 0.0 for part in parts if part.name in PARTS)
    grown = [p for p in parts if p.name in PARTS and p.change > _LEAST * whole]
    return [*grown, *(p for p in parts if p.name == BUCKETS and p.change)] if grown else []
