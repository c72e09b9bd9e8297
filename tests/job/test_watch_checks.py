"""Rules of `watch` that could never hold."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import yaml


@pytest.mark.parametrize(
    ("regex", "is_read"),
    [
        (r"loss=([0-9.]+)", False),
        (r"step (?P<step>\d+) loss=(?P<value>[0-9.]+)", False),
        (r"(?P<value>[0-9.]+) at (\S+)", False),
        (r"loss\((-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\)", False),
        (r"[(]loss[])] ([^ ])", False),
        (r"loss=(\S+)", True),
        (r"loss (?P<value>[-+.\w]+) (?P<step>\d+)", True),
        (r"(?i)loss=([0-9.]+|NAN)", True),
        (r"loss=([-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|nan|inf))", True),
        (r"(['\"])loss\1: (?P<value>[^,]+)", True),
        (r"(?P<q>'?)loss=(?P<value>(?P=q)[0-9.]+)", True),
        ("(?x) loss= ([0-9.]+) # (nan", True),
    ],
)
def test_a_regex_that_reads_no_nan(read_text: Any, regex: str, is_read: bool) -> None:
    """A run that diverged succeeded, although its job file had a rule that ends it."""
    rules = {"bad": {"metric": "loss", "when": "nan"}, "low": {"metric": "loss", "below": 0.1}}
    job = {"name": "j", "run": {"module": "x"}, "metrics": {"loss": {"regex": regex}}}
    findings = read_text(yaml.safe_dump(job | {"watch": rules})).findings
    assert [(f.severity, f.path) for f in findings] == (
        [] if is_read else [("warning", "watch.bad.when")]
    )


def test_a_metric_without_a_regex(read_text: Any) -> None:
    """Its values are what the script logs."""
    job = "name: j\nrun: {module: x}\nwatch: {bad: {metric: loss, when: nan}}\n"
    assert not read_text(job).findings
    assert not read_text(job + "metrics: {loss: {goal: min}}\n").findings


def test_a_regex_that_python_warns_of(read_text: Any) -> None:
    rules = {"bad": {"metric": "loss", "when": "nan"}}
    metrics = {"loss": {"regex": r"[[(]a(\d+)"}}
    job = {"name": "j", "run": {"command": ["x"]}, "watch": rules, "metrics": metrics}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_text(
            yaml.dump({**job, "metrics": {"loss": {"regex": r"[[(]a(\d+)"}}})
        ).findings
    assert [finding.code for finding in found] == ["watch"]
