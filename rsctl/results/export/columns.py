"""Columns of tables: name, type and unit."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Optional

import msgspec

ColumnType = Literal["text", "integer", "float", "boolean", "time"]
"""A time is text as in events: RFC 3339 in UTC with microseconds."""

Value = Optional[str | int | float | bool]
Row = list[Value]


class Column(NamedTuple):
    """One column of a table. `unit` is None if values have none, or each row has its own."""

    name: str
    type: ColumnType
    unit: Optional[str] = None


def column_type(values: list[Any]) -> ColumnType:
    """The type that all these values have; mixed values, and values that are not scalars, are
    written as text.
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-(2**63) <= v < 2**63 for v in values if v is not None):
        return "integer"
    return "float" if kinds and kinds <= {int, float} else "text"


def cast(value: Any, kind: ColumnType) -> Value:
    """A plain value as a column of this type has it."""
    if value is None:
        return None
    if kind == "float":
        return float(value)
    if kind != "text" or isinstance(value, str):
        return value  # type: ignore[no-any-return]
    return msgspec.json.encode(value).decode()
