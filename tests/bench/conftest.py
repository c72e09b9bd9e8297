"""Runs with metrics, without anything that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import MetricEvent, StateEvent
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.stream.ndjson import event_line

SECOND = "2026-01-01T00:00:{:09.6f}Z"


def at(second: float) -> str:
    """A time of the first minute of 2026."""
    return SECOND.format(second)


def values(
    name: str, numbers: Sequence[float], steps: bool = False, replica: str = "worker-0"
) -> list[MetricEvent]:
    """A value a second from second 10 on."""
    return [
        MetricEvent(time=at(10 + i), replica=replica, name=name, value=v, step=i if steps else None)
        for i, v in enumerate(numbers)
    ]


@pytest.fixture
def store() -> Store:
    """An empty store."""
    return Store()


MakeRun = Callable[..., RunRecord]


@pytest.fixture
def make_run(store: Store) -> MakeRun:
    """Records a run of 40 seconds: queued until 2, starting until 5, running until 40."""

    def make(
        metrics: Sequence[MetricEvent] = (),
        specs: dict[str, MetricSpec] | None = None,
        run: str = "job-a",
        **about: object,
    ) -> RunRecord:
        fields = {"name": "job", "target": "process", "url": f"process://{run}", **about}
        store.add(
            RunRecord(
                run=run,
                state=JobState.QUEUED,
                created=at(0),
                metrics_spec=specs or {},
                **fields,  # type: ignore[arg-type]
            )
        )
        folder = RunFolder(run)
        folder.path.mkdir(parents=True)
        for state, second in (("starting", 2), ("running", 5), ("succeeded", 40)):
            event = StateEvent(time=at(second), state=JobState(state))
            store.record(run, event)
            with folder.states.open("ab") as file:
                file.write(event_line(event))
        store.add_metrics(run, metrics)
        found = store.get(run)
        assert found
        return found

    return make
