"""Entries of Cloud Logging as the lines that were printed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rsctl.findings import Finding
from rsctl.runs.exit_reports import exit_report, runtime_finding
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.metrics import MetricReader
from rsctl.targets.managed.service import SERVICE
from rsctl.targets.vertex.log_entries import entry_key, lines_of
from rsctl.targets.vertex.pools import replica_of
from tests.fixtures import real


def entry(task: str = "workerpool0-0", **fields: Any) -> dict[str, Any]:
    labels = {"job_id": "1", "task_name": task}
    head = {"timestamp": "2026-11-21T10:00:00.123456789Z", "insertId": "a"}
    return {**head, "resource": {"type": "ml_job", "labels": labels}, **fields}


ROLES = ("worker", "worker", "reducer", "evaluator")


def lines(found: dict[str, Any]) -> list[LogEvent]:
    return list(lines_of(found, *entry_key(found), ROLES))


def logged(printed: str, severity: str = "INFO") -> dict[str, Any]:
    """What Logging makes of a line of JSON: an object without order, its severity lifted out."""
    payload = json.loads(printed)
    severity = {"error": "ERROR", "warning": "WARNING"}.get(payload.get("severity"), severity)
    if severity in ("ERROR", "WARNING"):
        del payload["severity"]
    return entry(jsonPayload=dict(sorted(payload.items(), reverse=True)), severity=severity)


@pytest.mark.parametrize(
    ("payload", "texts"),
    [
        ({"textPayload": "hello"}, ["hello"]),
        ({"textPayload": "hello\n"}, ["hello"]),
        ({"textPayload": "one\ntwo\n\nfour"}, ["one", "two", "", "four"]),
        ({"textPayload": "10%\r20%"}, ["10%\r20%"]),
        ({"textPayload": "\ud800 x"}, ["\ud800 x"]),
        ({"jsonPayload": {"message": "hi\n", "levelname": "INFO", "attrs": {"tag": "x"}}}, ["hi"]),
        ({"jsonPayload": {"message": "hi", "loss": 0.5}}, ['{"message": "hi", "loss": 0.5}']),
        ({"jsonPayload": {"epoch": 1}}, ['{"epoch": 1}']),
        ({"jsonPayload": {"rsctl": 1}}, ['{"rsctl": 1}']),
        ({"jsonPayload": {"message": {"a": 1}}}, ['{"message": {"a": 1}}']),
        ({"protoPayload": {"@type": "t"}}, ['{"@type": "t"}']),
        ({}, [""]),
    ],
)
def test_text(payload: dict[str, Any], texts: list[str]) -> None:
    assert [line.text for line in lines(entry(**payload))] == texts


def test_a_line_as_long_as_can_be() -> None:
    assert lines(entry(textPayload="x" * (256 << 10)))[0].text == "x" * (256 << 10)


def test_where_a_line_comes_from() -> None:
    first, second = lines(entry("workerpool2-1", textPayload="a\nb", severity="ERROR"))
    time, name = "2026-11-21T10:00:00.123456Z", "2026-11-21T10:00:00.123456789Z/a"
    assert first == LogEvent(time, "reducer-1", name, "stderr", "a")
    assert second == LogEvent(time, "reducer-1", f"{name}/1", "stderr", "b")
    assert lines(entry("service", textPayload="Job is queued."))[0].replica == SERVICE


@pytest.mark.parametrize(
    ("task", "replica"),
    [
        ("workerpool0-0", "worker-0"),
        ("workerpool1-0", "worker-1"),
        ("workerpool1-62", "worker-63"),
        ("workerpool2-3", "reducer-3"),
        ("workerpool3-0", "evaluator-0"),
        ("workerpool4-0", None),
        ("service", None),
        ("workerpool1-", None),
        (None, None),
    ],
)
def test_replicas(task: Any, replica: str | None) -> None:
    assert replica_of(task, ROLES) == replica


def test_metrics_survive_the_log_service() -> None:
    printed = '{"rsctl": "metrics", "step": 10, "loss": 0.41, "rank": 0}'
    (line,) = lines(logged(printed))
    metrics = list(MetricReader({}).read(line))
    assert [(m.name, m.value, m.step) for m in metrics] == [("loss", 0.41, 10)]


def test_telemetry_survives_doubles_for_integers() -> None:
    payload = {"gpus": [{"index": 0.0, "percent": 50.0}], "rsctl": "telemetry", "rss_bytes": 7.0}
    (line,) = lines(entry(jsonPayload=payload))
    metrics = list(MetricReader({}).read(line))
    assert {m.name: m.value for m in metrics} == {"node.rss_bytes": 7, "node.gpu0.percent": 50}


def test_a_ranks_death_survives_the_log_service() -> None:
    printed = '{"rsctl": "exit", "rank": 3, "code": 137, "signal": "SIGKILL"}'
    (line,) = lines(logged(printed))
    report = exit_report(line)
    assert report is not None
    assert (report.rank, report.exit_code, report.signal) == (3, 137, "SIGKILL")
    assert report.time == line.time


@pytest.mark.parametrize("severity", ["error", "warning", "note"])
def test_a_finding_survives_the_log_service(severity: Any) -> None:
    finding = Finding(severity=severity, code="plugin", message="m", remedy="r")
    printed = json.dumps({"rsctl": "finding", **msgspec.to_builtins(finding)})
    (line,) = lines(logged(printed))
    assert runtime_finding(line) == finding
    assert line.stream == "stdout"


@pytest.mark.parametrize("broken", [None, [], {}, {"timestamp": "now"}, {"timestamp": 5}])
def test_what_is_no_entry(broken: Any) -> None:
    with pytest.raises(ValueError, match=r"not an object|no time"):
        entry_key(broken)


def test_an_entry_without_an_id_has_one_of_its_own() -> None:
    one, two = entry(textPayload="a"), entry(textPayload="b")
    del one["insertId"], two["insertId"]
    assert entry_key(one) == entry_key(dict(one))
    assert entry_key(one) != entry_key(two)


@pytest.mark.parametrize("case", real("vertex_log_entries"), ids=lambda case: str(case["name"]))
def test_entries_of_the_real_service(case: dict[str, Any]) -> None:
    """As far as they were published: what is missing of an entry is that of others here."""
    whole = {**entry(case["task"] or "service"), **case["entry"]}
    found = lines(whole)
    assert "\n".join(line.text for line in found) == case["text"]
    replica = replica_of(case["task"], ROLES) if case["task"] else None
    assert {line.replica for line in found} == {replica or SERVICE}
