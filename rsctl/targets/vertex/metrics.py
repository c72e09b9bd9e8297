"""Cloud Monitoring's metrics of a job's nodes, one value a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from rsctl.runs.stream.events import MetricEvent
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.pools import Roles, replica_of
from rsctl.targets.vertex.timestamps import event_time, timestamp

Query = Callable[[str, dict[str, str]], dict[str, Any]]
"""GET of a path of the service with a query; the answer's JSON, {} if it does not exist."""

PERIOD = 60.0
"""Seconds between two measurements, and the shortest period for aggregation."""

_SHORTEST = 0.1  # for an emulator, where all times are shorter
_LONGEST = 2 * 3600.0
_PAGES = 20


class _Kind(NamedTuple):
    """One of the service's metrics, and its name in rsctl."""

    type: str
    name: str
    aligner: str
    is_summed: bool


_KINDS = (
    _Kind("cpu/utilization", "cpu.utilization", "ALIGN_MEAN", False),
    _Kind("memory/utilization", "memory.utilization", "ALIGN_MEAN", False),
    _Kind("accelerator/utilization", "accelerator.utilization", "ALIGN_MEAN", False),
    _Kind("accelerator/memory/utilization", "accelerator.memory.utilization", "ALIGN_MEAN", False),
    _Kind("network/received_bytes_count", "network.received_bytes_per_s", "ALIGN_RATE", True),
    _Kind("network/sent_bytes_count", "network.sent_bytes_per_s", "ALIGN_RATE", True),
)


class MonitoringInterval(NamedTuple):
    """A time span, in seconds since 1970."""

    start: float
    end: float


def span_of(after: float, end: float, factor: float) -> MonitoringInterval | None:
    """Whole periods between two times, at most two hours; None if there is none.

    The periods' limits are the same on every call, so that no time is measured twice.
    """
    period = max(PERIOD * factor, _SHORTEST)
    last = end // period * period
    first = max(after // period * period, last - _LONGEST)
    return MonitoringInterval(first, last) if last > first else None


def measure(
    query_service: Query, address: JobAddress, span: MonitoringInterval, roles: Roles
) -> list[MetricEvent]:
    """The measurements of a span, in order of time. One request for each metric, or a few.

    `roles` are the roles of the job's worker pools.

    Utilizations are fractions of 1; for a node with several devices, the mean. The nodes' received
    and sent data is in bytes per second.
    """
    events = [
        event for kind in _KINDS for event in _of_kind(query_service, address, span, kind, roles)
    ]
    return sorted(events, key=lambda event: event.time)


def _of_kind(
    query_service: Query, address: JobAddress, span: MonitoringInterval, kind: _Kind, roles: Roles
) -> Iterator[MetricEvent]:
    found: dict[tuple[str, str], list[float]] = {}
    for series in _series(query_service, address, span, kind):
        labels = (series.get("resource") or {}).get("labels") or {}
        replica = replica_of(labels.get("task_name"), roles)
        for point in series.get("points") or []:
            time = event_time((point.get("interval") or {}).get("endTime"))
            value = _number(point.get("value") or {})
            if replica and time and value is not None and time > timestamp(span.start):
                found.setdefault((replica, time), []).append(value)
    for (replica, time), values in found.items():
        value = sum(values) if kind.is_summed else sum(values) / len(values)
        yield MetricEvent(time=time, replica=replica, name=f"cloud.{kind.name}", value=value)


def _series(
    query_service: Query, address: JobAddress, span: MonitoringInterval, kind: _Kind
) -> Iterator[dict[str, Any]]:
    project = quote(address.parent.project, ":")
    path = f"/v3/projects/{project}/timeSeries"
    query = {
        "filter": f'metric.type="ml.googleapis.com/training/{kind.type}" AND '
        f'resource.type="cloudml_job" AND resource.labels.job_id="{address.id}"',
        "interval.startTime": timestamp(span.start),
        "interval.endTime": timestamp(span.end),
        "aggregation.alignmentPeriod": f"{PERIOD:.0f}s",
        "aggregation.perSeriesAligner": kind.aligner,
    }
    for _ in range(_PAGES):
        page = query_service(path, query)
        yield from page.get("timeSeries") or []
        if not page.get("nextPageToken"):
            return
        query = {**query, "pageToken": str(page["nextPageToken"])}


def _number(value: dict[str, Any]) -> float | None:
    raw = value.get("doubleValue", value.get("int64Value"))
    try:
        return float(raw) if raw is not None else None
    except (TypeError, ValueError):
        return None
