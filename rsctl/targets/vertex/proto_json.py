"""JSON of proto3 to plain values and back, as Google's REST front end reads it.

It reads names in both spellings, enums as names and as numbers, 64-bit integers as text and as
numbers, and null as a missing field. Its output has camelCase names, names of enums, and texts for
64-bit integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rsctl.targets.managed.sdk_calls import snake
from rsctl.targets.vertex.api_model import ENUMS, MESSAGES

_PACKAGE = "type.googleapis.com/google.cloud.aiplatform.v1"
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")
_INTEGER = re.compile(r"-?\d{1,19}")
_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}


UNKNOWN_NAME = "Invalid JSON payload received. Unknown name "
"""The beginning of the text about a field that rsctl's description of the API does not have."""


class MalformedJson(ValueError):
    """A text that cannot be parsed; the message is the service's, one line for each field."""


def read_job(content: Any) -> dict[str, Any]:
    """A CustomJob from a request's body. Raises Malformed, with all errors."""
    problems: list[str] = []
    job = _message(content, "CustomJob", "custom_job", problems)
    if problems:
        raise MalformedJson("\n".join(problems))
    return job


def write_job(job: Mapping[str, Any], enums_as_numbers: bool) -> dict[str, Any]:
    """A CustomJob for an answer."""
    if not enums_as_numbers:
        return dict(job)
    shown: dict[str, Any] = _numbered(job, "CustomJob")
    if "state" in shown:
        shown["state"] = ENUMS["JobState"][shown["state"]]
    return shown


def seconds(duration: str) -> float:
    """A duration such as `3600s`."""
    return float(duration.removesuffix("s"))


def _message(content: Any, kind: str, path: str, problems: list[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        problems.append(_invalid(path, f"{_PACKAGE}.{kind}", content))
        return {}
    fields = MESSAGES[kind]
    names = {spelling: name for name in fields for spelling in (name, snake(name))}
    read: dict[str, Any] = {}
    for key, value in content.items():
        name = names.get(key)
        if name is None:
            problems.append(f"{UNKNOWN_NAME}\"{key}\" at '{path}': Cannot find field.")
        elif fields[name] != "output" and value is not None:
            found = _value(value, fields[name], f"{path}.{snake(name)}", problems)
            if not _is_default(found, fields[name]):
                read[name] = found
    return read


def _is_default(value: Any, kind: str) -> bool:
    """Whether a value is the default of its kind, which proto3 does not send.

    Durations are messages, which are sent.
    """
    if kind.startswith("[") or kind == "map":
        return not value
    if kind in ENUMS:
        return value in ENUMS[kind] and ENUMS[kind][value] == 0
    return kind in ("string", "bool", "int32", "int64") and value in ("", False, 0, "0")


def _value(value: Any, kind: str, path: str, problems: list[str]) -> Any:
    if kind.startswith("["):
        if not isinstance(value, list):
            problems.append(f"Invalid value at '{path}', expected a list.")
            return []
        inner = kind[1:-1]
        return [_value(v, inner, f"{path}[{n}]", problems) for n, v in enumerate(value)]
    if kind in MESSAGES:
        return _message(value, kind, path, problems)
    if kind in ENUMS:
        return _enum(value, kind, path, problems)
    wrong = _invalid(path, f"TYPE_{kind.upper()}", value)
    read = _SCALARS[kind](value)
    if read is None:
        problems.append(wrong)
    return read


def _enum(value: Any, kind: str, path: str, problems: list[str]) -> str:
    if isinstance(value, str) and value in ENUMS[kind]:
        return value
    for name, number in ENUMS[kind].items():
        if type(value) is int and value == number:
            return name
    problems.append(_invalid(path, f"{_PACKAGE}.{kind}", value))
    return ""


def _invalid(path: str, kind: str, value: Any) -> str:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return f"Invalid value at '{path}' ({kind}), {shown[:200]}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: Any, kind: str) -> int | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -_LIMITS[kind] <= value < _LIMITS[kind]:
        return None
    return int(value)


def _long(value: Any) -> str | None:
    number = _integer(value, "int64")
    return None if number is None else str(number)


def _duration(value: Any) -> str | None:
    return value if isinstance(value, str) and _DURATION.fullmatch(value) else None


def _map(value: Any) -> dict[str, str] | None:
    is_map = isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    return value if is_map else None


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "bool": _flag,
    "int32": lambda value: _integer(value, "int32"),
    "int64": _long,
    "duration": _duration,
    "map": _map,
}


def _numbered(value: Any, kind: str) -> Any:
    if kind.startswith("["):
        return [_numbered(item, kind[1:-1]) for item in value]
    if kind in MESSAGES:
        fields = MESSAGES[kind]
        return {name: _numbered(item, fields[name]) for name, item in value.items()}
    return ENUMS[kind][value] if kind in ENUMS else value
