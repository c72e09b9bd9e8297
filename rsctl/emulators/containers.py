"""The containers of one job that are up."""

from __future__ import annotations

import time

from rsctl.emulators.inbox import Ended, Inbox
from rsctl.emulators.nodes import Node, Nodes
from rsctl.findings import RsctlError

_SPARE = 20.0
"""Seconds beyond its grace for which the end of a container is waited for."""


class Containers:
    """Starts and ends nodes, and keeps count of them. `up` are their names."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.up: set[str] = set()

    def start(self, node: Node) -> None:
        """Start one. Raises OSError or RsctlError if that cannot be done."""
        self.up.add(node.name)  # before, since it may have ended when `start` returns
        try:
            self._nodes.start(node)
        except (RsctlError, OSError):
            self.up.discard(node.name)
            raise

    def hear(self, event: Ended) -> None:
        """Note that one has ended."""
        self.up.discard(event.name)

    def lose(self, name: str) -> None:
        """Lose the machine of one."""
        self._nodes.kill(name)

    def end(self, grace: float | None, inbox: Inbox) -> None:
        """End all, at once if there is no grace (seconds), and wait until they have.

        What else comes meanwhile is passed over, but for the inbox's own note of a wish to end.
        """
        for name in sorted(self.up):
            if grace is None:
                self._nodes.kill(name)
            else:
                self._nodes.stop(name, grace)
        until = time.monotonic() + (grace or 0.0) + _SPARE
        while self.up and time.monotonic() < until:
            event = inbox.next(until)
            if isinstance(event, Ended):
                self.hear(event)

    def close(self) -> None:
        """End and remove everything."""
        self._nodes.close()
