"""Statistics of a run's gradient exchange over reducers, from the telemetry of its transport."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Optional

import msgspec

from rsctl.runs.stream.formatting import format_bytes
from rsctl.transport.cost_model import Links, hybrid_seconds, net_rate, pure_seconds, ring_seconds

TRANSPORT = "node.transport."
REDUCER = "node.reducer."
"""The prefixes of the metrics that workers and reducers report."""

_LATE = re.compile(r"late\.(\d+)\.mean_ms")
_SHOWN_FROM_MS = 1.0
_SHOWN_FROM_PART = 0.01

LastValues = Mapping[str, Mapping[str, float]]
"""By replica, the last value of each metric."""


class Gradients(msgspec.Struct, kw_only=True):
    """The work of the reducers for a run so far.

    `operations`, `bytes` and `seconds`, the time with a gradient in flight, are each of the rank
    that has most. `wire_seconds` is the minimum time for these bytes on the links with these
    reducers. `ring_seconds` is the time of a ring of the workers: its minimum on the links, plus
    the seconds beside the wire that were measured here, since late ranks and busy cores delay a
    ring too. It is a model, and it favours the ring, which has more steps in an operation. `gbps`
    is the rate at which the slowest rank sent, in Gbit/s, and `link_gbps` the rate of its link.
    Fields that depend on the link are None if its rate is unknown. `stalled` is the fraction of
    that time in which a rank had to wait for room. `latest_rank` is the rank that the reducers wait
    for most, by `late_ms` a block.
    """

    operations: int
    bytes: int
    seconds: float
    wire_seconds: Optional[float]
    ring_seconds: Optional[float]
    gbps: float
    link_gbps: Optional[float]
    stalled: float
    latest_rank: Optional[int] = None
    late_ms: Optional[float] = None

    def format(self) -> str:
        """One line for people."""
        link = f" of {self.link_gbps:.3g}" if self.link_gbps else ""
        parts = [
            f"{self.operations} all-reduces of {format_bytes(self.bytes)} in total",
            f"{self.gbps:.3g}{link} Gbit/s",
        ]
        if self.stalled >= _SHOWN_FROM_PART:
            parts.append(f"window full {self.stalled:.0%} of the time")
        if self.wire_seconds and self.ring_seconds and self.seconds:
            times = self.ring_seconds / self.seconds
            parts.append(
                f"took {self.seconds:.3g} s; the network alone needs {self.wire_seconds:.3g} s"
            )
            parts.append(f"a ring with the same delays {self.ring_seconds:.3g} s ({times:.2f} x)")
        if self.late_ms is not None and self.late_ms >= _SHOWN_FROM_MS:
            parts.append(
                f"reducers wait longest for rank {self.latest_rank}, {self.late_ms:.3g} "
                "ms on average"
            )
        return ", ".join(parts)


class GradientPool(NamedTuple):
    """The workers, and the reducers: how many nodes, the ranks of all workers, the Gbit/s of a
    node's link if known."""

    nodes: int
    ranks: int
    gbps: Optional[float]
    reducers: int = 0
    reducer_gbps: Optional[float] = None

    def links(self) -> Links | None:
        """The links, if they are known and each worker has one rank."""
        if not self.gbps or not self.reducer_gbps or self.ranks != self.nodes:
            return None
        reducer = net_rate(self.reducer_gbps * 1e9)
        return Links(self.nodes, net_rate(self.gbps * 1e9), (reducer,) * self.reducers)


def _estimate_ring(seconds: float, wire: float, ring: float) -> float:
    """The estimated time of a ring where the reducers needed `seconds`; `wire` and `ring` are the
    minimum of both by the links. Links that prove faster than specified are so for both.
    """
    return ring + seconds - wire if seconds >= wire else ring * seconds / wire


def gradients(workers: LastValues, reducers: LastValues, pool: GradientPool) -> Gradients | None:
    """The statistics of a run; None if no gradient went over reducers yet."""
    ranks = [values for values in workers.values() if values.get("operations")]
    if not ranks:
        return None
    late, total = _latest(reducers), max(rank.get("reduced_bytes", 0) for rank in ranks)
    seconds = max(rank.get("busy_seconds", 0.0) for rank in ranks)
    links, wire, ring = pool.links(), None, None
    if links is not None and total and links.workers > 1:
        wire = min(pure_seconds(links, total), hybrid_seconds(links, total))
        ring = _estimate_ring(seconds, wire, ring_seconds(links, total))
    return Gradients(
        operations=int(max(rank["operations"] for rank in ranks)),
        bytes=int(total),
        seconds=seconds,
        wire_seconds=wire,
        ring_seconds=ring,
        gbps=min(rank.get("gbit_per_second", 0.0) for rank in ranks),
        link_gbps=pool.gbps,
        stalled=max(_part(rank, "stalled_seconds", "busy_seconds") for rank in ranks),
        latest_rank=late[1] if late else None,
        late_ms=late[0] if late else None,
    )


def _part(values: Mapping[str, float], part: str, whole: str) -> float:
    return min(1.0, values.get(part, 0.0) / values[whole]) if values.get(whole) else 0.0


def _latest(reducers: LastValues) -> tuple[float, int] | None:
    """The longest mean wait for a rank, in milliseconds, and that rank."""
    waits = [
        (value, int(match[1]))
        for values in reducers.values()
        for name, value in values.items()
        if (match := _LATE.fullmatch(name))
    ]
    return max(waits, default=None)
