"""A store, and runs to put into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.findings import JobState
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.metrics import MetricSpec


def at(second: int) -> str:
    return f"2026-01-31T12:00:{second:02}.000000Z"


def a_run(run: str, second: int = 0, target: str = "process") -> RunRecord:
    return RunRecord(
        run=run,
        name="job",
        target=target,
        url=f"{target}://{run}",
        state=JobState.QUEUED,
        created=at(second),
        plan={"run": run, "env": {"A": None}},
        metrics_spec={"loss": MetricSpec("loss=(.*)", goal="min")},
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "runs.db")
    yield store
    store.close()
