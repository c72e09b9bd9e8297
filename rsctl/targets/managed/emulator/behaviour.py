"""The behaviour of an emulator: waits, limits and faults, which can be changed while it serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints


@dataclass
class EmulatorBehaviour:
    """Base of a cloud's `Behaviour`, whose fields can be set by name."""

    def change(self, wanted: Any) -> None:
        """Set some fields by name. Raises ValueError, having changed nothing."""
        if not isinstance(wanted, dict):
            raise ValueError("an object with fields to change is expected")
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        choices = _choices(type(self))
        for name, value in wanted.items():
            if name not in known:
                raise ValueError(f"no field {name!r}; there are {', '.join(known)}")
            if not _is_like(value, known[name]):
                raise ValueError(f"{name} is like {known[name]!r}, not {value!r}")
            if isinstance(value, list) and not all(isinstance(item, str) for item in value):
                raise ValueError(f"{name} is a list of texts, not {value!r}")
            if value not in choices.get(name, (value,)):
                raise ValueError(f"{name} is one of {', '.join(choices[name])}, not {value!r}")
        for name, value in wanted.items():
            setattr(self, name, value)


def is_named(places: Iterable[str], region: str, machines: Iterable[str]) -> bool:
    """Whether places name a job's: its region, one of its machine types, or REGION/MACHINE."""
    names = set(machines)
    own = {region, *names, *(f"{region}/{name}" for name in names)}
    return not own.isdisjoint(places)


def _choices(kind: type) -> dict[str, tuple[str, ...]]:
    hints = get_type_hints(kind)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _is_like(value: Any, known: Any) -> bool:
    if isinstance(known, float):
        return type(value) in (int, float) and value >= 0
    return type(value) is type(known)
