"""The machines between which gradients travel: cards, cores, and links between a node's GPUs."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.interconnect import Interconnect
from rsctl.transport import schedule
from rsctl.transport.cost_model import Links, net_rate
from rsctl.transport.schedule import Schedule


class ModelledCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of a job. `workers` and `reducers` are how many, `ranks` how many on each worker.

    `worker_bits` and `reducer_bits` are the rates of a node's card in bit/s, None if no network
    limits it, as on loopback. Cores are the cores of one node, None if not known; if all nodes are
    on one machine, `shared_cores` are that machine's. `inside` is the link between a node's GPUs,
    None without any. `shares_work` says that workers reduce a share themselves where that is
    faster: rsctl's own reducers do, Google's Reduction Server does not.
    """

    workers: int
    worker_bits: float | None
    reducers: int = 0
    reducer_bits: float | None = None
    ranks: int = 1
    worker_cores: float | None = None
    reducer_cores: float | None = None
    shared_cores: float | None = None
    inside: Interconnect | None = None
    shares_work: bool = True
    mtu: int = 1500

    @property
    def world(self) -> int:
        """Ranks on all workers."""
        return self.workers * self.ranks

    def links(self, calibration: Calibration) -> Links:
        """The bandwidth of the cards, in bytes per second."""
        worker, reducer = (
            net_rate(bits, self.mtu) * calibration.bandwidth_fraction if bits else float("inf")
            for bits in (self.worker_bits, self.reducer_bits)
        )
        return Links(self.workers, worker, (reducer,) * self.reducers)

    def schedule(self) -> Schedule:
        """The blocks' assignment to reducers, as the transport makes it.

        It assumes equal cards, since workers get bandwidths only on shaped networks, where the
        cards are equal. Raises ValueError without reducers.
        """
        return _schedule(self.workers, self.reducers, self.shares_work)


@lru_cache(maxsize=4096)
def _schedule(workers: int, reducers: int, shares_work: bool) -> Schedule:
    links = Links(workers, _TYPICAL, (_TYPICAL,) * reducers)
    return schedule.plan(links) if shares_work else schedule.pure(links)


_TYPICAL = net_rate(1e9)
