"""Jobs that are submitted by the command line, and the events that it prints."""

from __future__ import annotations

import yaml

from .conftest import Cli

EVENT_KEYS = {
    "state": ["type", "time", "state", "replica", "attempt", "exit_code", "reason"],
    "log": ["type", "time", "replica", "id", "stream", "text"],
    "metric": ["type", "time", "replica", "name", "value", "step"],
    "finding": [
        "type",
        "time",
        "replica",
        "severity",
        "code",
        "message",
        "remedy",
        "path",
        "file",
        "line",
        "column",
    ],
    "result": [
        "type",
        "time",
        "run",
        "state",
        "exit_code",
        "first_failure",
        "metrics",
        "url",
        "results",
        "attempt",
        "attempts",
        "placements",
        "cost",
    ],
}


def job(rsctl: Cli, script: str, **keys: object) -> str:
    """A job file whose command is a line of bash, once on each worker."""
    spec = {
        "name": "job",
        "run": {"command": ["bash", "-c", script], "launcher": "once", **keys.pop("run", {})},  # type: ignore[dict-item]
        "image": {"source": "src"},
        **keys,
    }
    return rsctl.write(yaml.safe_dump(spec))


def assert_shapes(events: list[dict[str, object]]) -> None:
    for event in events:
        assert list(event) == EVENT_KEYS[str(event["type"])]
    assert [event["type"] for event in events].count("result") == 1
    assert events[-1]["type"] == "result"
