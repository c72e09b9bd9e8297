"""Lines that training frameworks really print: what is suggested for them, read and misread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.metrics import MetricReader, MetricSpec
from rsctl.runs.stream.near_lines import near_line

LOGS = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "real" / "training_logs.json").read_text()
)
OF_INIT = "loss=([0-9.eE+-]+)"
"""The regex that `rsctl init` proposes."""

MISREAD = [(log["lines"], *pair) for log in LOGS for pair in log["misread"].items()]
CONVERTED = [(log["lines"], *pair) for log in LOGS for pair in log.get("converted", {}).items()]


def read(lines: list[str], regex: str) -> tuple[list[float], list[str]]:
    """The values of a regex, and the messages about it."""
    reader = MetricReader({"loss": MetricSpec(regex)})
    time = "2026-01-01T00:00:00.000000Z"
    events = [LogEvent(time, "worker-0", str(n), "stdout", line) for n, line in enumerate(lines)]
    values = [event.value for events in reader.read_all(events) for event in events]
    return values, [finding.message for finding in reader.take_findings()]


@pytest.mark.parametrize("log", LOGS, ids=[log["of"] for log in LOGS])
def test_the_regex_that_is_suggested_for_a_log_reads_it(log: dict[str, Any]) -> None:
    found = near_line("loss", OF_INIT, log["lines"])
    assert (found and found.regex) == log["suggested"]
    if "values" in log:
        assert read(log["lines"], log["suggested"]) == (log["values"], [])


@pytest.mark.parametrize(("lines", "regex", "message"), MISREAD, ids=[m[1] for m in MISREAD])
def test_a_misreading_of_a_log_is_a_finding(lines: list[str], regex: str, message: str) -> None:
    _, messages = read(lines, regex)
    assert [each.removeprefix("metric loss: ") for each in messages] == [message]


@pytest.mark.parametrize(("lines", "regex", "values"), CONVERTED, ids=[c[1] for c in CONVERTED])
def test_values_in_another_unit_than_that_of_the_regex_are_converted(
    lines: list[str], regex: str, values: list[float]
) -> None:
    assert read(lines, regex) == (values, [])
