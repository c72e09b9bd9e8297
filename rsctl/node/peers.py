"""Waits until the other nodes are there: nodes start in any order, on clouds minutes apart."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterable

from rsctl.node.errors import TEMPORARY, LaunchError

_POLL_SECONDS = 0.2
_SILENT_SECONDS = 3.0
_CONNECT_SECONDS = 3.0
_NAMES = "the names"
_BLOCKED = "timed out"


def wait_for_names(
    names: Iterable[str],
    limit: float,
    resolves: Callable[[str], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    what: str = _NAMES,
    shown: Callable[[str], str] = str,
) -> None:
    """Return when every name resolves; addresses do at once. `what` and `shown` are for messages.

    After a few seconds it prints to stderr which it waits for. Raises LaunchError after `limit`
    seconds.
    """
    resolves = resolves or _resolves
    began, is_reported = clock(), False
    while missing := [name for name in names if not resolves(name)]:
        waited = clock() - began
        if waited >= limit:
            raise _missing(what, list(map(shown, missing)), limit)
        if waited >= _SILENT_SECONDS and not is_reported:
            is_reported = True
            print(f"rsctl: waiting for {what} {', '.join(map(shown, missing))}", file=sys.stderr)
        sleep(min(_POLL_SECONDS, limit - waited))
        names = missing


def wait_for_listeners(
    addresses: Iterable[tuple[str, int]], limit: float, what: str = "the reducers"
) -> None:
    """Return when a process listens at each of these hosts and ports.

    A name may resolve long before anything runs on the machine. `what` is for messages. Raises
    LaunchError after `limit` seconds.
    """
    listening = {f"{host}:{port}": (host, port) for host, port in addresses}
    reasons: dict[str, str] = {}

    def listens(name: str) -> bool:
        reasons[name] = _why_silent(listening[name])
        return not reasons[name]

    wait_for_names(
        listening, limit, listens, what=what, shown=lambda name: f"{name} ({reasons[name]})"
    )


def wait_at_barrier(
    directory: str, attempt: str, own: str, names: Iterable[str], limit: float
) -> None:
    """Return when every node has called this; `directory` is one that all of them share.

    A node's name resolves only while it runs: without this, one that is soon done would be gone
    before a slower one had resolved it. Raises LaunchError after `limit` seconds.
    """

    def mark(name: str) -> str:
        return os.path.join(directory, f"{attempt}-{name}")

    with open(mark(own), "w"):
        pass
    wait_for_names(names, limit, lambda name: os.path.exists(mark(name)))


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def _why_silent(address: tuple[str, int]) -> str:
    """Why a process cannot be reached; empty if it listens."""
    try:
        socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
    except TimeoutError:
        return _BLOCKED
    except OSError as problem:
        return problem.strerror or str(problem)
    except UnicodeError:
        return "not a name"
    return ""


def _missing(what: str, missing: list[str], limit: float) -> LaunchError:
    is_name = what == _NAMES
    lack = "these nodes have no address" if is_name else f"{what} do not listen"
    remedy = (
        "Check whether they started, and why not; a slow start needs a longer "
        "RSCTL_RESOLVE_SECONDS."
    )
    if any(f"({_BLOCKED})" in each for each in missing):
        remedy += " If they run, a firewall blocks the port: a security group must allow its own"
        remedy += " members."
    return LaunchError(
        TEMPORARY,
        "peers-unresolved" if is_name else "peers-silent",
        f"after {limit:g} s {lack}: {', '.join(missing)}",
        remedy,
    )
