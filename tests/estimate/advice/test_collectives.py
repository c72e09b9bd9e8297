"""The formulas, by the numbers that their sources print."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import pytest
from msgspec.structs import replace

from rsctl.estimate.advice import nccl
from rsctl.estimate.advice.calibration import UNCALIBRATED, uncalibrated
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.collectives import exchange
from rsctl.estimate.advice.exchange import Topology
from rsctl.estimate.advice.interconnect import INTERCONNECTS, Interconnect
from rsctl.estimate.advice.pool_size import break_even_reducers, saturating_reducers
from rsctl.estimate.advice.situation import ReducerMachine, Situation
from rsctl.transport import cost_model
from rsctl.transport.cost_model import Links

IDEAL = replace(
    UNCALIBRATED,
    alpha_seconds=0.0,
    bandwidth_fraction=1.0,
    worker_cpu_seconds_per_gb=0.0,
    reducer_cpu_seconds_per_gb=0.0,
    ring_cpu_seconds_per_gb=0.0,
)
K = 25_000_000
V100, A100, H100, B200, L4 = (
    INTERCONNECTS[name] for name in ("v100", "a100-40gb", "h100", "b200", "l4")
)


def cpus(
    workers: int, reducers: int = 0, mbit: float = 200.0, reducer_mbit: float = 0
) -> ModelledCluster:
    """CPU nodes with one rank each."""
    return ModelledCluster(
        workers=workers,
        worker_bits=mbit * 1e6,
        reducers=reducers,
        reducer_bits=(reducer_mbit or mbit) * 1e6,
    )


def seconds(topology: Topology, cluster: ModelledCluster, total: float = K) -> float:
    return exchange(topology, cluster, total, IDEAL).seconds


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_ring_and_servers_on_all_workers_send_twice_n_minus_1_over_n(workers: int) -> None:
    for topology in ("ring", "co-located"):
        found = exchange(topology, cpus(workers), K, IDEAL)
        assert found.worker_bytes == pytest.approx(2 * (workers - 1) / workers * K)
        assert found.seconds == pytest.approx(found.worker_bytes / cost_model.net_rate(200e6))


def test_servers_on_the_workers_sum_beside_sending() -> None:
    costs = replace(UNCALIBRATED, worker_cpu_seconds_per_gb=0.3, reducer_cpu_seconds_per_gb=0.5)
    found = exchange("co-located", cpus(4), K, costs)
    assert found.parts["workers' CPU"] == pytest.approx((0.3 + 0.5) * K / 1e9)


@pytest.mark.parametrize(
    ("topology", "workers", "ranks", "sent", "hops"),
    [
        ("ring", 4, 1, 2 * 3 / 4 * K, 6),
        ("ring", 2, 4, 2 * 7 / 8 * K, 14),  # through all ranks
        ("ring", 1, 4, 0.0, 6),
        ("tree", 5, 1, 2 * K, 6),
        ("tree", 2, 2, K, 4),
        ("tree", 1, 4, 0.0, 4),
        ("hierarchical", 4, 2, 2 * 3 / 4 * K, 6),
    ],
)
def test_an_exchange_over_tcp_by_its_parts(
    topology: Topology, workers: int, ranks: int, sent: float, hops: int
) -> None:
    found = exchange(topology, replace(cpus(workers), ranks=ranks), K, UNCALIBRATED)
    network = {"workers' network": sent / (0.98 * cost_model.net_rate(200e6))} if sent else {}
    parts = {**network, "workers' CPU": 0.7 * K / 1e9 / ranks, "latency": hops * 100e-6}
    assert found.parts == pytest.approx(parts)
    assert (found.topology, found.worker_bytes, found.reducer_bytes) == (topology, sent, 0)
    assert found.delay_seconds == parts["latency"]
    longest = network.get("workers' network", parts["workers' CPU"])
    assert found.seconds == pytest.approx(longest + parts["latency"])


def test_tree_sends_everything_twice_and_one_server_takes_n_times() -> None:
    assert exchange("tree", cpus(8), K, IDEAL).worker_bytes == 2 * K
    central = exchange("central", cpus(8, 1), K, IDEAL)
    assert (central.worker_bytes, central.reducer_bytes) == (K, 8 * K)
    assert central.seconds == pytest.approx(8 * K / cost_model.net_rate(200e6))
    assert central.bottleneck == "server's network"


def test_a_single_worker_sends_its_gradients_to_its_reducer() -> None:
    """It did so in benchmarks/advise, where the step was 0.61 s and the computation 0.26 s."""
    found = exchange("pool", cpus(1, 1), K, IDEAL)
    assert (found.topology, found.worker_bytes, found.reducer_bytes) == ("pool", K, K)
    assert found.seconds == pytest.approx(K / cost_model.net_rate(200e6), rel=0.01)
    of_nccl = replace(cpus(1, 1), shares_work=False)
    for cluster, topology in ((of_nccl, "pool"), (cpus(1), "ring"), (cpus(1), "pool")):
        assert exchange(topology, cluster, K, IDEAL).topology == "none"


def test_an_exchange_of_gpus_through_reducers_by_its_parts() -> None:
    """rsctl's binding copies before and after; NCCL's plugin meanwhile, in small pieces."""
    gpus = replace(cpus(4, 4, 100e3), ranks=8, inside=A100)
    inside, copies = 2 * 7 / 8 * K / (12 * 20e9), 2 * K / 8 / 24e9
    ours = exchange("pool", gpus, K, IDEAL)
    plugin = exchange("pool", replace(gpus, shares_work=False), K, IDEAL)
    wire = K / cost_model.net_rate(100e9)
    for found in (ours, plugin):
        assert set(found.parts) == {"workers' network", "PCIe", "GPUs' links", "latency"}
        assert found.parts["PCIe"] == pytest.approx(copies)
        assert found.parts["GPUs' links"] == pytest.approx(inside)
        assert found.parts["workers' network"] == pytest.approx(wire, rel=0.05)
    # The first block on its way; for the plugin also NCCL's latency.
    chain = nccl.latency_seconds("collnet-chain", "Simple", nccl.Ranks(4, 8, 12.5e9, A100))
    fill = ours.parts["latency"]
    assert 0 < fill < 0.05 * wire
    assert plugin.parts["latency"] == pytest.approx(chain + fill)
    assert (ours.delay_seconds, plugin.delay_seconds) == (fill, 0.0)
    network = ours.parts["workers' network"]
    assert ours.seconds == pytest.approx(network + copies + inside + fill)
    assert plugin.seconds == pytest.approx(max(network, copies) + inside + chain + fill)


@pytest.mark.parametrize(
    ("workers", "reducers", "topology", "expected"),
    [
        (8, 0, "ring", 1.830),
        (8, 8, "pool", 1.056),
        (8, 4, "hybrid", 1.361),
        (4, 1, "hybrid", 1.404),
        (4, 2, "hybrid", 1.262),
    ],
)
def test_times_on_200_mbit_are_those_of_the_prototype(
    workers: int, reducers: int, topology: Topology, expected: float
) -> None:
    # Calculated and measured for 25 MB over tbf-shaped links; the measurements in
    # docs/explanation/transport-measurements.md agree.
    assert seconds(topology, cpus(workers, reducers)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("workers", "reducers"), [(3, 3), (4, 3), (8, 5), (16, 9)])
def test_break_even_with_equal_cards(workers: int, reducers: int) -> None:
    assert break_even_reducers(workers) == reducers
    for count, is_faster in ((reducers - 1, False), (reducers, True)):
        links = Links(workers, 1.0, (1.0,) * count)
        assert (cost_model.pure_seconds(links, K) < cost_model.ring_seconds(links, K)) == is_faster


def test_two_workers_have_no_break_even() -> None:
    with pytest.raises(ValueError, match="two workers"):
        break_even_reducers(2)
    assert seconds("pool", cpus(2, 2)) == pytest.approx(seconds("ring", cpus(2)), rel=0.01)


def test_reducers_of_the_documentation_make_workers_the_bottleneck() -> None:
    assert saturating_reducers(5, 100, 32) == 16
    assert saturating_reducers(8, 100, 32) == 25
    pools = {
        count: exchange(
            "pool", replace(cpus(8, count, 100e3, 32e3), shares_work=False), 10**9, IDEAL
        )
        for count in (24, 25)
    }
    assert pools[24].bottleneck == "reducers' network"
    assert pools[25].bottleneck == "workers' network"


def test_slow_cores_of_reducers_take_more_of_them() -> None:
    assert saturating_reducers(8, 100, 32, reducer_core_gbps=16) == 50


@pytest.mark.parametrize("k", range(9))
def test_byteps_theorem_1(k: int) -> None:
    # t = 2n(n-1)K / ((n^2+kn-2k)B); each CPU machine reduces 2(n-1)/(n^2+kn-2k), each GPU machine
    # (n-k)/(n^2+kn-2k) of the whole. Jiang et al., OSDI 2020, section 4.1.
    n = 8
    base = Fraction(n * n + k * n - 2 * k)
    links = Links(n, 1.0, (1.0,) * k)
    assert cost_model.hybrid_worker_share(links) == pytest.approx(float((n - k) / base))
    assert cost_model.hybrid_seconds(links, 1.0) == pytest.approx(float(2 * n * (n - 1) / base))
    if k:
        share = float(Fraction(2 * (n - 1)) / base)
        assert cost_model.hybrid_shares(links)[:k] == pytest.approx([share] * k)


def test_price_that_a_faster_step_must_earn() -> None:
    # Optcast's documentation: 32 $ a worker with two reducers of 4 $ each needs a 20 % shorter run.
    machine = ReducerMachine(name="c7gn", dollars=4.0)
    situation = Situation(
        target="sagemaker", cluster=cpus(1), worker_dollars=32.0, reducer_machines=(machine,)
    )
    with_two, without = situation.dollars(machine, 2), situation.dollars(None, 0)
    assert (with_two, without) == (40.0, 32.0)  # a step must take 32/40 of its time


def test_links_of_gpus_are_those_of_their_data_sheets() -> None:
    """GB/s in NCCL's topology model: lanes of NVLink, or PCIe where there is none."""
    lanes = {"v100": 6 * 20, "a100-80gb": 12 * 20, "h200": 18 * 20.6, "b200": 18 * 40.1}
    pcie = {"p100": 12, "t4": 12, "a10g": 24, "l40s": 24, "rtx-pro-6000": 48}
    found = {name: INTERCONNECTS[name] for name in (*lanes, *pcie)}
    assert {name: link.bandwidth for name, link in found.items()} == pytest.approx(
        {name: 1e9 * rate for name, rate in (lanes | pcie).items()}
    )
    assert [found[name].pcie for name in lanes] == [12e9, 24e9, 48e9, 48e9]
    assert {name: link.capability for name, link in found.items()} == {
        **{"v100": 70, "a100-80gb": 80, "h200": 90, "b200": 100, "p100": 60, "t4": 75},
        **{"a10g": 86, "l40s": 89, "rtx-pro-6000": 120},
    }


