"""How values are written in a request. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without those that are None, or an empty mapping or list."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}


def whole_seconds(duration: float | None) -> int:
    """Whole seconds, rounded up; 0 for None."""
    return math.ceil(duration or 0)


def milliseconds(duration: float) -> int:
    """Whole milliseconds of a duration in seconds."""
    return round(duration * 1000)
