"""Decodes one scalar of the file to a value of its type."""

from __future__ import annotations

import math
import os
import re
from typing import Any

from msgspec.structs import replace

from rsctl.job.type_descriptions import describe_type
from rsctl.job.types import SpecType
from rsctl.job.units import EnvValue, LocalPath, Location
from rsctl.job.yaml_tree import Scalar


def read_scalar(node: Scalar, spec_type: SpecType, base: str | os.PathLike[str]) -> Any:
    """The value; raises ValueError with what was expected and, maybe, the reason.

    A text that held a variable is tried as it is written, then the other way: `count: "${N}"` may
    be a number in spite of its quotes, and a plain `${TEXT}` may be empty or the word `true`.
    """
    try:
        return _read(node, spec_type, base)
    except ValueError:
        if not node.substituted:
            raise
        return _read(replace(node, plain=not node.plain), spec_type, base)


def _read(node: Scalar, spec_type: SpecType, base: str | os.PathLike[str]) -> Any:
    if spec_type.kind == "union":
        return _read_choice(node, spec_type, base)
    _refuse_unusable(node.text, spec_type)
    if spec_type.kind is EnvValue:
        return _env_value(node)
    value = (
        _parsed(node, spec_type, base)
        if hasattr(spec_type.kind, "parse")
        else _plain(node, spec_type)
    )
    if not _within(value, spec_type):
        raise ValueError(describe_type(spec_type))
    return value


def _read_choice(node: Scalar, union: SpecType, base: str | os.PathLike[str]) -> Any:
    """The value as the one choice of a union that has its form.

    A value of another form may have been meant as any choice: `profiler: x` is neither a duration
    nor `true`.
    """
    choice = _chosen(node, union)
    try:
        return _read(node, choice, base)
    except ValueError as problem:
        expected = getattr(choice.kind, "expected", None)
        scalars = [each for each in union.choices if each.kind and not each.is_container]
        if problem.args[0] != expected or len(scalars) == 1:
            raise
        wanted = describe_type(replace(union, arguments=tuple(scalars)))
        raise ValueError(wanted, *problem.args[1:]) from None


def _chosen(node: Scalar, union: SpecType) -> SpecType:
    for choice in union.choices:
        if _fits(node.value, choice):
            return choice
    raise ValueError(describe_type(union))


def _fits(value: object, choice: SpecType) -> bool:
    """Whether a value has the form of one choice of a union; it may still be out of range."""
    if choice.is_container:
        return False
    if choice.kind == "literal":
        return any(type(value) is type(each) and value == each for each in choice.arguments)
    if choice.kind is None:
        return value is None
    if choice.kind is float:
        return type(value) in (int, float)
    if choice.kind in (bool, int):
        return type(value) is choice.kind
    return value is not None


def _refuse_unusable(text: str, spec_type: SpecType) -> None:
    if "\0" in text:
        raise ValueError(
            describe_type(spec_type), "it contains a NUL character, which no program can receive"
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(describe_type(spec_type), "it contains bytes that are not UTF-8")


def _parsed(node: Scalar, spec_type: SpecType, base: str | os.PathLike[str]) -> Any:
    if node.value is None:
        raise ValueError(describe_type(spec_type))
    if spec_type.kind in (Location, LocalPath):
        return spec_type.kind.parse(node.text, base)
    return spec_type.kind.parse(node.text)


def _env_value(node: Scalar) -> EnvValue:
    if node.value is None:
        raise ValueError(EnvValue.expected)
    value = EnvValue(node.text)
    value.secret = node.from_environment
    return value


def _plain(node: Scalar, spec_type: SpecType) -> Any:
    """A value of Python's own types."""
    kind, value = spec_type.kind, node.value
    if isinstance(value, float) and not math.isfinite(value) and kind in (Any, float):
        raise ValueError("a finite number")
    if kind is Any or (kind is None and value is None):
        return value
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and value is not None and not isinstance(value, bool):
        return node.text
    if kind in (bool, int, float) and type(value) is kind:
        return value
    if kind == "literal" and value in spec_type.arguments:
        return value
    raise ValueError(describe_type(spec_type))


def _within(value: Any, spec_type: SpecType) -> bool:
    """Whether a value keeps the limits of its type."""
    low, high, above = spec_type.limit("ge"), spec_type.limit("le"), spec_type.limit("gt")
    shortest, pattern = spec_type.limit("min_length"), spec_type.limit("pattern")
    return (
        (low is None or value >= low)
        and (high is None or value <= high)
        and (above is None or value > above)
        and (shortest is None or len(value) >= shortest)
        and (pattern is None or re.fullmatch(pattern, value) is not None)
    )
