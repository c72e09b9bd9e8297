"""The charts of a run's gradient exchange, and of the replicas that the others wait for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from rsctl.results.report.charts import Bar, BarChart, Chart
from rsctl.results.report.data import RunData
from rsctl.results.report.run_charts import byte_unit, over_time
from rsctl.runs.records import replica_order
from rsctl.runs.stream.gradients import REDUCER

DELAYS = 20
"""Delays in a chart at most."""

_LATE = re.compile(re.escape(REDUCER) + r"late\.(\d+)\.mean_ms")


def gradient_charts(data: RunData) -> Iterator[Chart]:
    """Bytes, times and rates of the gradients' exchange over reducers."""
    latest = {
        name: {replica: events[-1].value for replica, events in series.items()}
        for name, series in data.metrics.items()
        if name.startswith(("node.transport.", REDUCER))
    }
    sent = {
        **latest.get("node.transport.sent_bytes", {}),
        **latest.get("node.reducer.bytes_out", {}),
    }
    scale, unit = byte_unit(max(sent.values(), default=0.0))
    bars = [Bar(name, value / scale) for name, value in sent.items()]
    ring = ring_bytes(data)
    note = ""
    if bars and ring is not None:
        bars.append(Bar("worker in ring", ring / scale))
        note = "Each worker of a ring would have sent 2 (n - 1) / n of the bytes (model)."
    yield BarChart("Gradient bytes sent", f"{unit} in all", bars, note)
    yield from _time_charts(data, latest)
    for name, title in (
        ("node.transport.gbit_per_second", "Workers: sent while a gradient was in progress"),
        ("node.reducer.gbps_in", "Reducers: received"),
    ):
        series = data.metrics.get(name)
        if series and max(map(len, series.values())) > 1:
            yield over_time(data, title, "Gbit/s", series, from_zero=True)


def _time_charts(data: RunData, latest: dict[str, dict[str, float]]) -> Iterator[Chart]:
    """The time of gradients in transit, with the links' minimum and the time of a ring.

    A ring of n workers moves 2 (n - 1) / n of the gradient's bytes over each link: Patarasuk and
    Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of
    Parallel and Distributed Computing 69 (2009), section 3. To that least time as many seconds
    are added as were measured beside the wire here (`rsctl.runs.stream.gradients`).
    """
    travel = data.gradients
    if travel is not None and travel.wire_seconds and travel.ring_seconds:
        yield BarChart(
            "Time of all gradients",
            "s",
            [
                Bar("measured, the slowest rank", travel.seconds),
                Bar("the minimum that the links allow with these reducers", travel.wire_seconds),
                Bar("model: a ring of the workers with the same delays", travel.ring_seconds),
            ],
            note="The ring is a model: 2 (n - 1) / n of the bytes over each of n links (Patarasuk "
            "and Yuan 2009), plus the measured time that is not spent on the wire.",
        )
    stalled = latest.get("node.transport.stalled_seconds", {})
    for title, found in (
        ("Time of gradients on each worker", latest.get("node.transport.busy_seconds", {})),
        ("Time that a full window delayed gradients", stalled),
    ):
        if any(found.values()):
            yield BarChart(title, "s", [Bar(replica, value) for replica, value in found.items()])


def ring_bytes(data: RunData) -> float | None:
    """The bytes that each of n workers with one rank would have sent in a ring: 2 (n - 1) / n of
    the gradients.

    None without gradients, and if several ranks of a node first reduce inside it.
    """
    nodes = worker_nodes(data)
    if data.gradients is None or nodes < 2 or nodes != data.run.plan.get("world_size"):
        return None
    return 2 * (nodes - 1) / nodes * data.gradients.bytes


def worker_nodes(data: RunData) -> int:
    """How many workers the run has."""
    pools: list[dict[str, Any]] = data.run.plan.get("pools") or []
    return sum(pool.get("count") or 0 for pool in pools if pool.get("role") == "worker")


def straggler_charts(data: RunData) -> Iterator[Chart]:
    """Who keeps the others waiting, by the reducers and by the times of steps in the log."""
    waits: dict[int, float] = {}
    for name, series in data.metrics.items():
        if match := _LATE.fullmatch(name):
            value = max(events[-1].value for events in series.values())
            waits[int(match[1])] = max(value, waits.get(int(match[1]), 0.0))
    if waits:
        yield _delays(
            "How long reducers wait for each rank",
            "ms per block on average, after the first",
            {f"rank {rank}": waits[rank] for rank in sorted(waits)},
        )
    behind = _behind(data)
    if behind:
        yield _delays(
            "How far each replica is behind the first at the same step",
            "s, median over steps",
            behind,
            note="Calculated from the times at which lines of the same step were logged; between "
            "machines this includes the difference of their clocks.",
        )


def _delays(title: str, axis: str, delays: Mapping[str, float], note: str = "") -> BarChart:
    """A bar for each; of many, the longest."""
    shown = list(delays.items())
    if len(shown) > DELAYS:
        shown = sorted(shown, key=lambda delay: -delay[1])[:DELAYS]
        note = f"The {DELAYS} longest of {len(delays)}. {note}".strip()
    return BarChart(title, axis, [Bar(*delay) for delay in shown], note)


def _behind(data: RunData) -> dict[str, float]:
    """By replica, the median of its delay behind the first one that logs the same step."""
    shared: list[dict[str, str]] = []
    for arrivals in data.arrivals.values():
        most = max((len(found) for found in arrivals.times.values()), default=0)
        complete = [found for found in arrivals.times.values() if len(found) == most > 1]
        if (most, len(complete)) > (len(shared[0]) if shared else 0, len(shared)):
            shared = complete
    delays: dict[str, list[float]] = {}
    for times in shared:
        known = {r: s for r, time in times.items() if (s := data.seconds(time)) is not None}
        for replica in sorted(known, key=replica_order):
            delays.setdefault(replica, []).append(known[replica] - min(known.values()))
    return {replica: median(behind) for replica, behind in delays.items()}
