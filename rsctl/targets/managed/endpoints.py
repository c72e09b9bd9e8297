"""Where a run's cloud is, and the job service that all runs there share."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from rsctl.clients.endpoints import Endpoints
from rsctl.runs.emulator import environment_of
from rsctl.runs.home import is_rehearsed

S = TypeVar("S")

_services: dict[tuple[Callable[[Endpoints], object], Endpoints], object] = {}
_lock = Lock()


def endpoints_of(run: str) -> Endpoints:
    """The real cloud, or for a rehearsed run its emulator, also once that has ended."""
    if is_rehearsed(run):
        return Endpoints.of_emulator(environment_of(run) or {})
    return Endpoints.of_environment()


def shared_service(make: Callable[[Endpoints], S], endpoints: Endpoints) -> S:
    """The service that `make` made before for equal endpoints, otherwise a new one: a login costs
    60 ms.
    """
    key = make, endpoints
    with _lock:
        if key not in _services:
            _services[key] = make(endpoints)
        return _services[key]  # type: ignore[return-value]
