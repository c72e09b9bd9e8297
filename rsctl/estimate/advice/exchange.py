"""The estimate of one all-reduce, and its common parts: CPU, and GPUs of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from rsctl.estimate.advice import nccl
from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.cluster import ModelledCluster

Topology = Literal[
    "none", "ring", "tree", "hierarchical", "pool", "hybrid", "central", "co-located"
]
GB = 1e9


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One all-reduce between nodes.

    `worker_bytes` are the bytes that each worker's card sends, and the bytes that it receives;
    `reducer_bytes` are the same for the busiest reducer. `parts` has its parts in seconds: of parts
    `at once` (cards, cores) the longest counts, of parts one after the other the sum.
    `delay_seconds` is the part of its time that the next exchange does not wait for, if several can
    be in progress: messages and blocks are in transit while the cards are free.
    """

    topology: Topology
    seconds: float
    worker_bytes: float
    reducer_bytes: float
    parts: dict[str, float]
    delay_seconds: float = 0.0

    @property
    def bottleneck(self) -> str:
        """The part that takes longest; empty if there is none."""
        return max(self.parts, key=self.parts.__getitem__) if any(self.parts.values()) else ""


def make_exchange(
    topology: Topology,
    sent: float,
    taken: float,
    at_once: Mapping[str, float],
    in_a_row: Mapping[str, float],
    delay: float = 0.0,
) -> Exchange:
    """An exchange of parts in seconds; `sent` by each worker, `taken` by the busiest reducer."""
    seconds = max(at_once.values(), default=0.0) + sum(in_a_row.values())
    parts = {name: part for name, part in {**at_once, **in_a_row}.items() if part}
    return Exchange(
        topology=topology,
        seconds=seconds,
        worker_bytes=sent,
        reducer_bytes=taken,
        parts=parts,
        delay_seconds=delay,
    )


def cpu_parts(
    cluster: ModelledCluster, worker: float, reducer: float = 0.0, reducers_total: float = 0.0
) -> dict[str, float]:
    """The time that CPUs need, by CPU seconds of a worker, of the busiest reducer and of them all.

    Each rank's transport is one thread, and so is each lane of a reducer.
    """
    if cluster.shared_cores:
        total = cluster.workers * worker + reducers_total
        return {"shared cores": total / cluster.shared_cores}
    parts = {"workers' CPU": worker / _threads(cluster.worker_cores, cluster.ranks)}
    if reducer:
        parts["reducers' CPU"] = reducer / _threads(cluster.reducer_cores, cluster.ranks)
    return parts


def _threads(cores: float | None, ranks: int) -> float:
    return min(cores or ranks, ranks)


def node_seconds(cluster: ModelledCluster, total: int) -> float:
    """The reduce-scatter inside each node and the all-gather after it: (g-1)/g K of g GPUs each."""
    if cluster.inside is None or cluster.ranks == 1:
        return 0.0
    return 2 * (cluster.ranks - 1) / cluster.ranks * total / cluster.inside.bandwidth


def nccl_ranks(cluster: ModelledCluster, calibration: Calibration) -> nccl.Ranks:
    """The cluster's GPUs as NCCL's model wants them."""
    if cluster.inside is None:
        raise ValueError("no GPUs")
    card = cluster.links(calibration).worker
    return nccl.Ranks(cluster.workers, cluster.ranks, card, cluster.inside)
