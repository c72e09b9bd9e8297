"""Encodes events as NDJSON: one JSON object a line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from rsctl.runs.stream.events import Event, FindingEvent, LogEvent, MetricEvent, ResultEvent

_encoder = msgspec.json.Encoder()


def json_of(value: Any) -> bytes:
    """A value as JSON. Numbers that JSON does not have are text: see `finite`."""
    return _encoder.encode(finite(msgspec.to_builtins(value)))


def finite(value: Any) -> Any:
    """Plain data in which numbers that are not finite are `"nan"`, `"inf"` or `"-inf"`.

    JSON has no number for them, and null would not distinguish a diverged loss from no loss.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return value


def event_line(event: Event) -> bytes:
    """One event as one line of JSON, `type` and `time` first.

    A finding's own fields stand beside them. Numbers that JSON does not have are text: see
    `finite`.
    """
    return _encoder.encode(_plain(event)) + b"\n"


def event_lines(events: Iterable[Event]) -> bytes:
    """Many events, one a line, see `event_line`."""
    plain = [event if type(event) is LogEvent else _plain(event) for event in events]
    return _encoder.encode_lines(plain)


def _plain(event: Event) -> Any:
    if isinstance(event, FindingEvent):
        head = {"type": "finding", "time": event.time, "replica": event.replica}
        return {**head, **msgspec.to_builtins(event.finding)}
    if isinstance(event, MetricEvent) and not math.isfinite(event.value):
        return {**msgspec.to_builtins(event), "value": str(event.value)}
    if isinstance(event, ResultEvent):
        return replace(event, metrics=finite(event.metrics))
    return event