def test_nccl_constants() -> None:
    net = nccl.HW_LATENCIES["net"]
    assert net["tree"] == (5.0, 8.5, 14.0)
    assert net["ring"] == (2.7, 4.0, 14.0)
    assert net["collnet-chain"][2] == 30.0
    assert nccl.HW_LATENCIES["nvlink"]["ring"][2] == 3.4
    assert (nccl.BASE_LATENCIES["ring"][2], nccl.BASE_LATENCIES["tree"][2]) == (8.4, 8.4)
    assert [len(line) for line in nccl.TREE_CORRECTIONS.values()] == [23, 23, 23]
    assert min(nccl.TREE_CORRECTIONS["Simple"]) == 0.5


def test_nccl_latencies_in_microseconds() -> None:
    ranks = nccl.Ranks(4, 8, 12.5e9, A100)
    latency = {
        name: nccl.latency_seconds(name, "Simple", ranks) * 1e6
        for name in ("ring", "tree", "collnet-chain")
    }
    # 62 steps, 6 of them between nodes; a tree of 4 nodes; one hop to what reduces.
    assert latency == pytest.approx(
        {
            "ring": 8.4 + 56 * 3.4 + 6 * 14.0,
            "tree": 8.4 + 2 * (7 * 4.0 + 2 * 14.0),
            "collnet-chain": 2 * 7 * 2.8 + 30.0,
        }
    )
    # With one rank on a node what reduces is as far as another node of a tree.
    for where, expected in (((4, 1, 12.5e9, A100), 14.0), ((4, 4, 12.5e9, L4), 6 * 2.8 + 30.0)):
        reduced = nccl.latency_seconds("collnet-chain", "Simple", nccl.Ranks(*where))
        assert reduced * 1e6 == pytest.approx(expected)


