"""The behaviour of an emulator: waits, limits and faults, which can be changed while it serves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints


@dataclass
class EmulatorBehaviour:
    """The settings of the emulators of all clouds; a cloud's `Behaviour` adds its own fields.

    Simulated waits are in seconds and are multiplied by `pace`, which also scales the times of
    rate limits.

    Faults of machines: `quotas` are limits by the service's name of the quota. The next
    `stockouts` requests for machines find none; -1 means all. `stockouts_in` and `no_quota_in` name
    regions, machine types or REGION/MACHINE, such as us-central1/n1-standard-8, where there are
    never machines and where the quota is zero. Each of the next `preemptions` attempts loses a
    machine after `preempt_after`; -1 means all.

    Faults of logs: an entry can be read `ingest` after it was written. Each `late_every`-th entry
    can be read only after `late_by`, and each `twice_every`-th is returned twice; 0 means none.
    `shuffle` changes the order within a page. Each `empty_every`-th page is empty and has a
    token for the next one. Measurements can be read `measure` after they were taken.
    """

    pace: float = 1.0
    quotas: dict[str, int] = field(default_factory=dict)
    stockouts: int = 0
    stockouts_in: list[str] = field(default_factory=list)
    no_quota_in: list[str] = field(default_factory=list)
    preemptions: int = 0
    preempt_after: float = 20.0
    ingest: float = 3.0
    late_every: int = 0
    late_by: float = 20.0
    twice_every: int = 0
    shuffle: bool = False
    empty_every: int = 0
    measure: float = 120.0

    def is_out_of_stock(self, region: str, machines: Iterable[str]) -> bool:
        """Whether a request for machines finds none; counts down `stockouts`."""
        if self.stockouts:
            self.stockouts -= self.stockouts > 0
            return True
        return is_named(self.stockouts_in, region, machines)

    def deadline(self, simulated_seconds: float) -> float:
        """The time by the monotonic clock when a simulated wait is over."""
        return time.monotonic() + simulated_seconds * self.pace

    def next_preemption(self) -> float:
        """When an attempt that starts now loses a machine; infinity if it does not. Counts down."""
        if not self.preemptions:
            return float("inf")
        self.preemptions -= self.preemptions > 0
        return self.deadline(self.preempt_after)

    def change(self, wanted: Any) -> None:
        """Set some fields by name. Raises ValueError, having changed nothing."""
        if not isinstance(wanted, dict):
            raise ValueError("expected an object with the fields to change")
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        choices = _choices(type(self))
        for name, value in wanted.items():
            if name not in known:
                raise ValueError(f"there is no field {name!r}; use {', '.join(known)}")
            if not _is_like(value, known[name]):
                raise ValueError(f"{name} must have the type of {known[name]!r}, unlike {value!r}")
            if isinstance(value, list) and not all(isinstance(item, str) for item in value):
                raise ValueError(f"{name} must be a list of texts, not {value!r}")
            if value not in choices.get(name, (value,)):
                raise ValueError(f"{name} must be one of {', '.join(choices[name])}, not {value!r}")
        for name, value in wanted.items():
            setattr(self, name, value)


def is_named(placements: Iterable[str], region: str, machines: Iterable[str]) -> bool:
    """Whether placements name a job's: its region, one of its machine types, or REGION/MACHINE."""
    names = set(machines)
    own = {region, *names, *(f"{region}/{name}" for name in names)}
    return not own.isdisjoint(placements)


def _choices(kind: type) -> dict[str, tuple[str, ...]]:
    hints = get_type_hints(kind)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _is_like(value: Any, known: Any) -> bool:
    if isinstance(known, float):
        return type(value) in (int, float) and value >= 0
    return type(value) is type(known)
