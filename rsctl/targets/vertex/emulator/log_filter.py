"""The filter of entries:list: which entries match, and the span of times and jobs they are in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from rsctl.targets.vertex.emulator.filters import (
    And,
    Filter,
    FilterComparison,
    Function,
    Not,
    NotEmulated,
    Or,
    Search,
    Single,
    compare,
    matches,
    parse,
)
from rsctl.targets.vertex.emulator.log_entries import (
    ENDPOINT,
    LOG_AREA,
    SEVERITIES,
    StoredLogEntry,
    log_id,
)
from rsctl.targets.vertex.emulator.log_store import LogRange

_WORD = re.compile(r"\w+")
_NO_WORDS = re.compile(r"""["'`*]|(^|\s)(AND|OR|NOT|-)""")
_LABELS = ("ml.googleapis.com/job_id/log_area", "ml.googleapis.com/job_state", ENDPOINT)
_ISO_8601 = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(:\d\d)?(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?", re.I
)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.I)


class LoggingFilter:
    """One filter. Raises ValueError if it cannot be read, NotEmulated for unknown fields."""

    def __init__(self, text: str, project: str) -> None:
        self._project = project
        self._filter = _prepared(parse(text))
        self.span = _span(self._filter)
        """Outside of it nothing matches."""

    def takes(self, entry: StoredLogEntry) -> bool:
        """Whether the filter is true of an entry."""
        return matches(self._filter, lambda one: self._holds(one, entry))

    def _holds(self, wanted: Single, entry: StoredLogEntry) -> bool:
        if isinstance(wanted, Function):
            return self._is_true(wanted, entry)
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

    def _is_true(self, wanted: Function, entry: StoredLogEntry) -> bool:
        """`log_id(ID)`, `SEARCH(WORDS)` and `SEARCH(FIELD, WORDS)`: all words, in any order."""
        if wanted.name == "log_id":
            return unquote(wanted.arguments[0]) == unquote(log_id(entry))
        path = tuple(wanted.arguments[0].split(".")) if len(wanted.arguments) > 1 else None
        text = self._field(path, entry) if path else f"{entry.payload}\n{entry.insert_id}"
        have = {word.casefold() for word in _WORD.findall(text or "")}
        return {word.casefold() for word in _WORD.findall(wanted.arguments[-1])} <= have

    def _field(self, path: tuple[str, ...], entry: StoredLogEntry) -> str | None:
        simple = _FIELDS.get(path)
        if simple:
            return simple(entry)
        if path == ("resource", "labels", "project_id"):
            return self._project
        if path == ("logName",):
            return f"projects/{self._project}/logs/{log_id(entry)}"
        if path[0] == "jsonPayload" and entry.is_json:
            return _inner(json.loads(entry.payload), path[1:])
        return None


_FIELDS: dict[tuple[str, ...], Callable[[StoredLogEntry], str | None]] = {
    ("timestamp",): lambda entry: entry.time,
    ("receiveTimestamp",): lambda entry: entry.time,
    ("insertId",): lambda entry: entry.insert_id,
    ("resource", "type"): lambda entry: "ml_job",
    ("resource", "labels", "job_id"): lambda entry: entry.job,
    ("resource", "labels", "task_name"): lambda entry: entry.task,
    ("labels", _LABELS[0]): lambda entry: None if entry.job_state else LOG_AREA,
    ("labels", _LABELS[1]): lambda entry: entry.job_state or None,
    ("labels", ENDPOINT): lambda entry: "" if entry.job_state else None,
    ("textPayload",): lambda entry: None if entry.is_json else entry.payload,
}