NVLINK, PCIE = nccl.Ranks(1, 8, 1e9, V100), nccl.Ranks(1, 4, 1e9, L4)
FOUR, SIX = nccl.Ranks(4, 8, 12.5e9, V100), nccl.Ranks(6, 8, 12.5e9, V100)
APART = nccl.Ranks(8, 1, 25e9, L4)
KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("algorithm", "ranks", "total", "microseconds", "gigabytes"),
    [
        # One node: a ring has 14 steps of an eighth, a tree two ways through all.
        ("ring", NVLINK, 64 * KIB, 6.6 + 14 * 0.6, 39.0 * 8 / 14),
        ("ring", NVLINK, 2 * MIB, 14.0 + 14 * 1.9, 0.92 * 120 * 8 / 14),
        ("ring", NVLINK, 256 * MIB, 8.4 + 14 * 3.4, 120 * 8 / 14),
        ("tree", NVLINK, 64, 6.8 + 14 * 0.6, 0.92 * 120 / 3.8 / 2),
        ("tree", NVLINK, 8 * KIB - 1, 6.8 + 14 * 0.6, 0.7 * 0.92 * 120 / 3.8 / 2),
        ("tree", NVLINK, 2 * MIB, 14.0 + 14 * 1.25, 0.6 * 0.92 * 120 * 7 / 9 / 2),
        ("tree", NVLINK, 256 * MIB, 8.4 + 14 * 4.0, 0.9 * 0.92 * 120 / 2),
        ("tree", NVLINK, 512 * MIB, 8.4 + 14 * 4.0, 0.92 * 120 / 2),
        ("ring", PCIE, 64 * KIB, 6.6 + 6 * 1.0, 24 / 2 * 4 / 6),
        ("ring", PCIE, 1 * MIB, 14.0 + 6 * 2.5, 0.92 * 24 * 4 / 6),
        ("ring", PCIE, 32 * MIB, 8.4 + 6 * 5.7, 24 * 4 / 6),
        ("tree", PCIE, 4 * KIB, 6.8 + 6 * 1.0, 0.7 * 0.92 * 24 / 3.8 / 2),
        ("tree", PCIE, 128 * KIB, 14.0 + 6 * 1.9, 0.6 * 0.92 * 24 * 7 / 9 / 2),
        ("tree", PCIE, 512 * MIB, 8.4 + 6 * 4.0, 0.92 * 24 / 2),
        # Several: each step of a ring is posted in a microsecond, and Simple has a plateau.
        ("ring", FOUR, 64 * KIB, 6.6 + 56 * 1.0 + 6 * 2.7, 12.5 / 2 * 32 / 62),
        ("ring", FOUR, 4 * MIB, 14.0 + 56 * 1.9 + 6 * 4.0, 0.92 * 12.5 * 32 / 62),
        ("ring", FOUR, 256 * MIB, 1.9 * (8.4 + 56 * 3.4 + 6 * 14.0), 12.5 * 32 / 62),
        (
            "ring",
            FOUR._replace(inside=A100),
            1 << 30,
            1.4 * (8.4 + 56 * 3.4 + 84.0),
            12.5 * 32 / 62,
        ),
        ("tree", SIX, 4 * KIB, 6.8 + 14 * 0.6 + 4 * 5.0, 0.7 * 0.92 * 12.5 / 3.8 / 2),
        ("tree", SIX, 1 * MIB, 14.0 + 14 * 1.25 + 4 * 8.5, 0.6 * 0.92 * 12.5 * 120 / 128 / 2),
        ("tree", SIX, 512 * MIB, 8.4 + 14 * 4.0 + 4 * 14.0, 0.92 * 12.5 / 2),
        # One rank on each: the network's latency is a tree's, and the links inside are no limit.
        ("ring", APART, 4 * KIB, 6.6 + 14 * 5.0, 25 / 2 * 8 / 14),
        ("ring", APART, 4 * MIB, 14.0 + 14 * 8.5, 0.92 * 25 * 8 / 14),
        ("ring", APART, 512 * MIB, 1.4 * (8.4 + 14 * 14.0), 25 * 8 / 14),
        ("ring", nccl.Ranks(1, 1, 25e9, L4), 512 * MIB, 0.0, 1e99),
        # Cards that are faster than the links inside or not, or than LL can be between nodes.
        ("ring", nccl.Ranks(2, 2, 1e12, L4), 512 * MIB, 1.4 * (8.4 + 4 * 5.7 + 28.0), 24 * 4 / 6),
        ("ring", nccl.Ranks(2, 2, 1e9, L4), 512 * MIB, 1.4 * (8.4 + 4 * 5.7 + 28.0), 1.0 * 4 / 6),
        ("ring", nccl.Ranks(2, 8, 1e11, H100), 64 * KIB, 6.6 + 28 * 1.0 + 2 * 2.7, 39 * 16 / 30),
        ("ring", nccl.Ranks(3, 8, 1e11, H100), 64 * KIB, 6.6 + 42 * 1.0 + 4 * 2.7, 20.4 * 24 / 46),
        ("tree", nccl.Ranks(2, 8, 4e11, B200), 64, 6.8 + 14 * 0.6 + 2 * 5.0, 39 / 2),
        ("tree", nccl.Ranks(3, 8, 1e11, H100), 64, 6.8 + 14 * 0.6 + 2 * 5.0, 20.4 / 2),
    ],
)
def test_nccl_times_are_those_of_its_best_protocol(
    algorithm: Literal["ring", "tree"],
    ranks: nccl.Ranks,
    total: int,
    microseconds: float,
    gigabytes: float,
) -> None:
    found = nccl.all_reduce_seconds(algorithm, ranks, total)
    assert found == pytest.approx(microseconds / 1e6 + total / (gigabytes * 1e9), rel=1e-9)


