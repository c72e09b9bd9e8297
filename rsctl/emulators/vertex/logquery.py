"""A filter of entries:list: which entries it takes, and where to look for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from rsctl.emulators.vertex.entries import SEVERITIES, Entry
from rsctl.emulators.vertex.filters import (
    And,
    Comparison,
    Filter,
    Not,
    Or,
    Search,
    compare,
    matches,
    parse,
)
from rsctl.emulators.vertex.logbook import Span

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.I)


class LogQuery:
    """One filter. Raises ValueError if it cannot be read."""

    def __init__(self, text: str, project: str) -> None:
        self._project = project
        self._filter = _prepared(parse(text))
        self.span = _span(self._filter)
        """Outside of it nothing matches."""

    def takes(self, entry: Entry) -> bool:
        """Whether the filter is true of an entry."""
        return matches(self._filter, lambda one: self._holds(one, entry))

    def _holds(self, wanted: Comparison | Search, entry: Entry) -> bool:
        if isinstance(wanted, Search):
            return wanted.text.casefold() in f"{entry.payload}\n{entry.insert_id}".casefold()
        if wanted.path == ("severity",):
            return _compare_severity(entry.severity, wanted.operator, wanted.value)
        have = self._field(wanted.path, entry)
        if have is None:
            return wanted.operator in ("!=", "!~")
        if wanted.operator == ":" and wanted.value == "*":
            return True
        return compare(have, wanted.operator, wanted.value)

    def _field(self, path: tuple[str, ...], entry: Entry) -> str | None:
        simple = _FIELDS.get(path)
        if simple:
            return simple(entry)
        if path == ("resource", "labels", "project_id"):
            return self._project
        if path == ("logName",):
            return f"projects/{self._project}/logs/{entry.task}"
        if path[0] == "jsonPayload" and entry.is_json:
            return _inner(json.loads(entry.payload), path[1:])
        return None


_FIELDS: dict[tuple[str, ...], Callable[[Entry], str | None]] = {
    ("timestamp",): lambda entry: entry.time,
    ("receiveTimestamp",): lambda entry: entry.time,
    ("insertId",): lambda entry: entry.insert_id,
    ("resource", "type"): lambda entry: "ml_job",
    ("resource", "labels", "job_id"): lambda entry: entry.job,
    ("resource", "labels", "task_name"): lambda entry: entry.task,
    ("labels", "ml.googleapis.com/job_state"): lambda entry: entry.job_state or None,
    ("textPayload",): lambda entry: None if entry.is_json else entry.payload,
}


def _inner(value: Any, path: tuple[str, ...]) -> str | None:
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value if isinstance(value, str) else json.dumps(value)


def _compare_severity(have: str, operator: str, value: str) -> bool:
    order = {name: f"{number:02}" for number, name in enumerate(SEVERITIES)}
    return compare(order[have], operator.replace(":", "="), order[value.upper()])


def _prepared(wanted: Filter) -> Filter:
    """The same with times and severities checked, and times as entries have them."""
    if isinstance(wanted, And):
        return And(tuple(map(_prepared, wanted.parts)))
    if isinstance(wanted, Or):
        return Or(tuple(map(_prepared, wanted.parts)))
    if isinstance(wanted, Not):
        return Not(_prepared(wanted.part))
    if isinstance(wanted, Comparison) and wanted.path in (("timestamp",), ("receiveTimestamp",)):
        return wanted._replace(value=normal_time(wanted.value))
    is_severity = isinstance(wanted, Comparison) and wanted.path == ("severity",)
    if isinstance(wanted, Comparison) and is_severity and wanted.value.upper() not in SEVERITIES:
        raise ValueError(f'Unparseable filter: "{wanted.value}" is no severity')
    return wanted


def normal_time(text: str) -> str:
    """RFC 3339 as entries have it, UTC with microseconds; a rest sorts behind.

    Raises ValueError.
    """
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f'Unparseable filter: timestamp "{text}" is not RFC 3339')
    zone = "+00:00" if found[3] in "Zz" else found[3]
    when = datetime.fromisoformat(found[1].upper() + zone).astimezone(timezone.utc)
    fraction = (found[2] or "").ljust(9, "0")
    rest = "Z" if fraction.endswith("000") else "~"
    return f"{when:%Y-%m-%dT%H:%M:%S}.{fraction[:6]}{rest}"


def _span(wanted: Filter) -> Span:
    if isinstance(wanted, And):
        spans = [_span(part) for part in wanted.parts]
        job = next((span.job for span in spans if span.job is not None), None)
        low = max((span.low for span in spans), default="")
        return Span(job, low, min((span.high for span in spans), default="~"))
    if isinstance(wanted, Or):
        spans = [_span(part) for part in wanted.parts]
        jobs = {span.job for span in spans}
        job = spans[0].job if len(jobs) == 1 else None
        return Span(job, min(span.low for span in spans), max(span.high for span in spans))
    if isinstance(wanted, Comparison):
        return _span_of(wanted)
    return Span()


def _span_of(wanted: Comparison) -> Span:
    if wanted.path == ("resource", "labels", "job_id") and wanted.operator == "=":
        return Span(job=wanted.value)
    if wanted.path != ("timestamp",):
        return Span()
    if wanted.operator in (">", ">="):
        return Span(low=wanted.value)
    if wanted.operator in ("<", "<="):
        return Span(high=wanted.value)
    return Span(low=wanted.value, high=wanted.value) if wanted.operator == "=" else Span()