_MORE_FIELDS = {
    ("severity",),
    ("logName",),
    ("resource", "labels", "project_id"),
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
    """The same with times and severities checked, and times in the format of entries."""
    if isinstance(wanted, And):
        return And(tuple(map(_prepared, wanted.parts)))
    if isinstance(wanted, Or):
        return Or(tuple(map(_prepared, wanted.parts)))
    if isinstance(wanted, Not):
        return Not(_prepared(wanted.part))
    if isinstance(wanted, Function):
        return _known_function(wanted)
    if isinstance(wanted, Search):
        return wanted
    _check_field(wanted.path)
    if wanted.path in (("timestamp",), ("receiveTimestamp",)):
        return wanted._replace(value=_filter_time(wanted.value))
    if wanted.path == ("severity",) and wanted.value.upper() not in SEVERITIES:
        raise ValueError(f'Unparseable filter: "{wanted.value}" is not a severity')
    return wanted


def _known_function(wanted: Function) -> Function:
    """The function, if it is emulated. Raises NotEmulated."""
    most = {"log_id": 1, "SEARCH": 2}.get(wanted.name, 0)
    if not most:
        raise NotEmulated(f"the function {wanted.name}()")
    if len(wanted.arguments) > most:
        raise ValueError(f"Unparseable filter: too many arguments of {wanted.name}()")
    if wanted.name == "SEARCH" and _NO_WORDS.search(wanted.arguments[-1]):
        raise NotEmulated("SEARCH() of more than plain words")
    if len(wanted.arguments) == 2:
        _check_field(tuple(wanted.arguments[0].split(".")))
    return wanted


def _check_field(path: tuple[str, ...]) -> None:
    """Raise NotEmulated for a field that entries may have in the cloud, and have not here.

    To answer that no entry has it would be a lie.
    """
    if path in _FIELDS or path in _MORE_FIELDS or path[0] == "jsonPayload":
        return
    raise NotEmulated(f"the field {'.'.join(path)} of log entries")


def _filter_time(text: str) -> str:
    """A time of a filter, by ISO 8601: also a date alone, or a zone such as +0000."""
    found = _ISO_8601.fullmatch(text)
    if not found:
        return normal_time(text)
    day, minute, second, fraction, zone = found.groups()
    zone = zone or "Z"
    if len(zone) == 5:
        zone = f"{zone[:3]}:{zone[3:]}"
    return normal_time(f"{day}T{minute or '00:00'}{second or ':00'}{fraction or ''}{zone}")


def normal_time(text: str) -> str:
    """RFC 3339 in the format of entries, UTC with microseconds; additional digits sort behind.

    Raises ValueError.
    """
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f'Unparseable filter: timestamp "{text}" is not RFC 3339')
    zone = "+00:00" if found[3] in "Zz" else found[3]
    try:
        when = datetime.fromisoformat(found[1].upper() + zone).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        message = f'Unparseable filter: timestamp "{text}" is not RFC 3339'
        raise ValueError(message) from None
    fraction = (found[2] or "").ljust(9, "0")
    rest = "Z" if fraction.endswith("000") else "~"
    return f"{when:%Y-%m-%dT%H:%M:%S}.{fraction[:6]}{rest}"


def _span(wanted: Filter) -> LogRange:
    if isinstance(wanted, And):
        spans = [_span(part) for part in wanted.parts]
        job = next((span.job for span in spans if span.job is not None), None)
        low = max((span.low for span in spans), default="")
        return LogRange(job, low, min((span.high for span in spans), default="~"))
    if isinstance(wanted, Or):
        spans = [_span(part) for part in wanted.parts]
        jobs = {span.job for span in spans}
        job = spans[0].job if len(jobs) == 1 else None
        return LogRange(job, min(span.low for span in spans), max(span.high for span in spans))
    if isinstance(wanted, FilterComparison):
        return _span_of(wanted)
    return LogRange()


def _span_of(wanted: FilterComparison) -> LogRange:
    if wanted.path == ("resource", "labels", "job_id") and wanted.operator == "=":
        return LogRange(job=wanted.value)
    if wanted.path != ("timestamp",):
        return LogRange()
    if wanted.operator in (">", ">="):
        return LogRange(low=wanted.value)
    if wanted.operator in ("<", "<="):
        return LogRange(high=wanted.value)
    return LogRange(low=wanted.value, high=wanted.value) if wanted.operator == "=" else LogRange()