@pytest.mark.parametrize(
    ("capability", "gigabytes"),
    [(37, 39), (70, 39), (79, 39), (80, 87.7), (89, 87.7), (90, 141), (100, 282), (120, 282)],
)
def test_nccl_limits_ll_in_a_node_by_the_generation_of_its_gpus(
    capability: int, gigabytes: float
) -> None:
    fast = Interconnect(capability=capability, pcie=12e9, nvlink=1e12)
    found = nccl.all_reduce_seconds("ring", nccl.Ranks(1, 2, 1e9, fast), 64 * KIB)
    assert found == pytest.approx((6.6 + 2 * 0.6) / 1e6 + 64 * KIB / (gigabytes * 1e9))


def test_nccl_takes_a_tree_for_small_messages_and_a_ring_for_large_ones() -> None:
    ranks = nccl.Ranks(16, 8, 12.5e9, A100)
    faster = {
        size: min(("ring", "tree"), key=lambda name: nccl.all_reduce_seconds(name, ranks, size))
        for size in (64 * 1024, 10**9)
    }
    assert faster == {64 * 1024: "tree", 10**9: "ring"}


def test_lanes_reduce_inside_the_node_first() -> None:
    cluster = ModelledCluster(workers=4, worker_bits=100e9, ranks=8, inside=V100)
    total = 10**9
    inside = 2 * 7 / 8 * total / (6 * 20e9)
    between = 2 * 3 / 4 * total / cost_model.net_rate(100e9)
    assert seconds("hierarchical", cluster, total) == pytest.approx(inside + between)


