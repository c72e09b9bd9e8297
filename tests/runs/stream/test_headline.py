"""What a metric of several replicas is, whatever the order in which its values arrive."""

from __future__ import annotations

import math
import random

import pytest

from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.stream.headline import Headline, Tally, headline_series
from rsctl.runs.stream.metrics import MetricSpec


def at(
    second: float, replica: str, value: float, step: int | None = None, name: str = "loss"
) -> MetricEvent:
    whole, rest = divmod(second, 1)
    time = f"2026-01-31T12:00:{int(whole):02}.{int(rest * 1e6):06}Z"
    return MetricEvent(time=time, replica=replica, name=name, value=value, step=step)


def tally(events: list[MetricEvent], **spec: str) -> Tally:
    made = Tally({"loss": MetricSpec(**spec)})
    for event in events:
        made.add(event)
    return made


def test_the_chief_counts_where_it_logs_the_metric() -> None:
    """Not the value that came last: another worker's, of an earlier step."""
    events = [
        at(1, "worker-1", 0.5, 1),
        at(2, "worker-0", 0.3, 1),
        at(3, "worker-0", 0.0167, 30),
        at(4, "worker-1", 0.001, 20),
        at(5, "worker-1", 0.037, 26),
    ]
    made = tally(events, goal="min")
    assert made.summary() == {"loss": {"last": 0.0167, "count": 5, "best": 0.0167}}
    assert made.recent("loss") == [0.3, 0.0167]
    assert [m.value for m in headline_series(events)] == [0.3, 0.0167]


@pytest.mark.parametrize(
    ("aggregate", "last"),
    [("median", 2.0), ("mean", 3.0), ("min", 1.0), ("max", 6.0), ("last", 2.0)],
)
def test_without_the_chief_it_is_the_aggregate_over_the_replicas_of_a_step(
    aggregate: str, last: float
) -> None:
    values = {"worker-1": 1.0, "worker-2": 2.0, "worker-3": 6.0}
    events = [at(step, r, v, step) for step in range(3) for r, v in values.items()]
    made = tally(events, aggregate=aggregate, goal="max")
    assert made.summary()["loss"] == {"last": last, "count": 9, "best": last}
    assert made.recent("loss") == [last] * 3


def test_without_steps_the_nth_values_of_the_replicas_belong_together() -> None:
    events = [at(n, f"worker-{r}", float(n * 10 + r)) for n in range(4) for r in (1, 2, 3)]
    made = tally(events, aggregate="mean")
    assert made.recent("loss") == [2.0, 12.0, 22.0, 32.0]
    assert made.last("loss") == 32.0


def test_a_curve_of_several_replicas_is_not_a_saw() -> None:
    """Replicas that drift apart by some steps are still put together."""
    events = [at(s / 10, "worker-1", 100.0 - s, s) for s in range(100)]
    events += [at(s / 10 + 1, "worker-2", 100.0 - s + 0.5, s) for s in range(100)]
    events.sort(key=lambda event: event.time)
    values = tally(events, aggregate="mean").recent("loss")
    assert values == sorted(values, reverse=True)
    assert [m.step for m in headline_series(events)] == list(range(100))


@pytest.mark.parametrize("has_steps", [True, False])
def test_lines_that_were_read_at_once(has_steps: bool) -> None:
    """All values of another replica than the chief count, also if they have one time."""
    events = [at(1, "worker-1", float(s), s if has_steps else None) for s in range(2000)]
    made = tally(events, goal="max")
    assert made.summary()["loss"] == {"last": 1999.0, "count": 2000, "best": 1999.0}
    assert [m.value for m in headline_series(events)] == [float(s) for s in range(2000)]


@pytest.mark.parametrize("has_steps", [True, False])
def test_replicas_that_print_many_steps_at_once(has_steps: bool) -> None:
    """Each step is in the series once; a job that has started again has its steps again."""
    replicas = [f"worker-{r}" for r in (1, 2, 3)]
    times = {r: iter(range(1000)) for r in replicas}
    burst = [(r, s) for r in replicas for s in range(60)]
    restarted = [(r, s) for s in range(40, 100) for r in replicas]
    events = [
        at(
            10 * (n >= len(burst)) + n / 100,
            r,
            float(s if has_steps else next(times[r])),
            s if has_steps else None,
        )
        for n, (r, s) in enumerate(burst + restarted)
    ]
    values = [m.value for m in headline_series(events)]
    again = range(40, 100) if has_steps else range(60, 120)
    assert values == [float(s) for s in (*range(60), *again)]


def test_a_restart_whose_lines_come_at_once() -> None:
    """Each replica prints the repeated steps in one piece; no step is there a third time."""
    replicas = [f"worker-{r}" for r in (1, 2, 3)]
    events = [at(s / 2, r, float(s), s) for s in range(60) for r in replicas]
    again = [(r, s) for r in replicas for s in range(40, 100)]
    events += [at(40 + n / 100, r, float(s), s) for n, (r, s) in enumerate(again)]
    assert [m.step for m in headline_series(events)] == [*range(60), *range(40, 100)]


