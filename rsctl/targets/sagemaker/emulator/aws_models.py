"""Checks values against botocore's service models, more strictly than botocore does itself.

botocore checks required members, types and minima before it sends; patterns, enums and maxima are
in the models too, and it is the services that check them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any


@cache
def service_model(service: str) -> Any:
    """botocore's model of a service, such as `codebuild`."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


def problems(value: Any, shape: Any, path: str = "") -> Iterator[str]:
    """The mistakes in a value for a shape, one sentence each, in the words of a service."""
    kind = shape.type_name
    if kind == "structure":
        yield from _structure(value, shape, path)
    elif kind == "list":
        if not isinstance(value, list):
            yield f"{path or 'the request'}: expected a list"
            return
        yield from _bounds(len(value), shape, path)
        for number, item in enumerate(value):
            yield from problems(item, shape.member, f"{path}.{number + 1}.member")
    elif kind == "map":
        if not isinstance(value, dict):
            yield f"{path}: expected a map"
            return
        yield from _bounds(len(value), shape, path)
        for key, item in value.items():
            yield from problems(key, shape.key, f"{path}.key")
            yield from problems(item, shape.value, f"{path}.{key}")
    else:
        yield from _scalar(value, shape, path)


def _structure(value: Any, shape: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path or 'the request'}: expected a structure"
        return
    for name in shape.required_members:
        if name not in value:
            yield f"Value null at '{path}.{name}' failed to satisfy constraint: must not be null"
    for name, item in value.items():
        if name not in shape.members:
            yield f"{path}: unknown member {name}"
        else:
            yield from problems(item, shape.members[name], f"{path}.{name}".lstrip("."))


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "boolean": (bool,),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float),
    "blob": (str, bytes),
}


def _scalar(value: Any, shape: Any, path: str) -> Iterator[str]:
    kind = shape.type_name
    is_bool = isinstance(value, bool) and kind != "boolean"
    if is_bool or not isinstance(value, _TYPES[kind]):
        yield f"{path}: expected {kind}"
    elif isinstance(value, str):
        yield from _bounds(len(value), shape, path)
        if shape.enum and value not in shape.enum:
            allowed = ", ".join(shape.enum)
            yield (
                f"Value '{value}' at '{path}' failed to satisfy constraint: must be one of "
                f"[{allowed}]"
            )
        pattern = shape.metadata.get("pattern")
        if pattern and not re.fullmatch(_python_pattern(pattern), value):
            yield (
                f"Value '{value}' at '{path}' failed to satisfy constraint: must match {pattern}"
            )
    elif isinstance(value, int):
        yield from _bounds(value, shape, path)


def _python_pattern(pattern: str) -> str:
    """A Java pattern in Python's syntax; classes of Unicode become somewhat wider."""
    for theirs, ours in ((r"\p{Z}", r"\s"), (r"\p{N}", r"\d")):
        pattern = pattern.replace(theirs, ours)
    return re.sub(r"\\p\{\w+\}", r"\\w", pattern)


def _bounds(size: int, shape: Any, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        yield f"Value at '{path}' failed to satisfy constraint: at least {least}"
    if most is not None and size > most:
        yield f"Value at '{path}' failed to satisfy constraint: at most {most}"
