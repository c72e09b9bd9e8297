"""Rules of `watch` over metrics."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.watch_rules import WatchRules, WatchSpec

NAN = float("nan")


def trips(rule: dict[str, Any], *values: float, seconds: int = 1) -> list[str]:
    rules = WatchRules({"r": WatchSpec(metric="loss", **rule)})
    events = [
        MetricEvent(
            time=f"2026-01-01T00:{n * seconds // 60:02}:{n * seconds % 60:02}.000000Z",
            replica="worker-0",
            name="loss",
            value=value,
            step=n,
        )
        for n, value in enumerate(values)
    ]
    return [trip.finding.message for trip in rules.read(events)]


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        ({"when": "nan", "values": 3}, (1, NAN, NAN), []),
        ({"when": "nan", "values": 3}, (NAN, NAN, 1, NAN, NAN), []),
        ({"when": "nan", "values": 3}, (NAN, NAN, float("inf")), ["inf for 3 values at step 2"]),
        ({"above": "5", "values": 1}, (5, 5.5, 9), ["5.5, above 5, for 1 value at step 1"]),
        ({"below": "-1"}, (-0.9, -1.1), ["-1.1, below -1, for 1 value at step 1"]),
        ({"below": "80% of its median"}, (10, 10, 10, 10, 7), []),
        (
            {"below": "80% of its median"},
            (10, 10, 10, 10, 10, 7.9),
            ["7.9, below 8 (80% of its median), for 1 value at step 5"],
        ),
        ({"below": "80% of its median"}, (-10, -10, -10, -10, -10, -11), []),
        (
            {"below": "80% of its median"},
            (-10, -10, -10, -10, -10, -12.5),
            ["-12.5, below -12 (80% of its median), for 1 value at step 5"],
        ),
        ({"above": "200% of its median"}, (-10, -10, -10, -10, -10, -1), []),
        (
            {"above": "200% of its median"},
            (-10, -10, -10, -10, -10, 1),
            ["1, above 0 (200% of its median), for 1 value at step 5"],
        ),
        ({"above": "5", "seconds": 3.0}, (6, 6, 6), []),
        ({"above": "5", "seconds": 3.0}, (6, 6, 6, 6), ["6, above 5, for 0:03 at step 3"]),
        ({"above": "5", "seconds": 3.0}, (6, 6, 1, 6, 6, 6), []),
    ],
)
def test_a_rule_holds(rule: dict[str, Any], values: tuple[float, ...], expected: list[str]) -> None:
    assert trips(rule, *values) == [f"loss is {text}" for text in expected]


def test_each_replica_counts_for_itself_and_other_metrics_do_not() -> None:
    rules = WatchRules({"r": WatchSpec(metric="loss", when="nan", values=2)})

    def event(replica: str, name: str = "loss") -> MetricEvent:
        return MetricEvent(
            time="2026-01-01T00:00:00.000000Z", replica=replica, name=name, value=NAN
        )

    assert rules.read([event("worker-0"), event("worker-1"), event("worker-0", "other")]) == []
    [trip] = rules.read([event("worker-1")])
    assert (trip.replica, trip.finding.severity, trip.fails) == ("worker-1", "warning", False)
    assert trip.finding.message == "loss is nan for 2 values"


@pytest.mark.parametrize("usual", [100, 600])
def test_a_slow_phase_does_not_become_the_normal(usual: int) -> None:
    """A job that reports each second has reported more slow values than others in 5 minutes."""
    rule = {"below": "80% of its median", "seconds": 300.0}
    last = usual + 300
    [message] = trips(rule, *[100.0] * usual, *[50.0] * 301)
    assert message == f"loss is 50, below 80 (80% of its median), for 5:00 at step {last}"
    assert trips(rule, *[100.0] * usual, *[50.0] * 300, 100.0, *[50.0] * 300) == []
