"""Events as NDJSON: what a script reads."""

from __future__ import annotations

import json
import math

import pytest

from rsctl.findings import JobState, warning
from rsctl.runs.stream.events import (
    Event,
    FindingEvent,
    LogEvent,
    MetricEvent,
    ResultEvent,
    StateEvent,
    now,
    parse_time,
    seconds_between,
)
from rsctl.runs.stream.ndjson import event_line, event_lines, json_of

T = "2026-01-31T12:00:00.000000Z"
CASES: list[tuple[Event, str]] = [
    (
        LogEvent(T, "worker-0", "52", "stderr", 'a "b" \x1b \u00e9'),
        '{"type":"log","time":"T","replica":"worker-0","id":"52","stream":"stderr",'
        '"text":"a \\"b\\" \\u001b \u00e9"}',
    ),
    (
        StateEvent(time=T, state=JobState.FAILED, replica="worker-1", exit_code=3),
        '{"type":"state","time":"T","state":"failed","replica":"worker-1","attempt":1,'
        '"exit_code":3,"reason":null}',
    ),
    (
        MetricEvent(time=T, replica="worker-0", name="loss", value=0.5, step=3),
        '{"type":"metric","time":"T","replica":"worker-0","name":"loss","value":0.5,"step":3}',
    ),
    (
        MetricEvent(time=T, replica="worker-0", name="loss", value=-math.inf),
        '{"type":"metric","time":"T","replica":"worker-0","name":"loss","value":"-inf",'
        '"step":null}',
    ),
    (
        FindingEvent(time=T, finding=warning("disk-full", "full", "free it"), replica="worker-0"),
        '{"type":"finding","time":"T","replica":"worker-0","severity":"warning",'
        '"code":"disk-full","message":"full","remedy":"free it","path":null,"file":null,'
        '"line":null,"column":null}',
    ),
    (
        ResultEvent(
            time=T,
            run="a-1",
            state=JobState.SUCCEEDED,
            exit_code=0,
            metrics={"loss": {"last": math.nan, "count": 2, "best": 1.0}},
            url="process://a-1",
            results={"outputs": "/runs/a-1/outputs"},
        ),
        '{"type":"result","time":"T","run":"a-1","state":"succeeded","exit_code":0,'
        '"first_failure":null,"metrics":{"loss":{"last":"nan","count":2,"best":1.0}},'
        '"url":"process://a-1","results":{"outputs":"/runs/a-1/outputs"},"attempt":1,"attempts":[],"placements":[],"cost":null}',
    ),
]


@pytest.mark.parametrize(("event", "expected"), CASES)
def test_an_event_is_one_line_of_strict_json(event: Event, expected: str) -> None:
    encoded = event_line(event).decode()
    assert encoded == expected.replace('"T"', f'"{T}"') + "\n"
    json.loads(encoded, parse_constant=pytest.fail)


def test_times_sort_as_text_and_can_be_subtracted() -> None:
    first, second = now(), now()
    assert len(first) == len(T)
    assert first <= second
    assert seconds_between(T, "2026-01-31T12:01:00.500000Z") == 60.5
    with pytest.raises(ValueError, match="does not match"):
        parse_time("yesterday")


def test_many_events_are_the_lines_of_each() -> None:
    events = [event for event, _ in CASES]
    assert event_lines(events) == b"".join(event_line(event) for event in events)
    assert event_lines([]) == b""


def test_numbers_that_json_does_not_have_are_text_at_any_depth() -> None:
    value = {"a": [1.5, math.nan, (math.inf, {"b": -math.inf})], "c": "nan", "d": None, "e": True}
    assert json.loads(json_of(value)) == {
        **{"a": [1.5, "nan", ["inf", {"b": "-inf"}]], "c": "nan", "d": None, "e": True},
    }
