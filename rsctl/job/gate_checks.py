"""Checks of `gate:`, which need the metrics and the matrix of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rsctl.findings import Finding, error
from rsctl.job import matrix
from rsctl.job.git_location import EXAMPLE, GIT, parse_git_location
from rsctl.job.job import Job
from rsctl.job.yaml_tree import Mapping

OF_THE_RUN = (
    *("queue", "start", "first_step", "time", "total", "step", "cost", "goodput"),
    "gradient_bytes",
)
"""The metrics `run.…` that rsctl measures for every run."""

CURVE = "curve."
"""`curve.loss` in `gate.max_regression` is the curve of the metric `loss`."""

HISTORY_FORMS = "give a path that ends with .jsonl, gs://…, s3://… or git:REF:PATH"
"""The remedy for what is not the location of a history."""

_BUCKETS = ("gs://", "s3://")


def metric_of(name: str) -> str:
    """The metric of a name in `gate.max_regression`: `loss` also of `curve.loss`."""
    return name.removeprefix(CURVE)


def check_gate(job: Job) -> Iterator[Finding]:
    """Findings of the metrics and the locations of the gate."""
    gate = job.gate
    if gate is None:
        return
    for name in gate.max_regression:
        yield from _check_metric(job, name, f"gate.max_regression.{name}")
    for index, rule in enumerate(gate.cells):
        for name in rule.max_regression:
            path = f"gate.cells[{index}].max_regression.{name}"
            wrong = list(_check_metric(job, name, path))
            yield from wrong
            if not wrong and name not in gate.max_regression:
                message = f"{name} has no allowed regression in other cells"
                yield error("gate", message, f"set gate.max_regression.{name} too", path)
    yield from _check_location(gate.baseline, "gate.baseline", ".json")
    yield from _check_location(gate.history, "gate.history", ".jsonl")
    if gate.history and not is_history(gate.history):
        message = f"{gate.history!r} is not the location of a history"
        yield error("gate", message, HISTORY_FORMS, "gate.history")
    if gate.window is not None and gate.history is None:
        message = "a window is a number of commits of a history"
        yield error("gate", message, "set gate.history, or remove the window", "gate.window")


def check_gate_cells(job: Job, root: Mapping) -> Iterator[Finding]:
    """Findings of `gate.cells` that apply to no cell of the matrix."""
    rules = job.gate.cells if job.gate else []
    if not rules:
        return
    made = [{name: matrix.plain(v) for name, v in cell.items()} for cell in matrix.cells(root)]
    if not made and "matrix" in root.entries:
        return  # the matrix has an error of its own
    for index, rule in enumerate(rules):
        if not any(applies_to(rule.cell, cell) for cell in made):
            shown = ", ".join(f"{name}={matrix.format_value(v)}" for name, v in rule.cell.items())
            message = f"no cell of the matrix has {shown}"
            yield error("gate", message, cells_remedy(made), f"gate.cells[{index}].cell")


def is_history(location: str) -> bool:
    """Whether a text says where a history lies."""
    return location.startswith((*_BUCKETS, GIT)) or "/" in location or location.endswith(".jsonl")


def applies_to(values: dict[str, Any], cell: dict[str, Any]) -> bool:
    """Whether a cell has all of the values, as they are written."""
    return all(
        n in cell and matrix.format_value(cell[n]) == matrix.format_value(v)
        for n, v in values.items()
    )


def cells_remedy(cells: list[dict[str, Any]]) -> str:
    """The remedy for values that no cell has."""
    values: dict[str, list[str]] = {}
    for cell in cells:
        for name, value in cell.items():
            known = values.setdefault(name, [])
            known += [text] if (text := matrix.format_value(value)) not in known else []
    if not values:
        return "omit it: the job has no matrix"
    names = "; ".join(f"{name}: {', '.join(known[:6])}" for name, known in values.items())
    return f"use keys and values of the matrix: {names}"


def _check_metric(job: Job, name: str, path: str) -> Iterator[Finding]:
    """The gate needs to know of each metric whether more or less of it is better."""
    metric = job.metrics.get(name) or job.metrics.get(metric_of(name))
    if metric is not None:
        if metric.goal is None:
            name = metric_of(name)
            message = f"the goal of {name} is unknown"
            yield error("gate", message, f"set metrics.{name}.goal: max or min", path)
        return
    own = [f"run.{each}" for each in OF_THE_RUN]
    if name in own:
        return
    if name.startswith("run."):
        message = f"rsctl does not measure {name}"
        yield error("gate", message, f"metrics of the run: {', '.join(own)}", path)
        return
    from rsctl.job.suggestions import close_match  # only after a mistake

    name = metric_of(name)
    near = close_match(name, list(job.metrics))
    declare = f"declare it: metrics.{name}: {{goal: max}}, or min"
    remedy = f"did you mean {near}? otherwise {declare}" if near else declare
    yield error("gate", f"metrics does not declare {name}", remedy, path)


def _check_location(location: str | None, path: str, suffix: str) -> Iterator[Finding]:
    """A location that no command can read."""
    if location is None:
        return
    if location.startswith(GIT):
        try:
            parse_git_location(location)
        except ValueError as problem:
            yield error("gate", str(problem), EXAMPLE, path)
    elif location.startswith(_BUCKETS):
        bucket, _, name = location.partition("://")[2].partition("/")
        if not bucket or not name:
            message = f"{location!r} does not name an object"
            yield error("gate", message, f"for example gs://bucket/name{suffix}", path)
