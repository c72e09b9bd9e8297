"""The filter of customJobs.list: display_name, state, create_time and labels."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from rsctl.targets.vertex.emulator.filters import (
    FilterComparison,
    Function,
    Search,
    Single,
    compare,
    matches,
    parse,
    singles,
)
from rsctl.targets.vertex.emulator.log_filter import normal_time

_OPERATORS = {
    "display_name": ("=", "!=", ":"),
    "state": ("=", "!="),
    "create_time": ("=", "!=", "<", "<=", ">", ">="),
    "labels": ("=", ":"),
}


class JobFilter:
    """One filter. Raises ValueError if it cannot be read, or asks for what cannot be asked."""

    def __init__(self, text: str) -> None:
        self._filter = parse(text)
        for one in singles(self._filter):
            _check(one)

    def takes(self, job: dict[str, Any]) -> bool:
        """Whether it is true of a CustomJob."""
        return matches(self._filter, lambda one: _holds(one, job))


def _check(wanted: Single) -> None:
    if isinstance(wanted, Function):
        raise ValueError(f"Invalid filter: there is no function {wanted.name}()")
    elif isinstance(wanted, Search):
        raise ValueError(f'Invalid filter: "{wanted.text}" is not a comparison')
    else:
        field = wanted.path[0]
        if wanted.operator not in _OPERATORS.get(field, ()):
            raise ValueError(f"Invalid filter: {'.'.join(wanted.path)}{wanted.operator}")
        if field == "create_time":
            normal_time(wanted.value)
        if (field == "labels") != (len(wanted.path) == 2):
            raise ValueError(f"Invalid filter: {'.'.join(wanted.path)}")


def _holds(wanted: Single, job: dict[str, Any]) -> bool:
    if not isinstance(wanted, FilterComparison):
        return False
    field, operator, value = wanted.path[0], wanted.operator, wanted.value
    if field == "labels":
        have = job.get("labels", {}).get(wanted.path[1])
        return have is not None and (have == value or (operator == ":" and value == "*"))
    if field == "create_time":
        return compare(str(job["createTime"]), operator, normal_time(value))
    have = str(job["displayName" if field == "display_name" else "state"])
    if operator == ":":
        return fnmatchcase(have, value.replace("[", "[[]"))
    return (have == value) == (operator == "=")
