"""The time of one all-reduce of K bytes among the nodes of a cluster, by topology.

Bytes that a node of N sends, and as many that it receives: ring and halving-doubling 2 (N-1) / N K
(Patarasuk and Yuan, 2009); double binary tree 2 K (Sanders et al., 2009); one parameter server K,
and N K at the server; servers on all workers 2 (N-1) / N K (Jiang et al., BytePS, OSDI 2020, table
1). Those of reducers are the transport's own. A message between nodes takes alpha: a ring has
2 (N-1) in a row, a tree 2 log2 N, a server 2.
"""

from __future__ import annotations

import math
from typing import Literal

from rsctl.estimate.advice import nccl
from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.exchange import (
    GB,
    Exchange,
    Topology,
    cpu_parts,
    make_exchange,
    nccl_ranks,
    node_seconds,
)
from rsctl.transport.cost_model import Links, ring_seconds


def exchange(
    topology: Topology, cluster: ModelledCluster, total: int, calibration: Calibration
) -> Exchange:
    """The all-reduce of `total` bytes.

    For `pool` and `hybrid` the transport decides between the two by the cluster's reducers, and the
    result names its choice. `ring` and `tree` are NCCL's on GPUs, and over TCP by CPUs elsewhere.
    """
    is_reduced = topology in ("pool", "hybrid")
    # A single rank sends its gradients to rsctl's reducers; NCCL's plugin does not.
    is_sent = cluster.world > 1 or (is_reduced and cluster.reducers and cluster.shares_work)
    if not total or not is_sent:
        return make_exchange("none", 0.0, 0.0, {}, {})
    if is_reduced:
        return _by_reducers(cluster, total, calibration)
    if topology in ("central", "co-located"):
        return _by_servers(topology, cluster, total, calibration)
    if cluster.inside and topology != "hierarchical":
        return _by_nccl(topology, cluster, total, calibration)
    return _by_cpu(topology, cluster, total, calibration)


def _by_cpu(
    topology: Topology, cluster: ModelledCluster, total: int, calibration: Calibration
) -> Exchange:
    """A ring or tree of all ranks over TCP; or, hierarchical, one of the nodes for each lane."""
    worker, nodes = cluster.links(calibration).worker, cluster.workers
    members = nodes if topology == "hierarchical" else cluster.world
    sent, hops = _sent(topology, members, nodes, total)
    at_once = {"workers' network": sent / worker}
    if cluster.inside is None:
        at_once |= cpu_parts(cluster, calibration.ring_cpu_seconds_per_gb * total / GB)
    in_a_row = {
        "latency": hops * calibration.alpha_seconds,
        "GPUs' links": node_seconds(cluster, total) if topology == "hierarchical" else 0.0,
    }
    # gloo has two all-reduces under way (ProcessGroupGloo's threads).
    return make_exchange(topology, sent, 0.0, at_once, in_a_row, delay=in_a_row["latency"])


def _sent(topology: Topology, members: int, nodes: int, total: int) -> tuple[float, int]:
    """Bytes that a node's card sends, and messages in a row."""
    if topology == "tree":
        return float(min(2, nodes - 1) * total), 2 * math.ceil(math.log2(members))
    sent = ring_seconds(Links(members, 1.0, ()), total) if nodes > 1 else 0.0
    return sent, 2 * (members - 1)


def _by_nccl(
    topology: Topology, cluster: ModelledCluster, total: int, calibration: Calibration
) -> Exchange:
    """NCCL's ring or tree through all GPUs, by its own model."""
    algorithm: Literal["ring", "tree"] = "tree" if topology == "tree" else "ring"
    ranks = nccl_ranks(cluster, calibration)
    seconds = nccl.all_reduce_seconds(algorithm, ranks, total)
    latency = min(seconds, nccl.all_reduce_seconds(algorithm, ranks, 0))
    is_inside = ranks.nodes == 1 or ranks.bus_bandwidth < ranks.card
    bound = "GPUs' links" if is_inside else "workers' network"
    sent, _ = _sent(topology, ranks.total, ranks.nodes, total)
    in_a_row = {bound: seconds - latency, "latency": latency}
    return make_exchange(topology, sent, 0.0, {}, in_a_row)


def _by_reducers(cluster: ModelledCluster, total: int, calibration: Calibration) -> Exchange:
    """By the transport's schedule. Ranks of a node reduce a part each among themselves first.

    On GPUs rsctl's own binding copies a part to the host, sends it, and copies the result back, one
    after the other; Google's is a plugin of NCCL (CollNet), which does all three concurrently in
    small pieces.
    """
    links, schedule = cluster.links(calibration), cluster.schedule()
    sent, taken = schedule.traffic(total)
    busiest = max(taken, default=0.0)
    bounds = [t / rate for t, rate in zip(taken, links.reducers, strict=True)]
    by_reducers, by_workers = max(bounds, default=0.0), sent / links.worker
    fill = schedule.fill_seconds(links, total)
    wire = schedule.seconds(links, total) - fill
    is_narrow = by_reducers > by_workers
    network = {"reducers' network" if is_narrow else "workers' network": wire}
    reducing = calibration.reducer_cpu_seconds_per_gb / GB
    here = max(0.0, cluster.workers * total - sum(taken)) / cluster.workers
    worker_cpu = calibration.worker_cpu_seconds_per_gb * total / GB + reducing * here
    cpu = cpu_parts(cluster, worker_cpu, reducing * busiest, reducing * sum(taken))
    at_once, in_a_row = {**network, **cpu}, {"latency": 2 * calibration.alpha_seconds + fill}
    delay = in_a_row["latency"]
    if cluster.inside:
        copies = {"PCIe": 2 * total / cluster.ranks / cluster.inside.pcie}
        in_a_row["GPUs' links"] = node_seconds(cluster, total)
        if cluster.shares_work:
            in_a_row |= copies
        else:
            at_once |= copies
            ranks = nccl_ranks(cluster, calibration)
            in_a_row["latency"] = nccl.latency_seconds("collnet-chain", "Simple", ranks) + fill
            delay = 0.0
    topology: Topology = "hybrid" if schedule.hybrid else "pool"
    return make_exchange(topology, sent, busiest, at_once, in_a_row, delay)


def _by_servers(
    topology: Topology, cluster: ModelledCluster, total: int, calibration: Calibration
) -> Exchange:
    """One parameter server on a card like a reducer's, or servers on all workers."""
    links, nodes = cluster.links(calibration), cluster.workers
    in_a_row = {
        "latency": 2 * calibration.alpha_seconds,
        "GPUs' links": node_seconds(cluster, total),
    }
    reducing = calibration.reducer_cpu_seconds_per_gb * total / GB
    sending = calibration.worker_cpu_seconds_per_gb * total / GB
    if topology == "co-located":
        sent = ring_seconds(Links(nodes, 1.0, ()), total)
        at_once = {"workers' network": sent / links.worker}
        at_once |= cpu_parts(cluster, sending + reducing)
        return make_exchange(topology, sent, 0.0, at_once, in_a_row)
    server = links.reducers[0] if links.reducers else links.worker
    at_once = {"workers' network": total / links.worker, "server's network": nodes * total / server}
    at_once |= cpu_parts(cluster, sending, nodes * reducing, nodes * reducing)
    return make_exchange(topology, total, nodes * total, at_once, in_a_row)
