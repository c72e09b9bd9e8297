"""What the containers of a job print: its log streams, and what is measured by it."""

from __future__ import annotations

import time
from typing import NamedTuple

from rsctl.emulators.sagemaker.hosts import Host
from rsctl.emulators.sagemaker.logbook import Logbook
from rsctl.emulators.sagemaker.measurements import Measurements, definitions_of
from rsctl.emulators.sagemaker.record import Record
from rsctl.stream.events import parse_time

_NODE = '{"rsctl": "node"'


class _Place(NamedTuple):
    host: Host
    stream: str


class Output:
    """Takes lines, from many threads."""

    def __init__(self, record: Record, logbook: Logbook, measurements: Measurements) -> None:
        self._job = record.name
        self._logbook = logbook
        self._measurements = measurements
        self._definitions = definitions_of(record["AlgorithmSpecification"])
        self._places: dict[str, _Place] = {}
        self._epoch = 0

    def begin(self, hosts: list[Host]) -> None:
        """Containers start now: they write to new streams."""
        self._epoch = max(self._epoch + 1, int(time.time()))
        self._places = {
            host.node: _Place(host, f"{self._job}/{host.name}-{self._epoch}") for host in hosts
        }

    def take(self, node: str, text: str, at: str) -> None:
        """A line of a node; `at` is RFC 3339."""
        host, stream = self._places[node]
        if text.startswith(_NODE):  # where nodes have addresses only, it would not say algo-N
            text = text.replace(f'"{host.address}"', f'"{host.name}"')
        when = parse_time(at).timestamp()
        self._logbook.write(stream, text, int(when * 1000))
        place = f"{self._job}/{host.name}"
        self._measurements.take_telemetry(place, host.machine, text, when)
        if self._definitions:
            self._measurements.take_metrics(self._job, self._definitions, text, when)
