"""The checks of real nodes on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rsctl.node.process_tree import tree
from tests.kit.disks import small_disk as small_disk
from tests.kit.polling import wait_until
from tests.node.conftest import LaunchNode, Node

TOKEN = "0123456789abcdef"
ENDED = ["bash", "-c", "echo started"]

FAKE_NVML = """
static int devices[] = {0, 1};
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } event;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &devices[index]; return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    *count = (*(int *)device == 1 && kind == 1 && counter == 0) ? ERRORS : 0; return 0;
}
int nvmlDeviceGetRemappedRows(
    void *device, unsigned *fixed, unsigned *broken, unsigned *pending, unsigned *failed
) {
    *fixed = 1; *broken = 1; *pending = 1; *failed = 0; return 0;
}
int nvmlDeviceGetRetiredPages(void *device, int cause, unsigned *count, unsigned long long *at) {
    return 3;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    *reasons = 64; return 0;
}
int nvmlEventSetCreate(void **set) { *set = devices; return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long kind, void *set) {
    return kind == 8 ? 0 : 2;
}
int nvmlEventSetWait_v2(void *set, event *out, unsigned timeout) {
    static int seen = 0;
    if (seen++ || !XID) return 10;
    out->device = &devices[1]; out->data = XID; return 0;
}
"""


@pytest.fixture
def driver(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Build a driver library with two GPUs, the second with so many errors and this Xid; returns
    the variables by which a node finds it, and a PyTorch that sees no GPU.
    """

    def build(errors: int = 0, xid: int = 0) -> dict[str, str]:
        (tmp_path / "nvml.c").write_text(FAKE_NVML)
        flags = ["-shared", "-fPIC", f"-DERRORS={errors}", f"-DXID={xid}"]
        output = str(tmp_path / "libnvidia-ml.so.1")
        subprocess.run(["gcc", *flags, "-o", output, str(tmp_path / "nvml.c")], check=True)
        (tmp_path / "torch.py").write_text("class cuda: device_count = int\n")
        return {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}

    return build


Start = Callable[..., list[Node]]


@pytest.fixture
def start(launch: LaunchNode, free_port: int) -> Start:
    """Start the nodes of a job on this machine. With the address of a loopback they know that they
    share it, as in a rehearsal; with its name they do not.
    """

    def begin(count: int, checks: str, host: str = "127.0.0.1", **variables: str) -> list[Node]:
        port = str(free_port)
        common = {"RSCTL_CHECKS": checks, "RSCTL_PORT": port, "RSCTL_TOKEN": TOKEN}
        hosts = [host] * count
        return [
            launch(
                *("--launcher", "once", "--", *ENDED),
                cluster_fields={"workers": hosts, "index": index},
                **{**common, "RSCTL_TARGET": "process", "RSCTL_RUN": "r", **variables},
            )
            for index in range(count)
        ]

    return begin


def check_lines(node: Node) -> dict[str, Any]:
    return {k: v for line in node.lines("telemetry") for k, v in line.get("check", {}).items()}


@contextmanager
def slowed(node: Node) -> Iterator[None]:
    """Stop what measures a node for most of the time, as a limit of its processor does.

    It also runs long enough to get its share of a busy machine, and to end within its limit.
    """
    has_ended = threading.Event()

    def throttle() -> None:
        group = measuring(node)
        while not has_ended.is_set():
            _signal(group, signal.SIGSTOP)
            has_ended.wait(0.3)
            _signal(group, signal.SIGCONT)
            has_ended.wait(0.05)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def measuring(node: Node) -> int:
    """Wait for the process that measures a node, whose number is that of its group."""

    def found() -> list[int]:
        return [p.pid for p in tree(node.process.pid) if p.parent == node.process.pid]

    return int(wait_until(found)[0])


def _signal(group: int, signum: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signum)


@pytest.mark.parametrize(
    ("checks", "variables"),
    [("network,cpu", {}), ("cpu", {"host": "localhost", "RSCTL_TARGET": "compose"})],
)
def test_nodes_that_share_a_machine_are_not_compared(
    start: Start, checks: str, variables: dict[str, str]
) -> None:
    """On a busy machine one of them may get far less of it than the others. They record their
    readings and start their commands.
    """
    nodes = start(3, checks, **variables)
    with slowed(nodes[1]):
        assert [node.wait() for node in nodes] == [0, 0, 0]
    rates = {"copy_gbs", "matmul_gflops", "send_gbps", "receive_gbps"}
    expected = rates if "network" in checks else rates - {"send_gbps", "receive_gbps"}
    for node in nodes:
        assert "started" in node.out
        assert node.lines("finding") == []
        readings = check_lines(node)
        assert {name for name in rates & readings.keys() if readings[name] > 0} == expected
        assert readings["disk.tmp_free_bytes"] > 0


