"""The recorded training steps of a run: rsctl's binding to PyTorch prints them, the store keeps
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from rsctl.estimate.advice.measured import StepRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.structured import converted, record_of

_MOST_PARTS = 1000


class StepPart(StepRecord, frozen=True, kw_only=True):
    """One `steps` line: a record with part number `part` of `parts` of its buckets."""

    part: Annotated[int, Meta(ge=0, lt=_MOST_PARTS)]
    parts: Annotated[int, Meta(ge=1, le=_MOST_PARTS)]


def reported_steps(line: LogEvent) -> StepPart | None:
    """The record in a line of the runtime; None for other lines.

    Any program can print such a line: a line of another form is ignored.
    """
    return converted(record_of(line.text, "steps"), StepPart)


def keep_steps(store: Store, run: str, part: StepPart) -> None:
    """Record a part; the last report counts. Raises StoreError."""
    text = msgspec.json.encode(part).decode()
    statement = "INSERT OR REPLACE INTO step_times (run, part, record) VALUES (?, ?, ?)"
    store.write(statement, run, part.part, text)


def steps_of(store: Store, run: str) -> StepRecord | None:
    """The last record of a run; None if it does not exist or a part of it is missing.

    Raises StoreError.
    """
    rows = store.rows("SELECT record FROM step_times WHERE run=? ORDER BY part", run)
    return whole_record([msgspec.json.decode(text, type=StepPart) for (text,) in rows])


def whole_record(reported: Iterable[StepPart]) -> StepRecord | None:
    """The record of these parts, the last of each number; None if one is missing."""
    latest = {part.part: part for part in reported}
    if 0 not in latest:
        return None
    parts = [latest[i] for i in range(latest[0].parts) if i in latest]
    if len(parts) < parts[0].parts or len({part.seconds for part in parts}) > 1:
        return None
    buckets = tuple(bucket for part in parts for bucket in part.buckets)
    fields = {name: getattr(parts[0], name) for name in StepRecord.__struct_fields__}
    return StepRecord(**{**fields, "buckets": buckets})
