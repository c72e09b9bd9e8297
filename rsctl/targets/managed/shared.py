"""One job service for all runs of a process that find the same cloud: a log-in costs 60 ms."""

from __future__ import annotations

import os
from collections.abc import Callable

from rsctl.targets.managed.service import JobService

_PLACE = ("GOOGLE_", "CLOUDSDK_", "AWS_", "STORAGE_EMULATOR_HOST", "RSCTL_CLOUD_PACE")
"""What the variables begin with that say where a cloud is, and whose credentials are used."""

_Key = tuple[Callable[[], JobService], frozenset[tuple[str, str]]]
_services: dict[_Key, JobService] = {}


def shared_service(make: Callable[[], JobService]) -> JobService:
    """The service that `make` made before in the same environment, else a new one."""
    place = frozenset((n, value) for n, value in os.environ.items() if n.startswith(_PLACE))
    key = make, place
    if key not in _services:
        _services[key] = make()
    return _services[key]
