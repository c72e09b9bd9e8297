"""Which of a job's keys a target cannot honour, or does not use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from rsctl.findings import Finding, error, note
from rsctl.job.job import Job
from rsctl.job.types import fields_of
from rsctl.target_info import OPTIONAL_KEYS, TargetInfo
from rsctl.targets.inputs import input_findings, out_of_reach

_T = TypeVar("_T")


def capability_findings(job: Job, info: TargetInfo) -> Iterator[Finding]:
    """Errors for keys that the target cannot honour, notes for those it does not use."""
    for path, (reason, remedy, values) in _each_role(job, info.refused):
        value, default = _value_and_default(job, path)
        if value != default and (not values or value in values):
            yield error("unsupported", f"target {info.name}: {reason}", remedy, path)
    for path, reason in OPTIONAL_KEYS.items():
        value, default = _value_and_default(job, path)
        if value != default and path not in info.honoured:
            message = f"target {info.name} does not support the key: {reason}"
            yield error("unsupported", message, f"remove {path}, or use another target", path)
    for path, reason in _each_role(job, info.unused):
        value, default = _value_and_default(job, path)
        if value != default:
            yield note("unused", f"target {info.name} does not use this: {reason}", None, path)
    yield from _location_findings(job, info.name, info.schemes)
    yield from input_findings(job, info)


def _each_role(job: Job, keys: Mapping[str, _T]) -> Iterator[tuple[str, _T]]:
    """The keys with their texts, `roles.NAME.…` once for each role."""
    for path, what in keys.items():
        names = job.roles if path.startswith("roles.NAME.") else ("NAME",)
        for name in names:
            yield path.replace("NAME", name), what


def _location_findings(job: Job, target: str, schemes: frozenset[str]) -> Iterator[Finding]:
    for path, location in (("outputs", job.outputs), ("checkpoints", job.checkpoints)):
        if location and location.scheme not in schemes:
            yield out_of_reach(path, location, target, schemes)


def _value_and_default(job: Job, path: str) -> tuple[Any, Any]:
    """The value of a key, and its default."""
    value: Any = job
    default: Any = None
    for name in path.split("."):
        if isinstance(value, dict):
            value = value[name]
            continue
        struct: type[msgspec.Struct] = type(value)
        default = fields_of(struct)[name].default
        value = getattr(value, name)
    return value, default