def test_a_replica_that_takes_over_without_steps() -> None:
    """The rank that logs is on another node after a restart: its first values count."""
    events = [at(s / 10, "worker-1", float(s)) for s in range(100)]
    events += [at(20 + s, "worker-2", 1000.0 + s) for s in range(10)]
    made = tally(events, goal="max")
    assert made.summary()["loss"] == {"last": 1009.0, "count": 110, "best": 1009.0}
    assert [m.value for m in headline_series(events)] == [*range(100), *range(1000, 1010)]


def test_a_replica_that_joins_without_steps() -> None:
    """A value that is far behind by its number belongs to the values of its time."""
    events = [at(s, "worker-1", 10.0) for s in range(50)]
    events += [at(s + 0.5, "worker-2", 20.0) for s in range(30, 50)]
    events.sort(key=lambda event: event.time)
    values = [m.value for m in headline_series(events)]
    assert values == [10.0] * 31 + [15.0] * 19 + [20.0]


def test_a_late_line_is_not_the_last_value() -> None:
    events = [at(1, "worker-0", 3.0, 1), at(3, "worker-0", 1.0, 3), at(2, "worker-0", 2.0, 2)]
    made = tally(events)
    assert made.last("loss") == 1.0
    assert made.recent("loss") == [3.0, 2.0, 1.0]
    assert [m.value for m in headline_series(events)] == [3.0, 2.0, 1.0]


def test_the_chief_may_begin_late() -> None:
    events = [at(s, "worker-1", float(s), s) for s in range(40)]
    events += [at(5, "worker-0", 7.0, 5)]
    made = tally(events, goal="max")
    assert made.summary()["loss"] == {"last": 7.0, "count": 41, "best": 7.0}
    assert made.recent("loss") == [7.0]


def test_one_replica_that_diverges_shows() -> None:
    events = [at(1, "worker-1", 1.0, 1), at(1, "worker-2", math.nan, 1)]
    assert math.isnan(tally(events, aggregate="mean").last("loss"))


def test_a_rank_of_the_chief_counts() -> None:
    events = [at(1, "worker-0/0", 1.0, 1), at(2, "worker-0/1", 2.0, 1), at(3, "worker-1/0", 3.0, 1)]
    assert tally(events).last("loss") == 1.0


def test_statistics_are_the_same_in_bounded_memory_and_by_all_values() -> None:
    """Of any order of arrival, with late and doubled lines, with and without the chief."""
    for seed in range(60):
        noise = random.Random(seed)
        replicas = [f"worker-{n}" for n in range(noise.randint(0, 1), noise.randint(2, 4))]
        has_steps = noise.random() < 0.7
        events = [
            at(s % 60 + noise.random() / 2, r, noise.random(), s if has_steps else None)
            for s in range(50)
            for r in replicas
        ]
        events = sorted(events, key=lambda e: (e.time, noise.random()))
        for _ in range(noise.randint(0, 20)):
            early = noise.randrange(len(events))
            events.insert(noise.randint(early, len(events)), events[early])
        spec = MetricSpec(goal="min", aggregate=noise.choice(["median", "mean", "last"]))
        made = tally(events, goal="min", aggregate=spec.aggregate)
        series = headline_series(events, spec)
        statistics = made.summary()["loss"]
        assert statistics["count"] == len(events)
        assert statistics["last"] == series[-1].value
        assert statistics["best"] == min(m.value for m in series)
        assert made.recent("loss")[-20:] == [m.value for m in series[-20:]]


def test_memory_is_bounded() -> None:
    headline, spec = Headline(), MetricSpec()
    for step in range(10_000):
        headline.add(at(step % 60, f"worker-{step % 3 + 1}", 1.0, step), spec)
    assert len(headline.steps) <= 16


def test_a_tally_keeps_last_count_best_and_unit() -> None:
    made = Tally(
        {
            "loss": MetricSpec("", goal="min"),
            "speed": MetricSpec("", goal="max", unit="samples/s"),
        }
    )
    for value in (3.0, 1.0, math.nan, 2.0):
        made.add(at(1, "worker-0", value))
    for value in (5.0, math.inf, 4.0):
        made.add(at(1, "worker-0", value, name="speed"))
    made.add(at(1, "worker-0", -1.0, name="other"))
    made.add(at(1, "worker-0", 50.0, name="node.cpu"))
    assert made.summary() == {
        "loss": {"last": 2.0, "count": 4, "best": 1.0},
        "speed": {"last": 4.0, "count": 3, "best": 5.0, "unit": "samples/s"},
        "other": {"last": -1.0, "count": 1},
    }
    assert list(made.summary(nodes=True)) == ["loss", "speed", "other", "node.cpu"]


def test_a_tally_keeps_only_recent_values() -> None:
    made = Tally({}, recent=3)
    for value in range(10):
        made.add(at(value, "worker-0", float(value)))
    assert made.recent("loss") == [7.0, 8.0, 9.0]
