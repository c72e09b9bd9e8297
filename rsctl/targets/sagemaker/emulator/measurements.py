"""CloudWatch's metrics of jobs: of machines by the telemetry that rsctl's runtime prints, of jobs
by their metric definitions.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from rsctl.estimate.catalog import load
from rsctl.targets.sagemaker.emulator.behaviour import Behaviour

_HEAD = '{"rsctl": "telemetry"'
_MOST_SAMPLES = 5000
_LONGEST_LINE = 4096
_GIB = 1 << 30


class SampleSeries(NamedTuple):
    """One metric: of a machine, `Host` is JOB/algo-N; of a job, `TrainingJobName` is JOB."""

    dimension: str
    value: str
    metric: str


class StoredSample(NamedTuple):
    """A value, in seconds since 1970; it can be read from `visible` on, of the monotonic clock."""

    time: float
    visible: float
    value: float


class Definition(NamedTuple):
    """A metric definition whose expression Python knows too."""

    name: str
    pattern: re.Pattern[str]


def _of_gpus(name: str, whole: Optional[str]) -> Callable[[dict[str, Any], float], Optional[float]]:
    """A sum over all GPUs, in percent of one."""

    def read(fields: dict[str, Any], memory: float) -> Optional[float]:
        gpus = [gpu for gpu in fields.get("gpus", []) if name in gpu]
        parts = [100 * gpu[name] / gpu[whole] if whole else gpu[name] for gpu in gpus]
        return float(sum(parts)) if parts else None

    return read


_METRICS: dict[str, Callable[[dict[str, Any], float], Optional[float]]] = {
    "CPUUtilization": lambda fields, memory: fields.get("cpu_percent"),
    "MemoryUtilization": lambda fields, memory: 100 * fields["rss_bytes"] / memory,
    "GPUUtilization": _of_gpus("util_percent", None),
    "GPUMemoryUtilization": _of_gpus("memory_bytes", "memory_total_bytes"),
}


class SampleStore:
    """The samples of all jobs. Taken from many threads."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._samples: dict[SampleSeries, deque[StoredSample]] = {}
        self._lock = threading.Lock()

    def take_telemetry(self, host: str, machine: str, line: str, at: float) -> None:
        """Add the samples of a line of a machine, JOB/algo-N, if it is telemetry."""
        if not line.startswith(_HEAD):
            return
        known = load("sagemaker").machines.get(machine)
        memory = (known.memory_gib if known else 1.0) * _GIB
        for metric, read in _METRICS.items():
            try:
                value = read(json.loads(line), memory)
                if value is not None:
                    self._add(SampleSeries("Host", host, metric), at, float(value))
            except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
                continue
            except RecursionError:
                return

    def take_metrics(self, job: str, definitions: list[Definition], line: str, at: float) -> None:
        """Add the samples that a job's metric definitions find in a line."""
        for definition in definitions:
            found = definition.pattern.search(line[:_LONGEST_LINE])
            try:
                value = float(found[1]) if found else None
            except (ValueError, IndexError, TypeError):
                continue
            if value is not None:
                self._add(SampleSeries("TrainingJobName", job, definition.name), at, value)

    def periods(
        self, series: SampleSeries, start: float, end: float, period: float
    ) -> list[tuple[float, list[float]]]:
        """The values in each period that can be read by now, the oldest first."""
        found: dict[float, list[float]] = {}
        for sample in self._visible(series):
            begin = sample.time // period * period
            if start <= begin < end:
                found.setdefault(begin, []).append(sample.value)
        return sorted(found.items())

    def last(self, job: str, since: float) -> list[dict[str, Any]]:
        """The last value of each of a job's own metrics, as in DescribeTrainingJob."""
        with self._lock:
            return [
                {"MetricName": s.metric, "Value": samples[-1].value, "Timestamp": samples[-1].time}
                for s, samples in self._samples.items()
                if s[:2] == ("TrainingJobName", job) and samples[-1].time >= since
            ]

    def _visible(self, series: SampleSeries) -> list[StoredSample]:
        now = time.monotonic()
        with self._lock:
            return [s for s in self._samples.get(series, ()) if s.visible <= now]

    def _add(self, series: SampleSeries, at: float, value: float) -> None:
        visible = time.monotonic() + self._behaviour.measure * self._behaviour.pace
        with self._lock:
            samples = self._samples.setdefault(series, deque(maxlen=_MOST_SAMPLES))
            samples.append(StoredSample(at, visible, value))


def definitions_of(algorithm: dict[str, Any]) -> list[Definition]:
    """The metric definitions of an AlgorithmSpecification. Raises ValueError for a wrong one."""
    found = []
    for each in algorithm.get("MetricDefinitions", []):
        try:
            found.append(Definition(each["Name"], re.compile(each["Regex"])))
        except (re.error, RecursionError, OverflowError):
            raise ValueError(f"Invalid regular expression of metric {each['Name']}") from None
    return found
