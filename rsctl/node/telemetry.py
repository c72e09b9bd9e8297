"""Telemetry: one structured line every few seconds with what this node uses."""

from __future__ import annotations

import os
import threading
import time
from functools import cached_property
from typing import NamedTuple

from rsctl.node.nvml import Nvml
from rsctl.node.process_tree import tree
from rsctl.node.structured_lines import emit

_NETWORK_COUNTERS = "/proc/self/net/dev"
_FIRST_SECONDS = 2.0
_THREAD = "rsctl-telemetry"


class Traffic(NamedTuple):
    """Bytes that an interface has received and sent."""

    received: int
    sent: int


def parse_traffic(text: str, interface: str) -> Traffic | None:
    """Read one interface of /proc/net/dev; None if it does not exist."""
    for row in text.splitlines():
        name, _, counters = row.partition(":")
        if name.strip() == interface:
            fields = counters.split()
            return Traffic(received=int(fields[0]), sent=int(fields[8]))
    return None


def start_telemetry(interval: float, interface: str | None) -> None:
    """Print a `telemetry` line every `interval` seconds, from a thread, until this process ends.

    The first comes after two seconds, so that short jobs have one too. 0 prints none. Without an
    interface there are no network counters. Traffic and CPU time count from this call. Memory
    that processes share counts once for each. A process has one such thread, however often it asks.
    """
    if interval > 0 and not any(each.name == _THREAD for each in threading.enumerate()):
        meter = Meter(interface)
        threading.Thread(target=_run, args=(meter, interval), name=_THREAD, daemon=True).start()


def _run(meter: Meter, interval: float) -> None:
    wait = min(interval, _FIRST_SECONDS)
    while True:
        time.sleep(wait)
        wait = interval
        if fields := meter.read():
            emit("telemetry", fields)


class Meter:
    """Reads what a process and those below it use, since the last reading or since the start.

    It is this process, unless `root` is the number of another.
    """

    def __init__(self, interface: str | None, root: int | None = None) -> None:
        self._interface = interface
        self._root = os.getpid() if root is None else root
        self._traffic_at_start = self._traffic()
        self._time = time.monotonic()
        self._cpu_ticks = sum(process.cpu_ticks for process in tree(self._root))

    def read(self) -> dict[str, object]:
        """The fields of a `telemetry` line; what cannot be known is left out."""
        return {**self._read_processes(), **self._read_network(), **self._read_gpus()}

    def _read_processes(self) -> dict[str, object]:
        processes = tree(self._root)
        if not processes:
            return {}
        now = time.monotonic()
        cpu_ticks = sum(process.cpu_ticks for process in processes)
        used = (cpu_ticks - self._cpu_ticks) / os.sysconf("SC_CLK_TCK")
        passed = now - self._time
        rss_pages = sum(process.rss_pages for process in processes)
        self._time, self._cpu_ticks = now, cpu_ticks
        return {
            # A process that is never reaped takes its CPU time with it.
            "cpu_percent": round(max(0.0, 100 * used / passed), 1),
            "rss_bytes": rss_pages * os.sysconf("SC_PAGE_SIZE"),
        }

    def _read_network(self) -> dict[str, object]:
        before, now = self._traffic_at_start, self._traffic()
        if before is None or now is None:
            return {}
        return {
            "net_rx_bytes": now.received - before.received,
            "net_tx_bytes": now.sent - before.sent,
        }

    @cached_property
    def _gpus(self) -> Nvml | None:
        # Some drivers take seconds to wake up: that is for the thread to wait for, not for the job.
        return Nvml.load()

    def _read_gpus(self) -> dict[str, object]:
        return {"gpus": self._gpus.read()} if self._gpus else {}

    def _traffic(self) -> Traffic | None:
        if self._interface is None:
            return None
        try:
            with open(_NETWORK_COUNTERS, encoding="utf-8") as counters:
                return parse_traffic(counters.read(), self._interface)
        except OSError:
            return None
