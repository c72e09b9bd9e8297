"""Telemetry: what /proc and the GPU driver say, and the lines that a node prints of it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from rsctl.node.process_tree import Process, parse_stat
from rsctl.node.telemetry import Traffic, parse_traffic
from tests.kit.polling import wait_until

Launch = Callable[..., Any]
Script = Callable[[str], str]

STAT = (
    "4711 (a (strange) name) S 17 4711 4711 0 -1 4194560 2431 980 0 0 "
    "100 20 3 4 20 0 1 0 8812 12345678 640 18446744073709551615 1 1 0 0 0 0 0 4096 17475"
)

NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo: 7390      74    0    0    0     0          0         0     7390      74    0    0    0
  eth0:1234567    999    0    0    0     0          0         0   765432     888    0    0    0
"""

BUSY_UNTIL_STOPPED = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
server.accept()[0].sendall(bytes(100_000))
while not os.path.exists("stop"):
    client.setblocking(False)
"""


def test_a_process() -> None:
    assert parse_stat(STAT) == Process(pid=4711, parent=17, cpu_ticks=127, rss_pages=640, state="S")


def test_an_interface() -> None:
    assert parse_traffic(NET_DEV, "eth0") == Traffic(received=1234567, sent=765432)
    assert parse_traffic(NET_DEV, "lo") == Traffic(received=7390, sent=7390)
    assert parse_traffic(NET_DEV, "eth1") is None


def telemetry_of(node: Any, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first line that says enough."""
    while True:
        line = node.next_line("telemetry")
        if enough(line):
            return line  # type: ignore[no-any-return]


def test_a_container_tells_its_processor_memory_and_network(launch: Launch, script: Script) -> None:
    node = launch(
        *("--launcher", "once", "--python", "--", script(BUSY_UNTIL_STOPPED)),
        cluster_fields={"interface": "lo"},
        RSCTL_TARGET="compose",
        RSCTL_TELEMETRY_SECONDS="0.2",
    )
    line = telemetry_of(
        node, lambda line: line["cpu_percent"] > 20 and line["net_rx_bytes"] > 100_000
    )
    assert list(line) == ["rsctl", "cpu_percent", "rss_bytes", "net_rx_bytes", "net_tx_bytes"]
    assert line["cpu_percent"] < 150
    assert line["rss_bytes"] > 10_000_000
    assert line["net_rx_bytes"] == line["net_tx_bytes"]
    assert line["net_rx_bytes"] > 100_000


def test_a_process_does_not_tell_the_traffic_of_all(launch: Launch, script: Script) -> None:
    node = launch(
        *("--launcher", "once", "--python", "--", script(BUSY_UNTIL_STOPPED)),
        cluster_fields={"interface": "lo"},
        RSCTL_TARGET="process",
        RSCTL_TELEMETRY_SECONDS="0.2",
    )
    assert list(node.next_line("telemetry")) == ["rsctl", "cpu_percent", "rss_bytes"]


def test_none_if_so_wished(launch: Launch) -> None:
    node = launch("--launcher", "once", "--", "sleep", "0.3", RSCTL_TELEMETRY_SECONDS="0")
    assert (node.wait(), node.out) == (0, "")


FAKE_NVML = """
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
static int initialised;
static int devices[] = {0, 1};
int nvmlInit_v2(void) { initialised = 1; return FAILS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return initialised ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &devices[index]; return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization *out) {
    out->gpu = 93; out->memory = 40; return *(int *)device == 0 ? 0 : 3;
}
int nvmlDeviceGetMemoryInfo(void *device, memory *out) {
    out->total = 85899345920; out->free = 64424509440; out->used = 21474836480; return 0;
}
int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    const char *version = "570.86.15"; unsigned i = 0;
    do { out[i] = version[i]; } while (version[i++] && i < length);
    return 0;
}
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1410 : 1;
    return FAILS;
}
int nvmlDeviceGetName(void *device, char *out, unsigned length) {
    const char *name = "NVIDIA A100-SXM4-40GB"; unsigned i = 0;
    do { out[i] = name[i]; } while (name[i++] && i < length);
    return 0;
}
"""


