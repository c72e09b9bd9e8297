"""Which nodes are named, by readings alone."""

from __future__ import annotations

import pytest

from rsctl.node.errors import LaunchError
from rsctl.node.health.rules import NodeProblem, Slow, problems, slow_rates
from rsctl.node.health.settings import Checks, read_checks, write_checks

ALL = Checks(network=True, gpu=True, cpu=True)
NAMES = [f"worker-{index} on gpu-{index}" for index in range(4)]
Readings = dict[str, float]


def judged(nodes: list[Readings], checks: Checks = ALL) -> list[NodeProblem]:
    return problems(nodes, slow_rates(nodes, checks), checks, NAMES[: len(nodes)])


def found(nodes: list[Readings], checks: Checks = ALL) -> list[tuple[int, str, str, bool]]:
    return [(p.node, p.code, p.message, p.is_error) for p in judged(nodes, checks)]


def test_a_slow_node_is_named_with_the_median_of_the_others() -> None:
    nodes = [{"matmul_gflops": rate} for rate in (12.0, 4.9, 10.0, 11.0)]
    [problem] = judged(nodes)
    assert problem == (
        1,
        "node-unhealthy",
        "worker-1 on gpu-1: multiplies matrices at 4.9 GFLOP/s, and the median of the other nodes "
        "is 11",
        "Submit the job again to get other machines, on Slurm with targets.slurm.exclude; where "
        "nodes differ by design, set checks.cpu: false.",
        True,
    )


@pytest.mark.parametrize("rates", [(12, 10, 11, 5.6), (12, 6.1), (3,), (5, 5, 9, 9), ()])
def test_nodes_that_differ_as_usual_are_not_named(rates: tuple[float, ...]) -> None:
    assert judged([{"copy_gbs": rate} for rate in rates]) == []


def test_nodes_of_one_machine_are_not_compared_but_their_gpus_are() -> None:
    """They share its processors: what one of them gets, another one lacks."""
    slow = {"matmul_gflops": 1.0, "copy_gbs": 1.0, "send_gbps": 0.1, "cuda0.copy_gbs": 300.0}
    fast = {name: 10 * rate for name, rate in slow.items()}
    checks = ALL._replace(is_one_machine=True)
    [problem] = judged([slow, fast, fast], checks)
    assert problem.message.startswith("worker-0 on gpu-0: GPU 0 copies memory at 300 GB/s")


def test_gpus_of_all_nodes_are_compared() -> None:
    nodes = [{f"cuda{gpu}.matmul_tflops": 600.0 for gpu in range(2)} for _ in range(2)]
    nodes[1]["cuda1.matmul_tflops"] = 400.0
    assert slow_rates(nodes, ALL) == {Slow(1, "cuda1.matmul_tflops")}
    assert found(nodes)[0][2] == (
        "worker-1 on gpu-1: GPU 1 multiplies matrices at 400 TFLOP/s, and the median of the other "
        "GPUs is 600"
    )


def test_one_slow_gpu_of_a_single_node_is_found() -> None:
    assert slow_rates([{"cuda0.copy_gbs": 1000.0, "cuda1.copy_gbs": 300.0}], ALL) == {
        Slow(0, "cuda1.copy_gbs")
    }


def test_a_node_with_a_slow_link_is_named_and_its_neighbours_are_not() -> None:
    nodes = [{"send_gbps": 9.0, "receive_gbps": 9.2} for _ in range(4)]
    nodes[2]["receive_gbps"] = 0.9
    [problem] = judged(nodes)
    assert (problem.node, problem.code) == (2, "node-unhealthy")
    assert "worker-2 on gpu-2: receives from its neighbours at 0.9 Gbit/s" in problem.message
    assert "firewall" in problem.remedy


