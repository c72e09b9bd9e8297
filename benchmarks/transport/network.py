"""A star of network namespaces: each node has a shaped link to a switch that is a bridge.

The switch has a namespace of its own: where Docker runs, the kernel passes bridged packets through
the firewall of their namespace. Links are shaped in both directions, each by itself, where the
packets leave: on the node's end and on the switch's port.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_NAME = "rsbench"
_SMALLEST_BURST_BYTES = 72 * 1024
_BURST_SECONDS = 0.001
_SENDER_QUEUE_SECONDS = 0.1


@dataclass(frozen=True)
class Link:
    """A node's link: bit/s in each direction, MTU, and bytes that the switch's port can hold."""

    bits: float
    mtu: int = 1500
    buffer: int = 3_000_000


class Star:
    """Makes the nodes and takes them away again, with the processes in them, also at SIGTERM.

    The namespaces' names have the id of this process: benchmarks may run beside each other.
    """

    def __init__(self, links: Sequence[Link], loss: float = 0) -> None:
        name = f"{_NAME}{os.getpid()}"
        self._switch = f"{name}-switch"
        self._nodes = [f"{name}-{i}" for i in range(len(links))]
        self._links = links
        self._loss = loss

    def __enter__(self) -> Star:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        _remove_left_over()
        _run("ip", "netns", "add", self._switch)
        _inside(self._switch, "ip", "link", "add", "bridge", "type", "bridge")
        mtu = max(link.mtu for link in self._links)
        _inside(self._switch, "ip", "link", "set", "bridge", "mtu", str(mtu), "up")
        for number, link in enumerate(self._links):
            self._plug_in(number, link)
        return self

    def __exit__(self, *_: object) -> None:
        for name in {self._switch, *self._nodes} & set(_namespaces()):
            _remove(name)

    def _plug_in(self, number: int, link: Link) -> None:
        node, port, mtu = self._nodes[number], f"port{number}", str(link.mtu)
        _run("ip", "netns", "add", node)
        ends = ["eth0", "mtu", mtu, "netns", node, "type", "veth"]
        _run("ip", "link", "add", *ends, "peer", port, "mtu", mtu, "netns", self._switch)
        _inside(self._switch, "ip", "link", "set", port, "master", "bridge", "up")
        _inside(node, "ip", "address", "add", f"{self.address(number)}/16", "dev", "eth0")
        for device in ("lo", "eth0"):
            _inside(node, "ip", "link", "set", device, "up")
        queue = round(link.bits / 8 * _SENDER_QUEUE_SECONDS)
        _inside(node, *_tbf("eth0", link, queue))
        _inside(self._switch, *_tbf(port, link, link.buffer))
        if self._loss:
            match = ["-m", "statistic", "--mode", "random", "--probability", str(self._loss)]
            _inside(node, "iptables", "-A", "INPUT", "-i", "eth0", *match, "-j", "DROP")

    def address(self, number: int) -> str:
        """The address of a node."""
        return f"10.77.{number // 200}.{number % 200 + 1}"

    def command(self, number: int, command: Sequence[str]) -> list[str]:
        """The command that runs this one on a node."""
        return ["ip", "netns", "exec", self._nodes[number], *command]


def _namespaces() -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines()]


def _remove_left_over() -> None:
    """Remove namespaces of benchmarks that were killed."""
    for name in _namespaces():
        made_by = re.match(rf"{_NAME}(\d+)-", name)
        if made_by and not os.path.exists(f"/proc/{made_by[1]}"):
            _remove(name)


def _remove(name: str) -> None:
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
    for pid in map(int, listed.stdout.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _run("ip", "netns", "del", name)


def _tbf(device: str, link: Link, queue: int) -> list[str]:
    burst = max(_SMALLEST_BURST_BYTES, round(link.bits / 8 * _BURST_SECONDS))
    rate = f"{round(link.bits)}bit"
    shape = ["tbf", "rate", rate, "burst", str(burst), "limit", str(burst + queue)]
    return ["tc", "qdisc", "add", "dev", device, "root", *shape]


def _inside(namespace: str, *command: str) -> None:
    _run("ip", "netns", "exec", namespace, *command)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
