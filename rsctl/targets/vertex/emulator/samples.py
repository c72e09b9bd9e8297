"""The resource usage of nodes, from the telemetry of rsctl's runtime, as Cloud Monitoring's
metrics.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, NamedTuple

from rsctl.targets.vertex.emulator.behaviour import Behaviour

_HEAD = '{"rsctl": "telemetry"'
TELEMETRY = f"{_HEAD}, "
"""How a line of telemetry begins, before its fields."""

_MOST_SAMPLES = 5000
_GIB = 1 << 30


class SampledMachine(NamedTuple):
    """The totals of which usages are fractions."""

    vcpus: int
    memory_gib: float


class SamplePoint(NamedTuple):
    """A value over [start, end], in seconds since 1970."""

    start: float
    end: float
    value: float


class _Sample(NamedTuple):
    time: float
    visible: float
    fields: dict[str, Any]


class TrainingMetric(NamedTuple):
    """One of Vertex AI's training metrics; `read` takes a sample's fields."""

    kind: str
    value_type: str
    read: Callable[[dict[str, Any], SampledMachine], float | None]


def _of_gpus(
    name: str, whole: str | None
) -> Callable[[dict[str, Any], SampledMachine], float | None]:
    def read(fields: dict[str, Any], machine: SampledMachine) -> float | None:
        gpus = [gpu for gpu in fields.get("gpus", []) if name in gpu]
        parts = [gpu[name] / (gpu[whole] if whole else 100) for gpu in gpus]
        return sum(parts) / len(parts) if parts else None

    return read


def _of_field(name: str) -> Callable[[dict[str, Any], SampledMachine], float | None]:
    return lambda fields, machine: fields.get(name)


METRICS: dict[str, TrainingMetric] = {
    "cpu/utilization": TrainingMetric(
        "GAUGE", "DOUBLE",
        lambda f, m: f["cpu_percent"] / 100 / m.vcpus if "cpu_percent" in f else None,
    ),
    "memory/utilization": TrainingMetric(
        "GAUGE", "DOUBLE",
        lambda f, m: f["rss_bytes"] / (m.memory_gib * _GIB) if "rss_bytes" in f else None,
    ),
    "network/received_bytes_count": TrainingMetric("DELTA", "INT64", _of_field("net_rx_bytes")),
    "network/sent_bytes_count": TrainingMetric("DELTA", "INT64", _of_field("net_tx_bytes")),
    "accelerator/utilization": TrainingMetric("GAUGE", "DOUBLE", _of_gpus("util_percent", None)),
    "accelerator/memory/utilization": TrainingMetric(
        "GAUGE", "DOUBLE", _of_gpus("memory_bytes", "memory_total_bytes")
    ),
}  # fmt: skip
"""By name, less `ml.googleapis.com/training/`."""


class Samples:
    """The samples of all jobs, by job and task. Taken from many threads."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._samples: dict[tuple[str, str], deque[_Sample]] = {}
        self._lock = threading.Lock()

    def take(self, job: str, task: str, line: str, at: str) -> None:
        """Add the sample of a line, if it is telemetry."""
        if not line.startswith(_HEAD):
            return
        try:
            fields = json.loads(line)
            when = datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
        except (ValueError, RecursionError):
            return
        visible = time.monotonic() + self._behaviour.measure * self._behaviour.pace
        with self._lock:
            samples = self._samples.setdefault((job, task), deque(maxlen=_MOST_SAMPLES))
            samples.append(_Sample(when, visible, fields))

    def forget(self, job: str, task: str) -> None:
        """Drop the samples of a task: its own telemetry replaces them."""
        with self._lock:
            self._samples.pop((job, task), None)

    def keys(self) -> list[tuple[str, str]]:
        """All (job, task) that have samples."""
        with self._lock:
            return sorted(self._samples)

    def points(
        self, key: tuple[str, str], metric: TrainingMetric, machine: SampledMachine
    ) -> list[SamplePoint]:
        """The points of one time series that can be read by now, the oldest first."""
        now = time.monotonic()
        with self._lock:
            samples = [s for s in self._samples.get(key, ()) if s.visible <= now]
        points: list[SamplePoint] = []
        before: tuple[float, float] | None = None
        for sample in samples:
            value = _number(metric, sample.fields, machine)
            if value is None:
                continue
            if metric.kind == "GAUGE":
                points.append(SamplePoint(sample.time, sample.time, value))
                continue
            if before is not None and sample.time > before[0]:
                grown = value - before[1]
                points.append(SamplePoint(before[0], sample.time, grown if grown >= 0 else value))
            before = (sample.time, value)
        return points

    def drop(self, job: str) -> None:
        """Forget a job's samples."""
        with self._lock:
            for key in [key for key in self._samples if key[0] == job]:
                del self._samples[key]


def rfc3339(seconds: float) -> str:
    """A time in the format of the API."""
    when = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds")
    return when.replace("+00:00", "Z")


def _number(
    metric: TrainingMetric, fields: dict[str, Any], machine: SampledMachine
) -> float | None:
    """The value of a metric in a sample; None if the line is not from rsctl's runtime."""
    try:
        value = metric.read(fields, machine)
        return None if value is None else float(value)
    except (TypeError, ValueError, ZeroDivisionError, AttributeError, KeyError):
        return None
