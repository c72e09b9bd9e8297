"""Events as NDJSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from rsctl.stream.events import Event, FindingEvent, LogEvent, MetricEvent, ResultEvent

_encoder = msgspec.json.Encoder()


def event_line(event: Event) -> bytes:
    """One event as one line of JSON, `type` and `time` first.

    A finding's own fields stand beside them. A value that is not finite is written as text,
    `"nan"` or `"inf"`, since JSON has no number for it.
    """
    return _encoder.encode(_plain(event)) + b"\n"


def event_lines(events: Iterable[Event]) -> bytes:
    """Many events, one a line, see `event_line`."""
    plain = [event if type(event) is LogEvent else _plain(event) for event in events]
    return _encoder.encode_lines(plain)


def _plain(event: Event) -> Any:
    if isinstance(event, FindingEvent):
        return _flat(event)
    if isinstance(event, MetricEvent) and not math.isfinite(event.value):
        return {**msgspec.to_builtins(event), "value": str(event.value)}
    if isinstance(event, ResultEvent):
        metrics = {name: _finite(figures) for name, figures in event.metrics.items()}
        return replace(event, metrics=metrics)
    return event


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures of a metric, those that are not finite as text."""
    return {
        name: str(figure) if isinstance(figure, float) and not math.isfinite(figure) else figure
        for name, figure in figures.items()
    }


def _flat(event: FindingEvent) -> dict[str, Any]:
    head = {"type": "finding", "time": event.time, "replica": event.replica}
    return {**head, **msgspec.to_builtins(event.finding)}
