"""The output of a job's containers: written to log streams and searched for measurements."""

from __future__ import annotations

import time
from typing import NamedTuple

from rsctl.runs.stream.events import parse_time
from rsctl.targets.sagemaker.emulator.hosts import EmulatedHost
from rsctl.targets.sagemaker.emulator.job_record import JobRecord
from rsctl.targets.sagemaker.emulator.log_store import LogStore
from rsctl.targets.sagemaker.emulator.measurements import SampleStore, definitions_of

_NODE = '{"rsctl": "node"'


class _Source(NamedTuple):
    host: EmulatedHost
    stream: str


class LogOutput:
    """Takes lines, from many threads."""

    def __init__(self, record: JobRecord, log_store: LogStore, measurements: SampleStore) -> None:
        self._job = record.name
        self._log_store = log_store
        self._measurements = measurements
        self._definitions = definitions_of(record["AlgorithmSpecification"])
        self._sources: dict[str, _Source] = {}
        self._epoch = 0

    def begin(self, hosts: list[EmulatedHost]) -> None:
        """Containers start now: they write to new streams."""
        self._epoch = max(self._epoch + 1, int(time.time()))
        self._sources = {
            host.node: _Source(host, f"{self._job}/{host.name}-{self._epoch}") for host in hosts
        }

    def take(self, node: str, text: str, at: str) -> None:
        """A line of a node; `at` is RFC 3339."""
        host, stream = self._sources[node]
        if text.startswith(_NODE):  # where nodes have addresses only, it would lack algo-N
            text = text.replace(f'"{host.address}"', f'"{host.name}"')
        when = parse_time(at).timestamp()
        self._log_store.write(stream, text, int(when * 1000))
        host_name = f"{self._job}/{host.name}"
        self._measurements.take_telemetry(host_name, host.machine, text, when)
        if self._definitions:
            self._measurements.take_metrics(self._job, self._definitions, text, when)
