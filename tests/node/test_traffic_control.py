"""Network shaping: the commands as wholes, real shaping in network namespaces, and refusals."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rsctl.node.traffic_control import NetworkLimits, tc_commands

needs_namespaces = pytest.mark.skipif(
    os.environ.get("CI") != "true" and (os.geteuid() != 0 or shutil.which("tc") is None),
    reason="needs root and iproute2",
)

BANDWIDTH = 20_000_000
PAYLOAD_BYTES = 1_500_000
SHAPED_SECONDS = PAYLOAD_BYTES * 8 / BANDWIDTH

Launch = Callable[..., Any]


def lines(limits: NetworkLimits) -> list[str]:
    return [" ".join(command) for command in tc_commands(limits, "eth0")]


def test_bandwidth_is_limited_in_both_directions() -> None:
    assert lines(NetworkLimits(bandwidth=1_000_000_000, delay=0)) == [
        "tc qdisc add dev eth0 root tbf rate 1000000000bit burst 125000 limit 12625000",
        "ip link add rsctl-ifb type ifb",
        "ip link set rsctl-ifb up",
        "tc qdisc add dev rsctl-ifb root tbf rate 1000000000bit burst 125000 limit 12625000",
        "tc qdisc add dev eth0 handle ffff: ingress",
        "tc filter add dev eth0 parent ffff: protocol all u32 match u32 0 0"
        " action mirred egress redirect dev rsctl-ifb",
    ]


def test_delay_is_added_on_sending() -> None:
    assert lines(NetworkLimits(bandwidth=0, delay=0.0005)) == [
        "tc qdisc add dev eth0 root handle 1: netem delay 500us limit 100000",
    ]


def test_delay_comes_before_the_limited_bandwidth() -> None:
    assert lines(NetworkLimits(bandwidth=200_000_000, delay=0.02))[:2] == [
        "tc qdisc add dev eth0 root handle 1: netem delay 20000us limit 100000",
        "tc qdisc add dev eth0 parent 1:1 tbf rate 200000000bit burst 73728 limit 2573728",
    ]


def test_no_limits_need_no_tools(launch: Launch, tmp_path: Path) -> None:
    node = launch("--launcher", "once", "--", sys.executable, "-c", "", PATH=str(tmp_path))
    assert (node.wait(), node.out) == (0, "")


def refused(launch: Launch, tools: Path, **network: str) -> dict[str, Any]:
    """The finding of a node that has these tools and must shape its network."""
    node = launch(
        *("--launcher", "once", "--", sys.executable, "-c", ""),
        cluster_fields={"interface": "eth0"},
        PATH=str(tools),
        **network,
    )
    assert node.wait() == 78
    return json.loads(node.out)  # type: ignore[no-any-return]


def fake_tool(folder: Path, name: str, complaint: str) -> None:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\necho '{complaint}' >&2\nexit 2\n")
    tool.chmod(0o755)


def test_an_image_without_iproute2(launch: Launch, tmp_path: Path) -> None:
    assert refused(launch, tmp_path, RSCTL_NET_BANDWIDTH="1000000") == {
        "rsctl": "finding",
        "severity": "error",
        "code": "network-shaping",
        "message": "cannot apply targets.compose.network here: this image does not have `tc`",
        "remedy": "Add iproute2 to image.apt.",
    }


@pytest.mark.parametrize(
    ("complaint", "network", "remedy"),
    [
        (
            "Error: Specified qdisc kind is unknown.",
            {"RSCTL_NET_DELAY": "0.001"},
            "This host's kernel has no netem: remove targets.compose.network.delay.",
        ),
        (
            "RTNETLINK answers: Operation not permitted",
            {"RSCTL_NET_BANDWIDTH": "1000000"},
            "Give the container the capability NET_ADMIN, which rsctl requests from Docker.",
        ),
        (
            'Cannot find device "eth0"',
            {"RSCTL_NET_BANDWIDTH": "1000000"},
            "This node has no such interface; check `ip link` in the container.",
        ),
        (
            "Error: Specified qdisc kind is unknown.",
            {"RSCTL_NET_BANDWIDTH": "1000000"},
            "If this host's kernel does not support this, remove targets.compose.network.",
        ),
    ],
)
def test_what_tc_complains_of(
    launch: Launch, tmp_path: Path, complaint: str, network: dict[str, str], remedy: str
) -> None:
    fake_tool(tmp_path, "tc", complaint)
    finding = refused(launch, tmp_path, **network)
    assert finding["message"].startswith("cannot apply targets.compose.network here: `tc ")
    assert finding["message"].endswith(f"`: {complaint}")
    assert finding["remedy"] == remedy


def test_no_interface_is_known(launch: Launch) -> None:
    node = launch("--launcher", "once", "--", "true", RSCTL_NET_BANDWIDTH="1000000")
    assert node.wait() == 78
    assert node.lines("finding")[0]["message"].endswith("there is no known interface to limit")


_numbers = itertools.count(os.getpid() * 100)


@pytest.fixture
def link() -> Iterator[tuple[str, str]]:
    """Two network namespaces, 10.77.0.1 and 10.77.0.2 on their eth0, joined by a cable."""
    names = [f"rsctl-test-{next(_numbers)}" for _ in range(2)]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        cable = ["type", "veth", "peer", "name", "eth0", "netns", names[1]]
        subprocess.run(["ip", "-n", names[0], "link", "add", "eth0", *cable], check=True)
        for host, name in enumerate(names, start=1):
            address = ["addr", "add", f"10.77.0.{host}/24", "dev", "eth0"]
            subprocess.run(["ip", "-n", name, *address], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "eth0", "up"], check=True)
        yield names[0], names[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=True)


SERVER = """
import socket, sys
with socket.create_server(("0.0.0.0", 7000)) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    with connection:
        while connection.recv(1 << 16):
            pass
        connection.sendall(b"!")
