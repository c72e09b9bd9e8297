"""Settings of an emulator that can be changed by name while it serves."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Settable:
    """Base of a dataclass whose fields are such settings."""

    def change(self, wanted: Any) -> None:
        """Set some fields by name. Raises ValueError, having changed nothing."""
        if not isinstance(wanted, dict):
            raise ValueError("an object with fields to change is expected")
        known = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        for name, value in wanted.items():
            if name not in known:
                raise ValueError(f"no field {name!r}; there are {', '.join(known)}")
            if not _is_like(value, known[name]):
                raise ValueError(f"{name} is like {known[name]!r}, not {value!r}")
        for name, value in wanted.items():
            setattr(self, name, value)


def _is_like(value: Any, known: Any) -> bool:
    if isinstance(known, float):
        return type(value) in (int, float) and value >= 0
    return type(value) is type(known)
