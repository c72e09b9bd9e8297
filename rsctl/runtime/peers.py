"""Waiting until the names of all nodes resolve: nodes start in any order."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterable

from rsctl.runtime.refusal import TEMPORARY, Refusal

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 3.0


def wait_for_names(
    names: Iterable[str],
    limit: float,
    resolves: Callable[[str], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when every name resolves; addresses do at once.

    After a few seconds it says on stderr whom it waits for. Raises Refusal after `limit` seconds.
    """
    resolves = resolves or _resolves
    began, told = clock(), False
    while missing := [name for name in names if not resolves(name)]:
        waited = clock() - began
        if waited >= limit:
            raise _unresolved(missing, limit)
        if waited >= _PATIENCE_SECONDS and not told:
            told = True
            print(f"rsctl: waiting for the names {', '.join(missing)}", file=sys.stderr)
        sleep(min(_POLL_SECONDS, limit - waited))
        names = missing


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def _unresolved(missing: list[str], limit: float) -> Refusal:
    return Refusal(
        TEMPORARY,
        "peers-unresolved",
        f"after {limit:g} s these nodes have no address: {', '.join(missing)}",
        "See whether they started, and why not; a slow start needs a longer RSCTL_RESOLVE_SECONDS.",
    )
