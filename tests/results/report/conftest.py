"""Runs to report on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rsctl.findings import JobState
from tests.cli.conftest import Cli, MadeRun
from tests.cli.conftest import make_run as make_run
from tests.cli.conftest import rsctl as rsctl

Make = Callable[..., MadeRun]

TELEMETRY = {
    "node.cpu_percent": 150.0,
    "node.rss_bytes": 2e9,
    "node.net_tx_bytes": 1e6,
    "node.net_rx_bytes": 2e6,
    "node.gpu0.util_percent": 80.0,
    "node.gpu0.memory_bytes": 3e9,
    "node.transport.operations": 10.0,
    "node.transport.reduced_bytes": 5e6,
    "node.transport.sent_bytes": 6e6,
    "node.transport.busy_seconds": 1.5,
    "node.transport.stalled_seconds": 0.25,
    "node.transport.gbit_per_second": 0.3,
    "cloud.cpu.utilization": 0.5,
}


@pytest.fixture
def whole_run(rsctl: Cli, make_run: Make) -> MadeRun:
    """A run of two workers that has everything a run can have."""
    made = make_run()
    for replica in made.replicas:
        made.state(2, JobState.RUNNING, replica=replica)
    for step in range(20):
        for late, replica in enumerate(made.replicas):
            made.metric(3 + step + late / 4, "loss", 1 / (step + 1), step=step, replica=replica)
    for second in (5, 10, 15):
        for replica in made.replicas:
            for name, value in TELEMETRY.items():
                made.metric(second, name, value * second, replica=replica)
    made.metric(20, "node.reducer.late.1.mean_ms", 12.0, replica="reducer-0")
    made.metric(20, "node.reducer.bytes_out", 6e6, replica="reducer-0")
    return made.succeed(30)
