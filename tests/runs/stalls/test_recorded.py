"""Verdicts by what the nodes of real jobs have reported: two nodes with two ranks each, of which
rank 2 has a fault of `tests/kit/scripts/faults.py`. PyTorch 2.13, gloo.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.runs.stalls.reports import StallReports
from rsctl.runs.stalls.verdict import find_verdict
from rsctl.runs.stream.events import LogEvent

RECORDED = Path(__file__).parent / "recorded"
LATE = "for which ranks 0-1, 3 wait"
ALL_REDUCE = "all_reduce of [641] Float"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "operation",
            f"called broadcast of [5] Float where ranks 0-1, 3 called {ALL_REDUCE} "
            "(collective 14); it is at train.py:55 misbehave",
        ),
        (
            "skipped-step",
            f"called barrier where ranks 0-1, 3 called {ALL_REDUCE} (collective 10); it is at "
            "train.py:63 misbehave",
        ),
        (
            "sleep-over-reducers",
            "has not called all_reduce of [641] float32 (collective 5 over the reducers), "
            f"{LATE}; it is at train.py:49 misbehave",
        ),
        (
            "skip-over-reducers",
            "waits in barrier of the default process group; it is at train.py:63 misbehave; ranks "
            "0 and 1 wait in all_reduce of [641] float32 over the reducers; rank 3 waits in reduce "
            "of [321] Float of process group 6e7899d96236",
        ),
        (
            "loop",
            f"has not called {ALL_REDUCE} (collective 10), {LATE}; it is at train.py:36 spin",
        ),
        (
            "data-loader",
            f"has not called {ALL_REDUCE} (collective 9), {LATE}; it waits for the data loader at "
            "train.py:78 main",
        ),
    ],
)
def test_the_guilty_rank_of_a_recorded_stall_is_named(fault: str, message: str) -> None:
    reports, nodes = StallReports(), {}
    for row in (RECORDED / f"{fault}.txt").read_text().splitlines():
        replica, _, text = row.partition(" ")
        line = LogEvent("2026-01-01T00:00:00.000000Z", replica, "1", "stdout", text)
        if report := reports.read(line):
            nodes[replica] = report
    found = find_verdict(nodes.values(), ["worker-0", "worker-1"])
    assert found.message == f"rank 2 (worker-1) {message}"
    assert (found.guilty, found.replicas, found.waiting) == ((2,), ("worker-1",), (0, 1, 3))
