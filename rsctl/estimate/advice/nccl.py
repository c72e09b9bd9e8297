"""NCCL's own model of an all-reduce: time = latency + bytes / bandwidth, the best of its protocols.

Source: NVIDIA/nccl at 5067397 (2026-06), src/graph/tuning.cc, `ncclTopoTuneModel` and
`ncclTopoGetAlgoTime`. Left out: features that need the graph search of a real machine (the limits
of single channels, NVLS) and x86 of AMD. Latencies are microseconds, bandwidths bytes a second.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rsctl.estimate.advice.interconnect import Interconnect

Algorithm = Literal["ring", "tree", "collnet-chain"]
Link = Literal["nvlink", "pcie", "net"]

PROTOCOLS = ("LL", "LL128", "Simple")
BASE_LATENCIES: dict[Algorithm, tuple[float, ...]] = {
    "tree": (6.8, 14.0, 8.4),
    "ring": (6.6, 14.0, 8.4),
    "collnet-chain": (0, 0, 0),
}
HW_LATENCIES: dict[Link, dict[Algorithm, tuple[float, ...]]] = {
    "nvlink": {
        "tree": (0.6, 1.25, 4.0),
        "ring": (0.6, 1.9, 3.4),
        "collnet-chain": (0, 0, 2.8),
    },
    "pcie": {
        "tree": (1.0, 1.9, 4.0),
        "ring": (1.0, 2.5, 5.7),
        "collnet-chain": (0, 0, 2.8),
    },
    "net": {
        "tree": (5.0, 8.5, 14.0),
        "ring": (2.7, 4.0, 14.0),
        "collnet-chain": (0, 0, 30.0),
    },
}
_LL_ALONE = {0: 39.0, 80: 87.7, 90: 141.0, 100: 282.0}
"""GB/s of LL at most in one node, from a compute capability on."""
_LL_BETWEEN = (39.0, 20.4)
"""GB/s of LL at most between two nodes, and between more, of Intel's CPUs."""
_TREE_CORRECTIONS = {
    "LL": "1.0 1.0 1.0 1.0 .9 .8 .7 .7 .7 .7 .6 .5 .4 .4 .5 .6 .7 .8 .9 1.0 1.0 1.0 1.0",
    "LL128": "1.0 1.0 1.0 1.0 1.0 .9 .8 .8 .8 .7 .6 .6 .6 .6 .6 .6 .8 .9 .9 .9 .9 1.0 1.0",
    "Simple": ".9 .9 .9 .9 .9 .9 .9 .8 .7 .6 .6 .5 .5 .5 .5 .6 .7 .8 .7 .7 .8 .9 .9",
}
TREE_CORRECTIONS = {
    name: tuple(map(float, text.split())) for name, text in _TREE_CORRECTIONS.items()
}
"""The fraction of its bandwidth that a tree reaches, by protocol, for 64 B, 128 B and so on to 256
MiB.
"""
_NET_OVERHEAD = 1.0
_MICROSECOND = 1e-6


class Ranks(NamedTuple):
    """The GPUs of an all-reduce, and the network card of a node in bytes a second."""

    nodes: int
    per_node: int
    card: float
    inside: Interconnect

    @property
    def total(self) -> int:
        """How many there are."""
        return self.nodes * self.per_node

    @property
    def bus_bandwidth(self) -> float:
        """The narrowest link of a ring through all of them."""
        inside = self.inside.bandwidth if self.per_node > 1 else float("inf")
        return min(inside, self.card) if self.nodes > 1 else inside


def all_reduce_seconds(algorithm: Literal["ring", "tree"], ranks: Ranks, total: int) -> float:
    """The time of an all-reduce of `total` bytes by the best protocol."""
    if ranks.total == 1:
        return 0.0
    return min(_seconds(algorithm, protocol, ranks, total) for protocol in PROTOCOLS)


def latency_seconds(algorithm: Algorithm, protocol: str, ranks: Ranks) -> float:
    """The part of the time that does not depend on the size."""
    p = PROTOCOLS.index(protocol)
    inside: Link = "nvlink" if ranks.inside.nvlink else "pcie"
    intra = HW_LATENCIES[inside][algorithm][p]
    # With one rank on a node latencies are fully exposed: those of a tree.
    exposed: Algorithm = "tree" if ranks.per_node == 1 else algorithm
    inter = HW_LATENCIES["net"][exposed][p]
    base = BASE_LATENCIES[algorithm][p]
    if algorithm == "ring":
        if ranks.nodes > 1:
            intra = max(intra, _NET_OVERHEAD)  # Simple has three times as much, and takes longer
        steps = 2 * (ranks.total - 1)
        between = 2 * (ranks.nodes - 1)
        latency = base + (steps - between) * intra + between * inter
    elif algorithm == "tree":
        latency = base + 2 * ((ranks.per_node - 1) * intra + (ranks.nodes.bit_length() - 1) * inter)
    else:
        latency = base + 2 * (ranks.per_node - 1) * intra + inter
    return latency * _MICROSECOND


def _seconds(algorithm: Algorithm, protocol: str, ranks: Ranks, total: int) -> float:
    latency = latency_seconds(algorithm, protocol, ranks)
    bandwidth = _bandwidth(algorithm, protocol, ranks)
    if algorithm == "tree":
        size = (int(total) >> 6).bit_length() - 1
        corrections = TREE_CORRECTIONS[protocol]
        bandwidth *= corrections[size] if 0 <= size < len(corrections) else 1.0
    if algorithm == "ring" and protocol == "Simple" and ranks.nodes > 1:
        # NCCL leaves out messages of less than 64 B a rank, for which LL is faster.
        latency *= 1.9 if ranks.inside.capability < 80 else 1.4
    return latency + total / bandwidth


def _bandwidth(algorithm: Algorithm, protocol: str, ranks: Ranks) -> float:
    """Bytes of the operation a second; NCCL's "algorithm bandwidth"."""
    bus, of_ll = ranks.bus_bandwidth, _ll_bandwidth(ranks)
    if algorithm == "ring":
        bus = {"LL": min(of_ll, bus / 2), "LL128": 0.92 * bus}.get(protocol, bus)
        return bus * ranks.total / (2 * (ranks.total - 1))
    bus *= 0.92
    packed = 7 / 9 if ranks.nodes == 1 else 120 / 128
    return {"LL": min(bus / 3.8, of_ll), "LL128": packed * bus}.get(protocol, bus) / 2


def _ll_bandwidth(ranks: Ranks) -> float:
    if ranks.nodes > 1:
        return 1e9 * _LL_BETWEEN[0 if ranks.nodes == 2 else 1]
    return 1e9 * _LL_ALONE[max(known for known in _LL_ALONE if known <= ranks.inside.capability)]
