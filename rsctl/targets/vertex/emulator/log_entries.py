"""Log entries: from lines that containers print to what entries:list shows."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT",
              "EMERGENCY")  # fmt: skip
SERVICE = "service"
"""The task whose entries come from the service itself."""

LOG_AREA = "root"
"""The value of the label `ml.googleapis.com/job_id/log_area`."""

ENDPOINT = "ml.googleapis.com/endpoint"
"""A label of the service's own entries on a job's state; it is empty there."""


class StoredLogEntry(NamedTuple):
    """One entry. `payload` is the text, or with `is_json` an object's JSON.

    `time` is RFC 3339 with microseconds and Z, so that entries sort by (time, insert_id) as texts.
    `visible` is the clock's time from which it can be read. `job_state` is the state in the label
    of the service's own entries: SUCCEEDED, without the enum's prefix.
    """

    time: str
    insert_id: str
    job: str
    task: str
    severity: str
    payload: str
    is_json: bool
    visible: float
    job_state: str = ""


def read_line(task: str, stream: str, text: str, payload: str) -> tuple[str, str, bool]:
    """Severity, payload and whether it is JSON, of a task's line; `payload` as `Behaviour` has it.

    A line of stdout that is a JSON object becomes a jsonPayload, its `severity` the entry's; one
    that has nothing else but a `message` is text after all.
    """
    severity = "ERROR" if stream == "stderr" else "INFO"
    content = _object(text)
    if content is None:
        if payload == "text":
            return severity, text, False
        agents = {"attrs": {"tag": task}, "levelname": severity, "message": text}
        return severity, json.dumps(agents), True
    lifted = content.pop("severity", None)
    if isinstance(lifted, str) and lifted.upper() in SEVERITIES:
        severity = lifted.upper()
    elif lifted is not None:
        content["severity"] = lifted
    if set(content) == {"message"} and isinstance(content["message"], str):
        return severity, content["message"], False
    return severity, json.dumps(content), True


def shown(entry: StoredLogEntry, project: str) -> dict[str, Any]:
    """An entry in the form of the API."""
    labels = {"ml.googleapis.com/job_id/log_area": LOG_AREA}
    if entry.job_state:
        labels = {ENDPOINT: "", "ml.googleapis.com/job_state": entry.job_state}
    payload: dict[str, Any] = {"textPayload": entry.payload}
    if entry.is_json:
        payload = {"jsonPayload": _struct(json.loads(entry.payload))}
    return {
        "insertId": entry.insert_id,
        "logName": f"projects/{project}/logs/{log_id(entry)}",
        "receiveTimestamp": entry.time,
        "timestamp": entry.time,
        "severity": entry.severity,
        "resource": {
            "type": "ml_job",
            "labels": {"job_id": entry.job, "project_id": project, "task_name": entry.task},
        },
        "labels": labels,
        **payload,
    }


def log_id(entry: StoredLogEntry) -> str:
    """The ID of the log that an entry is in, escaped as in names.

    The ID for the service's own entries contains the job's. Source: real entries of custom jobs.
    """
    return f"ml.googleapis.com%2F{entry.job}" if entry.task == SERVICE else entry.task


def _object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _struct(value: Any) -> Any:
    """As a google.protobuf.Struct comes back: keys in no order of the writer's, numbers doubles."""
    if isinstance(value, dict):
        return {key: _struct(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_struct(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _double(value)
    return value


def _double(value: int | float) -> int | float | str:
    try:
        double = float(value)
    except OverflowError:
        return "Infinity"
    if double != double or double in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(double)]
    return int(double) if double.is_integer() and abs(double) < 1e15 else double
