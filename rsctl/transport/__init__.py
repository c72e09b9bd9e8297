"""The open reduction transport: workers send gradients to reducers, which add and send them back.

`PROTOCOL.md` says what travels. This room imports nothing from the rest of rsctl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsctl.transport.client import QueuedAllReduce, Transport, connect
    from rsctl.transport.errors import ErrorCode, TransportError
    from rsctl.transport.settings import WorkerSettings

LANGUAGES = {"core": "C++", "python": "Python"}
"""The language of each engine, for messages."""

_HOMES = {
    "ErrorCode": "errors",
    "TransportError": "errors",
    "Transport": "client",
    "connect": "client",
    "WorkerSettings": "settings",
    "QueuedAllReduce": "client",
}

__all__ = [
    "ErrorCode",
    "QueuedAllReduce",
    "Transport",
    "TransportError",
    "WorkerSettings",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Imported when first used, since the reducer's program needs little of it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"rsctl.transport.{_HOMES[name]}"), name)
