"""Cloud Monitoring, as far as reading goes: GET /v3/projects/P/timeSeries of training metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from rsctl.targets.managed.emulator.http import Reply, Request, Route, route
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.filters import (
    And,
    Filter,
    FilterComparison,
    Function,
    NotEmulated,
    Search,
    Single,
    compare,
    matches,
    parse,
    singles,
)
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator
from rsctl.targets.vertex.emulator.log_filter import normal_time
from rsctl.targets.vertex.emulator.samples import (
    METRICS,
    SampledMachine,
    SamplePoint,
    Samples,
    TrainingMetric,
    rfc3339,
)
from rsctl.targets.vertex.proto_json import seconds

_PREFIX = "ml.googleapis.com/training/"
_RESOURCE = "cloudml_job"
ALIGNERS = {
    "GAUGE": ("ALIGN_NONE", "ALIGN_MEAN", "ALIGN_SUM", "ALIGN_MAX"),
    "DELTA": ("ALIGN_NONE", "ALIGN_DELTA", "ALIGN_RATE", "ALIGN_MEAN", "ALIGN_SUM", "ALIGN_MAX"),
}
"""By the metric's kind, those that can be had here. Which of them a kind has is from the
documentation of `Aggregation.Aligner`: DELTA and RATE are for metrics that count only."""

_ALIGNERS = frozenset().union(*ALIGNERS.values())
_FILTERED = frozenset({"metric.type", "resource.type"}) | {
    f"resource.{labels}.{name}"
    for labels in ("labels", "label")
    for name in ("job_id", "task_name", "project_id")
}
_SHORTEST_PERIOD = 60.0
_KNOWN = frozenset({
    "filter", "interval.startTime", "interval.endTime", "aggregation.alignmentPeriod",
    "aggregation.perSeriesAligner", "view", "pageSize", "pageToken", "alt", "$alt",
})  # fmt: skip


_OTHER_FIELDS = frozenset({
    "aggregation.crossSeriesReducer", "aggregation.groupByFields", "orderBy",
    *(f"secondaryAggregation.{name}" for name in (
        "alignmentPeriod", "perSeriesAligner", "crossSeriesReducer", "groupByFields")),
})  # fmt: skip


class _Window(NamedTuple):
    start: float
    end: float
    period: float
    aligner: str


class Monitoring:
    """The time series of one project. `machine` gives the machine of a task of a job."""

    def __init__(
        self,
        emulator: GoogleEmulator,
        samples: Samples,
        machine: Callable[[str, str], SampledMachine],
        behaviour: Behaviour,
    ) -> None:
        self._emulator = emulator
        self._samples = samples
        self._machine = machine
        self._behaviour = behaviour

    def routes(self) -> list[Route]:
        """The routes of the service."""
        path = "/v3/projects/{project}/timeSeries"
        return [route("monitoring.timeSeries.list", "GET", path, self._list)]

    def _list(self, request: Request) -> Reply:
        if request.parts["project"] not in (self._emulator.project, self._emulator.number):
            raise self._emulator.refuse(403, "PERMISSION_DENIED", "Permission "
                                        "monitoring.timeSeries.list denied (or the resource may "
                                        "not exist).")  # fmt: skip
        try:
            wanted = parse(request.query.get("filter", ""))
            window = self._window(request.query)
            name = _metric_name(wanted)
            for one in singles(wanted):
                _check(one)
        except NotEmulated as problem:
            raise self._emulator.refuse(501, "UNIMPLEMENTED", str(problem)) from None
        except ValueError as problem:
            raise self._emulator.invalid(str(problem)) from None
        metric = METRICS.get(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
        if metric is None:
            message = f'Cannot find metric(s) that match type = "{name}".'
            raise self._emulator.refuse(404, "NOT_FOUND", message)
        if window.aligner not in ALIGNERS[metric.kind]:
            message = (
                f"The aligner {window.aligner} is not valid for a metric with kind {metric.kind} "
                f"and value type {metric.value_type}."
            )
            raise self._emulator.invalid(message)
        series = list(self._series(wanted, name, metric, window))
        return Reply.of({"timeSeries": series} if series else {})

    def _window(self, query: dict[str, str]) -> _Window:
        if unknown := set(query) - _KNOWN:
            name = min(unknown)
            if name in _OTHER_FIELDS:
                raise NotEmulated(f"the parameter {name}")
            raise ValueError(f'Invalid JSON payload received. Unknown name "{name}": Cannot find '
                             "field.")  # fmt: skip
        end = _time(query.get("interval.endTime", ""))
        start = _time(query["interval.startTime"]) if "interval.startTime" in query else end
        if start > end:
            raise ValueError("The start time cannot be later than the end time.")
        aligner = query.get("aggregation.perSeriesAligner", "ALIGN_NONE")
        if aligner not in _ALIGNERS:
            if not re.fullmatch(r"ALIGN_[A-Z0-9_]+", aligner):
                raise ValueError(
                    f"Invalid value at 'aggregation.per_series_aligner', \"{aligner}\""
                )
            raise NotEmulated(f"the aligner {aligner}")
        text = query.get("aggregation.alignmentPeriod", "60s")
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?s", text):
            raise ValueError(f"Invalid value at 'aggregation.alignment_period', \"{text[:100]}\"")
        period = seconds(text)
        if aligner != "ALIGN_NONE" and not _SHORTEST_PERIOD <= period < math.inf:
            raise ValueError("aggregation.alignmentPeriod must be at least 60s")
        return _Window(start, end, period * self._behaviour.pace, aligner)

    def _series(
        self, wanted: Filter, name: str, metric: TrainingMetric, window: _Window
    ) -> Iterator[dict[str, Any]]:
        for job, task in self._samples.keys():  # noqa: SIM118 - not a dict
            resource = {"job_id": job, "task_name": task, "project_id": self._emulator.project}
            fields = {"metric.type": name, "resource.type": _RESOURCE}
            for key, value in resource.items():
                fields |= {f"resource.labels.{key}": value, f"resource.label.{key}": value}
            if not matches(wanted, partial(_holds, fields)):
                continue
            points = self._samples.points((job, task), metric, self._machine(job, task))
            shown, kind, value_type = _aligned(points, metric, window)
            if shown:
                yield {
                    "metric": {"type": name},
                    "resource": {"type": _RESOURCE, "labels": resource},
                    "metricKind": kind,
                    "valueType": value_type,
                    "points": [_shown(point, value_type) for point in reversed(shown)],
                }


def _check(wanted: Single) -> None:
    """Raise NotEmulated for fields that the time series here do not have."""
    if isinstance(wanted, Function):
        raise NotEmulated(f"the function {wanted.name}()")
    elif isinstance(wanted, Search):
        raise ValueError(f'Field "{wanted.text}" is not compared with anything')
    elif ".".join(wanted.path) not in _FILTERED:
        raise NotEmulated(f"the field {'.'.join(wanted.path)} of time series")


def _holds(fields: dict[str, str], wanted: Single) -> bool:
    if not isinstance(wanted, FilterComparison) or ".".join(wanted.path) not in fields:
        return False
    return compare(fields[".".join(wanted.path)], wanted.operator, wanted.value)


def _metric_name(wanted: Filter) -> str:
    parts = wanted.parts if isinstance(wanted, And) else (wanted,)
    for part in parts:
        is_it = isinstance(part, FilterComparison) and part.path == ("metric", "type")
        if isinstance(part, FilterComparison) and is_it and part.operator == "=":
            return part.value
    raise ValueError("The provided filter doesn't refer to a known metric: metric.type = "
                     '"..." is required')  # fmt: skip


def _time(text: str) -> float:
    normal = normal_time(text).rstrip("Z~")
    return datetime.fromisoformat(f"{normal}+00:00").timestamp()


def _aligned(
    points: list[SamplePoint], metric: TrainingMetric, window: _Window
) -> tuple[list[SamplePoint], str, str]:
    """The points in the window, kind and type: one a period, the last of which ends with it."""
    inside = [p for p in points if window.start <= p.end <= window.end]
    if window.aligner == "ALIGN_NONE":
        return inside, metric.kind, metric.value_type
    buckets: dict[int, list[SamplePoint]] = {}
    for point in inside:
        buckets.setdefault(int((window.end - point.end) // window.period), []).append(point)
    aligned = []
    for number in sorted(buckets, reverse=True):
        end = window.end - number * window.period
        value = _ALIGN[window.aligner](buckets[number])
        aligned.append(SamplePoint(end - window.period, end, value))
    if window.aligner in ("ALIGN_SUM", "ALIGN_DELTA", "ALIGN_MAX"):
        return aligned, metric.kind, metric.value_type
    return aligned, "GAUGE", "DOUBLE"


def _rate(points: list[SamplePoint]) -> float:
    """The increments, by the time in which they occurred."""
    passed = sum(point.end - point.start for point in points)
    return sum(point.value for point in points) / passed if passed else 0.0


_ALIGN: dict[str, Callable[[list[SamplePoint]], float]] = {
    "ALIGN_RATE": _rate,
    "ALIGN_MEAN": lambda points: sum(point.value for point in points) / len(points),
    "ALIGN_SUM": lambda points: sum(point.value for point in points),
    "ALIGN_DELTA": lambda points: sum(point.value for point in points),
    "ALIGN_MAX": lambda points: max(point.value for point in points),
}


def _shown(point: SamplePoint, value_type: str) -> dict[str, Any]:
    value: dict[str, Any] = {"doubleValue": point.value}
    if value_type == "INT64":
        value = {"int64Value": str(int(point.value))}
    interval = {"startTime": rfc3339(point.start), "endTime": rfc3339(point.end)}
    return {"interval": interval, "value": value}
