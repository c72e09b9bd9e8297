"""The cost model of pure and hybrid schedules: each reducer's share, and the time on the network.

Sources: for equal links, Jiang et al., "A Unified Architecture for Accelerating Distributed DNN
Training" (BytePS), OSDI 2020, section 4; generalised to reducers of any bandwidth by putting their
bandwidth in units of a worker's instead of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ETHERNET_BYTES = 14
_HEADER_BYTES = 52  # IPv4, TCP with timestamps


@dataclass(frozen=True)
class Links:
    """The network cards of a pool, in net bytes a second, the same in each direction.

    `worker` is the slowest worker's: all wait for it. `reducers` has each dedicated reducer's.
    """

    workers: int
    worker: float
    reducers: tuple[float, ...]

    @property
    def reducer_total(self) -> float:
        """The total rate at which dedicated reducers can receive."""
        return sum(self.reducers)


def net_rate(bits: float, mtu: int = 1500) -> float:
    """Bytes a second that a link of `bits` a second carries, less the packets' headers."""
    return bits / 8 * (mtu - _HEADER_BYTES) / (mtu + _ETHERNET_BYTES)


def ring_seconds(links: Links, total: float) -> float:
    """The time of a ring of the workers alone for `total` bytes: the best without helpers."""
    return 2 * (links.workers - 1) / links.workers * total / links.worker


def pure_seconds(links: Links, total: float) -> float:
    """The least time where dedicated reducers do all; infinite where there are none."""
    if not links.reducers:
        return float("inf")
    return max(total / links.worker, links.workers * total / links.reducer_total)


def hybrid_seconds(links: Links, total: float) -> float:
    """The least time where the workers take a share themselves."""
    own = hybrid_worker_share(links)
    return total * (1 + (links.workers - 2) * own) / links.worker


def hybrid_worker_share(links: Links) -> float:
    """The part of an operation that each worker reduces; 0 if the reducers can do it all."""
    workers = links.workers
    power = links.reducer_total / links.worker
    return max(0.0, (workers - power) / (workers * workers + power * (workers - 2) or 1))


def pure_shares(links: Links) -> tuple[float, ...]:
    """Each dedicated reducer's part, in proportion to its bandwidth."""
    return tuple(bandwidth / links.reducer_total for bandwidth in links.reducers)


def hybrid_shares(links: Links) -> tuple[float, ...]:
    """The part of each dedicated reducer and then of each worker; the sum is 1."""
    own = hybrid_worker_share(links)
    rest = 1 - links.workers * own
    dedicated = tuple(rest * bandwidth / links.reducer_total for bandwidth in links.reducers)
    return dedicated + (own,) * links.workers


def weights(
    links: Links,
    shares: Sequence[float],
    longest: int,
    total: float,
    row_bytes: Callable[[int], int],
) -> tuple[int, ...]:
    """Whole numbers close to these shares: how many slots of a row each reducer has.

    They are those with which an operation of `total` bytes takes the least time. A longer row is
    closer to the shares, and must have been sent before the first result is complete; `row_bytes`
    gives its bytes by its slots. One more reducer hardly ever makes the time longer, since rows are
    as long as pays.
    """
    best: tuple[float, tuple[int, ...]] = (float("inf"), ())
    least = _seconds(links, shares, total)
    for length in range(len(shares), max(longest, len(shares)) + 1):
        if least + row_bytes(length) / links.worker >= best[0]:
            continue
        counts = _apportion(shares, length)
        row = sum(counts)
        parts = [count / row for count in counts]
        seconds = _seconds(links, parts, total) + row_bytes(row) / links.worker
        best = min(best, (seconds, counts))
    return best[1]


def _seconds(links: Links, shares: Sequence[float], total: float) -> float:
    """The time that these shares of dedicated reducers, and then of workers, take on the wire."""
    dedicated = len(links.reducers)
    own = max(shares[dedicated:], default=0.0)
    reducers = [
        links.workers * share / rate
        for share, rate in zip(shares, links.reducers)  # noqa: B905 - workers' come after them
    ]
    return total * max([(1 + (links.workers - 2) * own) / links.worker, *reducers])


def _apportion(shares: Sequence[float], length: int) -> tuple[int, ...]:
    """Largest remainders; at least one for each, so that none stands idle."""
    counts = [max(1, int(share * length)) for share in shares]
    by_need = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i] * length, i))
    for i in by_need[: max(0, length - sum(counts))]:
        counts[i] += 1
    return tuple(counts)
