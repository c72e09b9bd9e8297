"""Turns entries of Cloud Logging into the lines that were printed. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from rsctl.node.rank_marks import JSON_KEY
from rsctl.runs.stream.events import LogEvent, Stream
from rsctl.runs.stream.rank_marks import with_mark
from rsctl.targets.managed.service import SERVICE
from rsctl.targets.vertex.pools import Roles, replica_of
from rsctl.targets.vertex.timestamps import event_time, nanosecond_time

_FROM_STDERR = frozenset({"ERROR", "CRITICAL", "ALERT", "EMERGENCY"})
_AGENT_FIELDS = frozenset(
    {"message", "severity", "levelname", "lineno", "pathname", "created", "thread", "attrs"}
)
"""The fields of a payload besides the printed text."""

_SEVERITIES = {"WARNING": "warning", **dict.fromkeys(_FROM_STDERR, "error")}
_DEEPEST = 20


def entry_key(entry: dict[str, Any]) -> tuple[str, str]:
    """The time, with nine digits, and the insert id, which together identify an entry.

    Raises ValueError if it is not an entry.
    """
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    time = nanosecond_time(entry.get("timestamp")) or nanosecond_time(entry.get("receiveTimestamp"))
    if time is None:
        raise ValueError("it has no time")
    insert_id = entry.get("insertId")
    return time, str(insert_id) if insert_id else _digest(entry)


def lines_of(entry: dict[str, Any], time: str, insert_id: str, roles: Roles) -> Iterator[LogEvent]:
    """The lines of an entry, usually one; `roles` are the roles of the job's pools.

    Output to stderr arrives with severity ERROR, including progress bars, so the severity shows the
    stream, not a failure.
    """
    resource = entry.get("resource")
    labels = resource.get("labels") if isinstance(resource, dict) else None
    task = labels.get("task_name") if isinstance(labels, dict) else None
    text, is_runtime = _text(entry)
    severity = str(entry.get("severity") or "DEFAULT")
    stream: Stream = "stderr" if severity in _FROM_STDERR and not is_runtime else "stdout"
    short = event_time(time) or time
    replica = replica_of(task, roles) or SERVICE
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        identity = f"{time}/{insert_id}" if number == 0 else f"{time}/{insert_id}/{number}"
        yield LogEvent(short, replica, identity, stream, line)


def _text(entry: dict[str, Any]) -> tuple[str, bool]:
    """The printed text, and whether it was one of the runtime's own lines of JSON."""
    payload = entry.get("jsonPayload")
    if isinstance(payload, dict):
        rank = payload.get(JSON_KEY)
        if isinstance(rank, str):
            payload = {key: value for key, value in payload.items() if key != JSON_KEY}
        text, is_runtime = _payload_text(payload, str(entry.get("severity") or ""))
        return with_mark(rank, text) if isinstance(rank, str) else text, is_runtime
    if isinstance(entry.get("textPayload"), str):
        return str(entry["textPayload"]), False
    other = entry.get("protoPayload", payload)
    return (json.dumps(other) if other is not None else ""), False


def _payload_text(payload: dict[str, Any], severity: str) -> tuple[str, bool]:
    if isinstance(payload.get("rsctl"), str):
        return _runtime_line(payload, severity), True
    message = payload.get("message")
    if isinstance(message, str) and payload.keys() <= _AGENT_FIELDS:
        return message, False
    return json.dumps(payload), False


def _runtime_line(payload: dict[str, Any], severity: str) -> str:
    """The line as the runtime printed it: Logging keeps no order, and lifts out the severity."""
    line = {"rsctl": payload["rsctl"]}
    if payload["rsctl"] == "finding":
        line["severity"] = _SEVERITIES.get(severity, "note")
    line.update((key, _with_integers(value)) for key, value in payload.items() if key != "rsctl")
    return json.dumps(line)


def _with_integers(value: Any, depth: int = 0) -> Any:
    """Convert doubles back to the integers that they were."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
        return int(value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_with_integers(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: _with_integers(item, depth + 1) for key, item in value.items()}
    return value


def _digest(entry: dict[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=12).hexdigest()
