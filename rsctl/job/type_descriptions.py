"""Describes types of the spec for error messages: "a whole number from 1 to 10000"."""

from __future__ import annotations

from typing import Any

from rsctl.job.types import SpecType
from rsctl.job.values import IMAGE

_PATTERNS = {
    r"^[a-z][a-z0-9-]{0,39}$": "at most 40 of a-z, 0-9 and '-', starting with a letter",
    r"^\S+$": "text without spaces",
    r"^gs://.+": "a gs:// location",
    r"^s3://.+": "an s3:// location",
    r"^/.*": "a path that starts with '/'",
    r"^/[A-Za-z0-9_.-]*[A-Za-z0-9_][^\s]*$": "a folder such as /opt/ml/checkpoints",
    r"^[^/\s]+$": "a name without '/' and spaces",
    r"^[^\r\n]+$": "one line of text",
    IMAGE: "an image such as pytorch/pytorch:TAG",
    r"^[a-z0-9][a-z0-9.+:=~_-]*$": "a Debian package such as libaio1",
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$": "a Python module such as pkg.train",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a name of letters, digits and '_', not starting with a digit",
    r"^[A-Za-z_][A-Za-z0-9_./:=()@%+-]*$": (
        "a name of letters, digits, ._/:=()@%+-, starting with a letter"
    ),
    r"^[a-z][a-z0-9]{0,15}(-[a-z][a-z0-9]{0,15})?$": "a role such as ps or data-reader",
    r"^[^\s=-][^\s=]*$": "an option without its dashes, such as epochs",
}


def describe_type(spec_type: SpecType) -> str:
    """ "a whole number from 1 to 10000", "one of torchrun, mpi, once, none", "a list of text"."""
    if spec_type.kind == "union":
        return _one_of_several(spec_type)
    if spec_type.kind == "literal":
        parts = [str(value) for value in spec_type.arguments]
        return parts[0] if len(parts) == 1 else "one of " + ", ".join(parts)
    if spec_type.kind is list:
        return _list(spec_type.arguments[0])
    if spec_type.kind is dict or spec_type.is_struct:
        return "a mapping"
    if spec_type.kind is Any:
        return "anything"
    if spec_type.kind in (int, float):
        return ("a whole number" if spec_type.kind is int else "a number") + _range(spec_type)
    if spec_type.kind is bool:
        return "true or false"
    if spec_type.kind is str:
        return describe_pattern(spec_type) or "text"
    return f"{spec_type.kind.expected}{_range(spec_type)}"


def describe_pattern(spec_type: SpecType) -> str | None:
    """The form that a text must have, if its type has a pattern."""
    pattern = spec_type.limit("pattern")
    return _PATTERNS.get(pattern, f"text that matches {pattern}") if pattern else None


def _one_of_several(spec_type: SpecType) -> str:
    kinds = {choice.kind for choice in spec_type.choices}
    choices = [
        c
        for c in spec_type.choices
        if c.kind is not None and not (c.kind is int and float in kinds)
    ]
    parts = list(dict.fromkeys(describe_type(choice) for choice in choices))
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " or " + parts[-1]


def _list(item: SpecType) -> str:
    if item.kind is Any:
        return "a list"
    if item.is_struct:
        return "a list of mappings"
    return "a list of " + ("numbers or text" if item.kind == "union" else "text")


def _range(spec_type: SpecType) -> str:
    low, high, above = spec_type.limit("ge"), spec_type.limit("le"), spec_type.limit("gt")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if above is not None:
        return f", above {above}" + (f" and at most {high}" if high is not None else "")
    return f" of at least {low}" if low is not None else ""