def test_one_node_is_its_gpus_links() -> None:
    found = exchange(
        "ring", ModelledCluster(workers=1, worker_bits=100e9, ranks=8, inside=V100), 10**9, IDEAL
    )
    assert found.worker_bytes == 0
    assert found.bottleneck == "GPUs' links"
    assert exchange("ring", cpus(1), K, IDEAL).seconds == 0


def test_a_bridge_of_one_machine_takes_what_was_measured() -> None:
    """25 MB between 4 workers on 2 cores without a limit on the network, as in the table of
    docs/explanation/transport-measurements.md.
    """
    cluster = ModelledCluster(workers=4, worker_bits=None, reducers=4, shared_cores=2)
    for topology, measured in (("pool", 0.216), ("ring", 0.081)):
        nodes = cluster if topology == "pool" else replace(cluster, reducers=0)
        found = exchange(topology, nodes, K, uncalibrated("compose"))  # type: ignore[arg-type]
        assert found.seconds == pytest.approx(measured, rel=0.1)
        assert exchange(topology, nodes, K, UNCALIBRATED).seconds < measured / 2  # type: ignore[arg-type]


def test_compute_capabilities_are_nvidias() -> None:
    """Major and minor version: https://developer.nvidia.com/cuda-gpus, also its older GPUs."""
    assert {name: link.capability for name, link in INTERCONNECTS.items()} == {
        **{"k80": 37, "p4": 61, "p100": 60, "t4": 75, "v100": 70, "v100-32gb": 70},
        **{"a10g": 86, "l4": 89, "l40s": 89, "a100-40gb": 80, "a100-80gb": 80},
        **{"h100": 90, "h200": 90, "b200": 100, "b300": 100, "gb200": 100},
        **{"rtx-pro-4500": 120, "rtx-pro-6000": 120},
    }