@pytest.fixture
def driver(tmp_path: Path) -> Callable[..., str]:
    """Build a driver library that knows two GPUs; the second does not tell its use."""

    def build(fails: int = 0) -> str:
        (tmp_path / "nvml.c").write_text(FAKE_NVML)
        library = tmp_path / "libnvidia-ml.so.1"
        flags = ["-shared", "-fPIC", f"-DFAILS={fails}", "-o", str(library)]
        subprocess.run(["gcc", *flags, str(tmp_path / "nvml.c")], check=True)
        return str(tmp_path)

    return build


def test_gpus(launch: Launch, script: Script, driver: Callable[..., str]) -> None:
    node = launch(
        *("--launcher", "once", "--python", "--", script(BUSY_UNTIL_STOPPED)),
        RSCTL_TELEMETRY_SECONDS="0.2",
        LD_LIBRARY_PATH=driver(),
    )
    assert node.next_line("telemetry")["gpus"] == [
        {
            "index": 0,
            "util_percent": 93,
            "memory_bytes": 21474836480,
            "memory_total_bytes": 85899345920,
        },
        {"index": 1, "memory_bytes": 21474836480, "memory_total_bytes": 85899345920},
    ]


def test_a_driver_that_does_not_work_is_none(
    launch: Launch, script: Script, driver: Callable[..., str]
) -> None:
    node = launch(
        *("--launcher", "once", "--python", "--", script(BUSY_UNTIL_STOPPED)),
        RSCTL_TELEMETRY_SECONDS="0.2",
        LD_LIBRARY_PATH=driver(fails=9),
    )
    assert "gpus" not in node.next_line("telemetry")


def test_a_node_tells_once_what_it_runs_on(launch: Launch, driver: Callable[..., str]) -> None:
    node = launch(
        *("--launcher", "once", "--", "true"),
        LD_LIBRARY_PATH=driver(),
        RSCTL_TELEMETRY_SECONDS="10",
    )
    assert node.wait() == 0
    [line] = node.lines("versions")
    assert line["driver"] == "570.86.15"
    assert line["gpu"] == "2 x NVIDIA A100-SXM4-40GB"
    assert line["gpu_clock"] == "1410 MHz"
    assert line["python"] == platform.python_version()
    assert line["torch"] == version("torch")
    assert int(line["cores"]) >= 1
    assert line["cpu"]


def test_without_a_driver_its_version_is_left_out(launch: Launch) -> None:
    node = launch("--launcher", "once", "--", "true", RSCTL_TELEMETRY_SECONDS="10")
    assert node.wait() == 0
    assert {"driver", "gpu"}.isdisjoint(node.lines("versions")[0])


def test_the_nccl_that_pip_has_installed(launch: Launch, tmp_path: Path) -> None:
    for package in ("cu12-2.27.3", "cu98-2.28.9"):  # torch may have brought one too
        (tmp_path / f"nvidia_nccl_{package}.dist-info").mkdir()
    environ = {"RSCTL_TELEMETRY_SECONDS": "10", "PYTHONPATH": str(tmp_path)}
    node = launch("--launcher", "once", "--", "true", **environ)
    assert node.wait() == 0
    assert node.lines("versions")[0]["nccl"] == "2.28.9"


def test_a_line_of_the_command_is_not_cut_by_telemetry(launch: Launch, tmp_path: Path) -> None:
    """A command that writes blocks, not lines, leaves the beginning of one in the pipe."""
    go_on = tmp_path / "go-on"
    source = f"printf 'first half'; until test -e {go_on}; do sleep 0.05; done; echo ' second half'"
    node = launch(
        *("--launcher", "once", "--", "bash", "-c", source), RSCTL_TELEMETRY_SECONDS="0.1"
    )
    wait_until(lambda: '"rsctl": "telemetry"' in node.marked_out)
    go_on.touch()
    assert node.wait() == 0
    printed = node.marked_out.splitlines()
    assert [line for line in printed if not line.startswith('{"rsctl"')] == [
        "first half second half"
    ]
