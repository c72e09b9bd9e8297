"""AWS's own model of CreateTrainingJob, and the parts of a request that it does not allow.

botocore checks types, required members and minima before it sends. Patterns, enums and maxima are
in its model too, but only the service checks them: here they are known before anything is sent.
`api_model.json` is made by api_model_update.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Optional

import msgspec

from rsctl.findings import first_of

FILE = Path(__file__).with_name("api_model.json")
ROOT = "CreateTrainingJobRequest"

_LONGEST_SHOWN = 80
_TYPES: dict[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
}
_TYPE_NAMES = {
    "structure": "a mapping",
    "map": "a mapping",
    "list": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "long": "a whole number",
}
# Java's classes in Python's syntax. The models name classes only inside of [ ].
_CLASSES = {
    r"\p{L}": r"\w",
    r"\p{N}": r"\d",
    r"\p{Z}": " \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
    r"\p{Alnum}": "a-zA-Z0-9",
}
_ONE_LINE = {".*": r"[^\n\r\u0085\u2028\u2029]*", ".+": r"[^\n\r\u0085\u2028\u2029]+"}


class Shape(msgspec.Struct, frozen=True):
    """One type of the model, with the model's names."""

    type: str
    required: list[str] = []
    members: dict[str, str] = {}
    member: str = ""
    key: str = ""
    value: str = ""
    enum: Optional[list[str]] = None
    min: Optional[int] = None
    max: Optional[int] = None
    pattern: Optional[str] = None


class ApiModel(msgspec.Struct, frozen=True):
    """The shapes of the request, and the version of botocore that has them."""

    botocore: str
    shapes: dict[str, Shape]


class Problem(NamedTuple):
    """An error in one field of a request.

    `kind` is missing, unknown, type, enum, size, range or pattern, or rule for rules from the
    documentation. `path` has names and indices. `remedy` is None if the key that sets the field is
    sufficient as remedy.
    """

    path: tuple[str | int, ...]
    kind: str
    text: str
    remedy: Optional[str] = None


@cache
def model() -> ApiModel:
    """The model in rsctl."""
    return msgspec.json.decode(FILE.read_bytes(), type=ApiModel)


def problems(value: Any, shape: str = ROOT, path: tuple[str | int, ...] = ()) -> Iterator[Problem]:
    """Everything in a value that its shape does not allow."""
    kind = model().shapes[shape]
    if not _is_of(value, kind.type):
        yield Problem(path, "type", f"{_short(value)} is not {_TYPE_NAMES[kind.type]}")
    elif kind.type == "string":
        yield from _text(value, kind, path)
    elif kind.type in ("integer", "long"):
        yield from _size("range", value, kind, path, f"it is {value}")
    elif kind.type == "list":
        yield from _size("size", len(value), kind, path, f"it has {len(value)} items")
        for index, item in enumerate(value):
            yield from problems(item, kind.member, (*path, index))
    elif kind.type == "map":
        yield from _size("size", len(value), kind, path, f"it has {len(value)} entries")
        for key, item in value.items():
            yield from problems(key, kind.key, (*path, key))
            yield from problems(item, kind.value, (*path, key))
    elif kind.type == "structure":
        yield from _structure(value, kind, path)


def _is_of(value: Any, kind: str) -> bool:
    is_bool = isinstance(value, bool) and kind != "boolean"
    return isinstance(value, _TYPES[kind]) and not is_bool


def _structure(
    value: dict[str, Any], kind: Shape, path: tuple[str | int, ...]
) -> Iterator[Problem]:
    for name in kind.required:
        if name not in value:
            yield Problem((*path, name), "missing", "it is missing")
    for name, item in value.items():
        if name in kind.members:
            yield from problems(item, kind.members[name], (*path, name))
        else:
            text = f"SageMaker has no such field (according to botocore {model().botocore})"
            yield Problem((*path, name), "unknown", text)


def _text(value: str, kind: Shape, path: tuple[str | int, ...]) -> Iterator[Problem]:
    wrong_size = list(_size("size", len(value), kind, path, f"it has {len(value)} characters"))
    yield from wrong_size
    if kind.enum and value not in kind.enum:
        yield Problem(path, "enum", f"{_short(value)} is not one of {first_of(kind.enum, 8)}")
    if kind.pattern and not wrong_size and not _matches(kind.pattern, value):
        expected = (
            "is not one line" if kind.pattern in _ONE_LINE else (f"does not match {kind.pattern}")
        )
        yield Problem(path, "pattern", f"{_short(value)} {expected}")


def _size(
    kind: str, size: int, shape: Shape, path: tuple[str | int, ...], what: str
) -> Iterator[Problem]:
    if shape.min is not None and size < shape.min:
        yield Problem(path, kind, f"{what}, but SageMaker requires at least {shape.min}")
    if shape.max is not None and size > shape.max:
        yield Problem(path, kind, f"{what}, but SageMaker allows at most {shape.max}")


def _matches(pattern: str, value: str) -> bool:
    if pattern in _ONE_LINE:
        return re.fullmatch(_ONE_LINE[pattern], value) is not None
    is_wide = r"\p{" in pattern  # Java's other classes cover only ASCII
    for theirs, ours in _CLASSES.items():
        pattern = pattern.replace(theirs, ours)
    return re.fullmatch(pattern, value, 0 if is_wide else re.ASCII) is not None


def _short(value: Any) -> str:
    """A value for a message; only the beginning of a long or hostile value."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
