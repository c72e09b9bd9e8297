"""The spec's metrics as SageMaker's MetricDefinitions, which bring them to CloudWatch. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.findings import Finding, note
from rsctl.job.job import Job

_MOST = 40
_LONGEST = 500
_NAMED_GROUP = re.compile(r"(?<!\\)\(\?P<[^>]+>")


def metric_definitions(job: Job) -> tuple[list[dict[str, str]], list[Finding]]:
    """The metrics that CloudWatch extracts from the log, and a note for each one that it cannot.

    rsctl reads all of them itself, so omitted metrics are not lost.
    """
    definitions: list[dict[str, str]] = []
    findings: list[Finding] = []
    for name, regex in _with_regex(job):
        translated = _first_group_is_value(regex)
        obstacle = _obstacle(translated, len(definitions))
        if translated is not None and obstacle is None:
            definitions.append({"Name": name, "Regex": translated})
        else:
            message = f"{name} does not reach CloudWatch: {obstacle}; rsctl reads it from the log"
            findings.append(note("metrics", message, None, f"metrics.{name}"))
    return definitions, findings


def _with_regex(job: Job) -> Iterator[tuple[str, str]]:
    for name, metric in job.metrics.items():
        if metric.regex is not None:
            yield name, str(metric.regex)


def _obstacle(regex: str | None, so_far: int) -> str | None:
    if regex is None:
        return "SageMaker uses the first group as the value, and here it is a different one"
    if len(regex) > _LONGEST:
        return f"its regex has {len(regex)} characters, and SageMaker allows {_LONGEST}"
    if len(regex.splitlines()) > 1:
        return "its regex has more than one line"
    if so_far >= _MOST:
        return f"SageMaker allows {_MOST} metrics"
    return None


def _first_group_is_value(regex: str) -> str | None:
    """The regex without its groups' names, which are Python's; None if that is not possible."""
    compiled = re.compile(regex)
    if not compiled.groupindex:
        return regex
    if compiled.groupindex.get("value", 1) != 1 or "(?P=" in regex:
        return None
    plain = _NAMED_GROUP.sub("(", regex)
    try:
        same = re.compile(plain).groups == compiled.groups
    except re.error:
        return None
    return plain if same and "(?P" not in plain else None