def test_a_slow_node_is_named_and_ends_the_job_before_any_command(start: Start) -> None:
    for _ in range(5):  # on a busy machine the check may end before it is sure
        nodes = start(3, "cpu", host="localhost")
        with slowed(nodes[1]):
            codes = [node.wait() for node in nodes]
        if any(codes):
            break
    assert codes == [1, 75, 1]
    errors = [f for f in nodes[1].lines("finding") if f["severity"] == "error"]
    assert {f["code"] for f in errors} == {"node-unhealthy"}
    for error in errors:  # one product can be done between two stops
        assert re.match("worker-1 on .* (multiplies matrices|copies memory) at", error["message"])
    for node in (nodes[0], nodes[2]):
        assert node.lines("finding") == []
        assert "Connection closed by peer: the checks of worker-1 have failed" in node.err
    assert not any("started" in node.out for node in nodes)


def test_a_full_disk_ends_the_job(start: Start, small_disk: Path) -> None:
    [node] = start(1, "cpu", RSCTL_OUTPUT_DIR=str(small_disk))
    assert node.wait() == 75
    [finding] = node.lines("finding")
    assert finding["code"] == "node-disk"
    assert "the disk for outputs has space for" in finding["message"]


def test_memory_errors_of_a_gpu_end_the_job(
    start: Start, driver: Callable[..., dict[str, str]]
) -> None:
    [node] = start(1, "gpu=2", **driver(errors=3))
    assert node.wait() == 75
    errors = [f for f in node.lines("finding") if f["severity"] == "error"]
    assert [f["code"] for f in errors] == ["node-unhealthy"]
    assert "GPU 1 has 3 uncorrected memory errors" in errors[0]["message"]
    assert check_lines(node)["gpu1.ecc_uncorrected"] == 3


def test_an_error_of_the_driver_ends_the_job(
    start: Start, driver: Callable[..., dict[str, str]]
) -> None:
    [node] = start(1, "gpu=2", **driver(xid=79))
    assert node.wait() == 75
    assert any("GPU 1 has reported error Xid 79" in f["message"] for f in node.lines("finding"))


def test_a_gpu_that_waits_for_a_reset_is_a_warning(
    start: Start, driver: Callable[..., dict[str, str]]
) -> None:
    [node] = start(1, "gpu=2", **driver(xid=31))
    assert (node.wait(), "started" in node.out) == (0, True)
    found = [f for f in node.lines("finding") if f["code"] == "node-gpu"]
    texts = [(f["severity"], f["message"].partition(": ")[2]) for f in found]
    assert sorted(texts) == [
        ("warning", "GPU 0 lowers its clock because of its temperature"),
        ("warning", "GPU 0 waits for a reset to replace broken memory"),
        ("warning", "GPU 1 lowers its clock because of its temperature"),
        ("warning", "GPU 1 waits for a reset to replace broken memory"),
    ]


def test_a_machine_with_a_gpu_too_few_is_refused(
    start: Start, driver: Callable[..., dict[str, str]]
) -> None:
    nodes = start(1, "gpu=8", RSCTL_CLUSTER=_named_cluster(), **driver())
    assert nodes[0].wait() == 75
    assert any("has 2 of the 8 GPUs" in f["message"] for f in nodes[0].lines("finding"))


def _named_cluster() -> str:
    """A node with a name, as it has outside of a rehearsal."""
    return '{"role": "worker", "index": 0, "workers": ["localhost"], "reducers": []}'


def test_a_stop_ends_the_checks_and_what_they_started(
    start: Start, gone: Callable[[int], None]
) -> None:
    nodes = start(2, "cpu")
    child = measuring(nodes[0])
    nodes[0].process.send_signal(signal.SIGTERM)
    assert nodes[0].wait() == 143
    gone(child)
    assert nodes[1].wait() == 1
    assert "Connection closed by peer: the chief has gone" in nodes[1].err


def test_an_absent_node_is_named(launch: LaunchNode, free_port: int) -> None:
    node = launch(
        *("--launcher", "once", "--", *ENDED),
        cluster_fields={"workers": ["127.0.0.1"] * 2},
        RSCTL_CHECKS="cpu",
        RSCTL_TOKEN=TOKEN,
        RSCTL_PORT=str(free_port),
        RSCTL_TARGET="process",
        RSCTL_RESOLVE_SECONDS="0.5",
    )
    assert node.wait() == 75
    [finding] = node.lines("finding")
    assert "have not joined the checks: worker-1" in finding["message"]


def test_the_rates_of_a_device_by_pytorch(torch_forks: dict[str, str], tmp_path: Path) -> None:
    """There is no GPU in tests: the same code with a processor as the device, on which four
    products of two matrices, or four copies, take 1/16 s.
    """
    source = """
import json, torch
from types import SimpleNamespace
from rsctl.node.health import gpu_rates

waits = []
gpu_rates.time = SimpleNamespace(monotonic=lambda: len(waits) / 16)
device, wait = torch.device("cpu"), lambda: waits.append(None)
print(json.dumps(gpu_rates.rates(torch, device, torch.float32, wait, 64, 1 << 20)))
"""
    (tmp_path / "measure.py").write_text(source)
    command = [sys.executable, str(tmp_path / "measure.py")]
    environ = {**os.environ, **torch_forks}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == pytest.approx(
        {"matmul_tflops": 64 * 2 * 64**3 / 1e12, "copy_gbs": 64 * (1 << 20) / 1e9}
    )
