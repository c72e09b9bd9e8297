"""Metrics of the store among the events of a run."""

from __future__ import annotations

import pytest

from rsctl.api import metric_feed
from rsctl.api.metric_feed import MetricFeed
from rsctl.runs.store import Store
from rsctl.runs.stream.events import LogEvent, MetricEvent
from rsctl.runs.stream.metrics import MetricSpec

from .recorded import add, at


def test_metrics_stand_among_the_events_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def metric(second: float, value: float) -> MetricEvent:
        return MetricEvent(time=at(second), replica="worker-0", name="loss", value=value, step=None)

    def line(second: float) -> LogEvent:
        return LogEvent(at(second), "worker-0", "0", "stdout", "x")

    clock = [10.0]
    monkeypatch.setattr(metric_feed, "monotonic", lambda: clock[0])
    add()
    store = Store()
    feed = MetricFeed("job-1", {"loss": MetricSpec(goal="min")}, store)
    store.add_metrics("job-1", [metric(2, 3.0)])
    assert feed.among([line(1), line(2), line(3)]) == [line(1), line(2), metric(2, 3.0), line(3)]
    store.add_metrics("job-1", [metric(4, 1.0)])
    assert feed.among([]) == []  # the store was asked a moment ago
    clock[0] += 0.2
    assert feed.among([]) == [metric(4, 1.0)]
    store.add_metrics("job-1", [metric(5, 2.0)])
    assert feed.rest() == [metric(5, 2.0)]
    assert feed.rest() == []
    assert feed.tally.summary()["loss"] == {"last": 2.0, "count": 3, "best": 1.0}
    alone = MetricFeed("job-1", {})
    assert len(alone.among([line(9)])) == 4