def test_of_two_nodes_neither_is_blamed_for_their_network() -> None:
    one, other = {"send_gbps": 9.0, "receive_gbps": 0.4}, {"send_gbps": 0.4, "receive_gbps": 9.0}
    [problem] = judged([one, other])
    assert problem.code == "node-network"
    assert problem.message == (
        "worker-0 on gpu-0 and worker-1 on gpu-1 reach only 0.4 to 0.4 Gbit/s on one connection, "
        "far less than in the other direction"
    )
    assert "exclude" not in problem.remedy


def test_a_network_far_below_the_catalogue_is_found_without_a_comparison() -> None:
    nodes = [{"send_gbps": 1.2, "receive_gbps": 1.2} for _ in range(4)]
    [problem] = judged(nodes, ALL._replace(gbps=100.0))
    assert problem.code == "node-network"
    assert problem.message.endswith("and the catalogue has 100 for the machine")
    assert judged(nodes, ALL._replace(gbps=4.0)) == []
    assert judged(nodes, ALL) == []


@pytest.mark.parametrize(
    ("reading", "code", "text"),
    [
        ({"gpu3.ecc_uncorrected": 2.0}, "node-unhealthy", "has 2 uncorrected memory errors"),
        ({"gpu3.remap_failed": 1.0}, "node-unhealthy", "could not remap a broken row"),
        ({"gpu3.retired_pages": 60.0}, "node-unhealthy", "has 60 retired pages"),
        ({"gpu3.xid": 79.0}, "node-unhealthy", "has reported error Xid 79"),
        ({"gpus": 7.0}, "node-unhealthy", "has 7 of the 8 GPUs of its machine"),
        ({"disk.tmp_free_bytes": 1e6}, "node-unhealthy", "the disk for temporary files has"),
        ({"disk.outputs_free_bytes": 1e6}, "node-disk", "the disk for outputs has space for 1 MB"),
        ({"disk.tmp_free_files": 0.0}, "node-unhealthy", "has space for no file more"),
    ],
)
def test_a_sign_of_a_fault_is_an_error(reading: Readings, code: str, text: str) -> None:
    [problem] = judged([reading], ALL._replace(gpus=8.0))
    assert (problem.node, problem.code, problem.is_error) == (0, code, True)
    assert text in problem.message
    assert problem.message.startswith("worker-0 on gpu-0")


@pytest.mark.parametrize(
    "reading",
    [
        {"gpu3.ecc_uncorrected": 0.0, "gpu3.retired_pages": 59.0, "gpu3.throttled": 1.0 + 4.0},
        {"gpu3.xid": 31.0},
        {"gpu3.xid": 63.0},
        {"gpus": 8.0},
        {"disk.tmp_free_bytes": 3e8, "disk.tmp_free_files": 1.0},
    ],
)
def test_what_healthy_nodes_report_is_no_finding(reading: Readings) -> None:
    assert judged([reading], ALL._replace(gpus=8.0)) == []


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        ({"gpu0.remap_pending": 1.0}, "waits for a reset"),
        ({"gpu0.throttled": 64.0}, "lowers its clock because of its temperature"),
        ({"gpus": 0.0}, "has no NVIDIA driver, so that checks.gpu has checked nothing"),
    ],
)
def test_what_harms_no_job_is_a_warning(reading: Readings, text: str) -> None:
    [problem] = judged([reading], ALL._replace(gpus=8.0))
    assert (problem.code, problem.is_error) == ("node-gpu", False)
    assert text in problem.message


@pytest.mark.parametrize(
    "checks", [ALL, Checks(cpu=True), Checks(network=True, gpu=True, gbps=0.75, gpus=8.0)]
)
def test_the_variable_is_read_as_it_was_written(checks: Checks) -> None:
    assert read_checks({"RSCTL_CHECKS": write_checks(checks)}) == checks


@pytest.mark.parametrize("text", ["disk", "network=fast", "gpu=-1", "gpu=nan"])
def test_a_variable_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="does not name checks"):
        read_checks({"RSCTL_CHECKS": text})
