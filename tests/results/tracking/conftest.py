"""Runs with trackers, in the store as a supervisor leaves them, without anything that ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.results.tracking.cursor import make_tracking_folder
from rsctl.results.tracking.sender import Sender
from rsctl.runs.folder import RunFolder
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent, StateEvent
from rsctl.runs.stream.metrics import MetricSpec

PARAMETERS = {"run.args.lr": 0.1, "workers.count": 2, "run.script": "<b>|train.py\n# x"}

SPEC = "name: job\nrun: {script: train.py, env: {TOKEN: ${TOKEN}}}  # <b>\n"


def at(second: float) -> str:
    return f"2026-01-31T12:00:{second:09.6f}Z"


class TrackedJob:
    """A run with one tracker."""

    def __init__(
        self,
        tracker: PlannedTracker,
        run: str = "job-a",
        parameters: Mapping[str, Any] = PARAMETERS,
    ) -> None:
        self.run, self.tracker, self.store = run, tracker, Store()
        self._second = 10.0
        plan = TrackingPlan(trackers=[tracker], parameters=dict(parameters))
        self.store.add(
            RunRecord(
                run=run,
                name="job",
                target="process",
                url=f"process://{run}",
                state=JobState.QUEUED,
                created=at(0),
                plan={"tracking": msgspec.to_builtins(plan)},
                spec=SPEC,
                metrics_spec={"loss": MetricSpec(goal="min", warmup="0 steps")},
            )
        )
        RunFolder(run).path.mkdir(parents=True)
        make_tracking_folder(run)
        self.store.record(run, StateEvent(time=at(5), state=JobState.RUNNING))

    def log(
        self,
        values: Sequence[float],
        step: int | None = None,
        replica: str = "worker-0",
        name: str = "loss",
    ) -> None:
        """A value of a metric each second, of steps from `step` on if it is given."""
        events = []
        for index, value in enumerate(values):
            self._second += 1
            events.append(
                MetricEvent(
                    time=at(self._second),
                    replica=replica,
                    name=name,
                    value=value,
                    step=None if step is None else step + index,
                )
            )
        self.store.add_metrics(self.run, events)

    def end(self, state: JobState = JobState.SUCCEEDED, reason: str | None = None) -> None:
        event = StateEvent(time=at(50), state=state, exit_code=int(state.exit_code), reason=reason)
        self.store.record(self.run, event)

    def sender(self) -> Sender:
        """A process that begins anew to send."""
        return Sender(self.store, self.run, 0, self.tracker)

    def send(self) -> Sender:
        """Send all that there is."""
        sender = self.sender()
        while sender.step():
            pass
        return sender


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
