"""The current resource usage of a run's machines, by their telemetry, in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import fmean

from rsctl.runs.stream.events import Event, MetricEvent, seconds_between
from rsctl.runs.stream.formatting import format_bytes

_GPU = re.compile(r"node\.gpu\d+\.(util_percent|memory_bytes|memory_total_bytes)")
_SHOWN = re.compile(rf"node\.(cpu_percent|net_[tr]x_bytes)|{_GPU.pattern}")
_COUNTERS = ("node.net_tx_bytes", "node.net_rx_bytes")


class MachineUse:
    """The last telemetry of each worker. Bytes per second are the mean between its last two
    readings.
    """

    def __init__(self) -> None:
        self._last: dict[str, dict[str, MetricEvent]] = {}
        self._rates: dict[str, dict[str, float]] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Take events; ignores all that are not telemetry of a worker."""
        for event in events:
            if isinstance(event, MetricEvent) and _SHOWN.fullmatch(event.name):
                self._take(event)

    def format(self) -> str:
        """`CPU 3.8 cores  GPU 97 %, 61 GB of 80 GB  network 1.2 GB/s out, 1.1 GB/s in`, the mean of
        the workers; empty without telemetry.
        """
        parts = []
        if cpu := self._values("node.cpu_percent"):
            parts.append(f"CPU {fmean(cpu) / 100:.2g} cores")
        if gpu := self._gpus():
            parts.append(gpu)
        rates = [[r[name] for r in self._rates.values() if name in r] for name in _COUNTERS]
        if all(rates):
            sent, received = (f"{format_bytes(round(fmean(rate)))}/s" for rate in rates)
            parts.append(f"network {sent} out, {received} in")
        workers = len(self._last)
        return "  ".join(parts) + (
            f"  (mean of {workers} workers)" if workers > 1 and parts else ""
        )

    def _take(self, event: MetricEvent) -> None:
        if not event.replica.startswith("worker-"):
            return
        last = self._last.setdefault(event.replica, {})
        if event.name in _COUNTERS and (before := last.get(event.name)):
            rate = _rate(before, event)
            if rate is not None:
                self._rates.setdefault(event.replica, {})[event.name] = rate
        last[event.name] = event

    def _values(self, name: str) -> list[float]:
        return [last[name].value for last in self._last.values() if name in last]

    def _gpus(self) -> str:
        values: dict[str, list[float]] = {}
        for last in self._last.values():
            for name, event in last.items():
                if match := _GPU.fullmatch(name):
                    values.setdefault(match[1], []).append(event.value)
        parts = []
        if used := values.get("util_percent"):
            parts.append(f"{fmean(used):.0f} %")
        if (memory := values.get("memory_bytes")) and (total := values.get("memory_total_bytes")):
            parts.append(
                f"{format_bytes(round(fmean(memory)))} of {format_bytes(round(fmean(total)))}"
            )
        return f"GPU {', '.join(parts)}" if parts else ""


def _rate(before: MetricEvent, after: MetricEvent) -> float | None:
    """Bytes a second; None for a counter that was reset, and for damaged times."""
    try:
        seconds = seconds_between(before.time, after.time)
    except ValueError:
        return None
    sent = after.value - before.value
    return sent / seconds if seconds > 0 and sent >= 0 else None
