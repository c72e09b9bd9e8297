"""Recorded steps of a run: read of its log lines, kept part by part."""

from __future__ import annotations

import json

import pytest

from rsctl.estimate.advice.measured import StepRecord, profile_of_record
from rsctl.estimate.advice.profile import GradientBucket
from rsctl.findings import JobState
from rsctl.runs.step_times import keep_steps, reported_steps, steps_of
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import LogEvent

FIELDS = {
    **{"rsctl": "steps", "steps": 20, "seconds": 0.5, "low": 0.49, "high": 0.52},
    **{"compute": 0.4, "data": 0.1, "world": 2, "prefetches": True, "communicates": True},
}


def line(**fields: object) -> LogEvent:
    """A line of a log with these fields beside those of all."""
    text = json.dumps({**FIELDS, **fields})
    return LogEvent("2026-01-01T00:00:00.000000Z", "worker-0", "0", "stdout", text)


def part(number: int, buckets: list[list[float]], **fields: object) -> LogEvent:
    """One of two parts."""
    return line(part=number, parts=2, buckets=buckets, **fields)


@pytest.fixture
def store() -> Store:
    """A store with one run."""
    store = Store()
    store.add(
        RunRecord(
            run="job-aaaaaa",
            name="job",
            target="process",
            url="process://job-aaaaaa",
            state=JobState.RUNNING,
            created="2026-01-01T00:00:00.000000Z",
        )
    )
    return store


def keep(store: Store, *lines: LogEvent) -> None:
    """Keep what is in these lines."""
    for event in lines:
        found = reported_steps(event)
        assert found is not None
        keep_steps(store, "job-aaaaaa", found)


def test_a_record_is_whole_when_all_its_parts_are_there(store: Store) -> None:
    keep(store, part(0, [[100, 0.2, 0.45]]))
    assert steps_of(store, "job-aaaaaa") is None
    keep(store, part(1, [[10, 0.4, 0.5]]))
    record = steps_of(store, "job-aaaaaa")
    assert record is not None
    assert record.gradient_bytes == 110
    assert profile_of_record(record, "run job-aaaaaa").buckets == (
        GradientBucket(100, 0.2),
        GradientBucket(10, 0.4),
    )


def test_the_last_record_counts_and_parts_of_two_are_none(store: Store) -> None:
    keep(store, part(0, [[1, 0.1, 0.2]]), part(1, [[2, 0.1, 0.2]]))
    keep(store, part(0, [[3, 0.1, 0.2]], seconds=0.6))
    assert steps_of(store, "job-aaaaaa") is None
    keep(store, line(part=0, parts=1, buckets=[[4, 0.1, 0.2]], seconds=0.7))
    record = steps_of(store, "job-aaaaaa")
    assert record is not None
    assert (record.seconds, record.gradient_bytes) == (0.7, 4)


@pytest.mark.parametrize(
    "fields",
    [
        {"rsctl": "metrics"},
        {"seconds": -1},
        {"seconds": "NaN"},
        {"buckets": [[1, 2]]},
        {"buckets": None},
        {"part": 5, "parts": 5000},
        {"steps": 0},
    ],
)
def test_a_line_of_another_form_is_no_record(fields: dict[str, object]) -> None:
    whole = {"part": 0, "parts": 1, "buckets": [[1, 0.1, 0.2]]}
    assert reported_steps(line(**{**whole, **fields})) is None


def test_a_profile_says_what_it_rests_on() -> None:
    record = StepRecord(
        **{name: value for name, value in FIELDS.items() if name != "rsctl"},
        buckets=((100, 0.2, 0.45),),
    )
    profile = profile_of_record(record, "run job-aaaaaa")
    assert (profile.step_seconds, profile.data_seconds, profile.data_overlaps) == (0.4, 0.1, True)
    assert profile.assumed == (
        "the wait for input is assumed to be as long as with communication",
        "the median of 20 steps, half of which took 0.49 to 0.52 s",
    )
