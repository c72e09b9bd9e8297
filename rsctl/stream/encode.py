"""Events as NDJSON."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rsctl.stream.events import Event, FindingEvent, MetricEvent

_encoder = msgspec.json.Encoder()


def event_line(event: Event) -> bytes:
    """One event as one line of JSON, `type` and `time` first.

    A finding's own fields stand beside them. A value that is not finite is written as text,
    `"nan"` or `"inf"`, since JSON has no number for it.
    """
    if isinstance(event, FindingEvent):
        return _encoder.encode(_flat(event)) + b"\n"
    if isinstance(event, MetricEvent) and not math.isfinite(event.value):
        plain = {**msgspec.to_builtins(event), "value": str(event.value)}
        return _encoder.encode(plain) + b"\n"
    return _encoder.encode(event) + b"\n"


def _flat(event: FindingEvent) -> dict[str, Any]:
    head = {"type": "finding", "time": event.time, "replica": event.replica}
    return {**head, **msgspec.to_builtins(event.finding)}