"""

CLIENT = """
import socket, sys, time
began = time.monotonic()
with socket.create_connection((sys.argv[1], 7000)) as connection:
    connection.sendall(bytes(int(sys.argv[2])))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
print(time.monotonic() - began)
"""


def within(namespace: str) -> list[str]:
    return ["ip", "netns", "exec", namespace]


def seconds_to_send(sender: str, receiver: str, address: str) -> float:
    """How long PAYLOAD_BYTES take from one namespace to the other."""
    with subprocess.Popen(
        [*within(receiver), sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        argv = [*within(sender), sys.executable, "-c", CLIENT, address, str(PAYLOAD_BYTES)]
        return float(subprocess.check_output(argv))


@needs_namespaces
def test_a_shaped_node_sends_and_receives_no_faster(launch: Launch, link: tuple[str, str]) -> None:
    shaped, free = link
    assert seconds_to_send(shaped, free, "10.77.0.2") < SHAPED_SECONDS
    node = launch(
        *("--launcher", "once", "--", "true"),
        via=within(shaped),
        cluster_fields={"interface": "eth0"},
        RSCTL_NET_BANDWIDTH=str(BANDWIDTH),
    )
    assert (node.wait(), node.out, node.err) == (0, "", "")
    # The first burst, of 72 KiB, passes at once.
    assert seconds_to_send(shaped, free, "10.77.0.2") > 0.9 * SHAPED_SECONDS
    assert seconds_to_send(free, shaped, "10.77.0.1") > 0.9 * SHAPED_SECONDS


@needs_namespaces
def test_delay_is_real_or_refused(launch: Launch, link: tuple[str, str]) -> None:
    """Kernels differ: what counts is that nothing is dropped in silence."""
    shaped, probe = link
    netem = ["tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "1ms"]
    has_netem = subprocess.run([*within(probe), *netem], capture_output=True).returncode == 0
    node = launch(
        *("--launcher", "once", "--", "tc", "qdisc", "show", "dev", "eth0"),
        via=within(shaped),
        cluster_fields={"interface": "eth0"},
        RSCTL_NET_BANDWIDTH=str(BANDWIDTH),
        RSCTL_NET_DELAY="0.002",
    )
    if has_netem:
        assert node.wait() == 0
        assert "netem" in node.out
        assert "delay 2ms" in node.out
        assert "tbf" in node.out
    else:
        assert node.wait() == 78
        (finding,) = node.lines("finding")
        assert finding["remedy"] == (
            "This host's kernel has no netem: remove targets.compose.network.delay."
        )
