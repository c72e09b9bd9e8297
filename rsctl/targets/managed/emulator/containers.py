"""The running containers of one job."""

from __future__ import annotations

import time

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.job_events import EventQueue, NodeExited
from rsctl.targets.managed.emulator.nodes import JobNodes, Node

_SPARE = 20.0
"""Seconds beyond its grace for which the end of a container is waited for."""


class Containers:
    """The running nodes of one job. `up` are their names."""

    def __init__(self, nodes: JobNodes) -> None:
        self._nodes = nodes
        self.up: set[str] = set()

    def start_node(self, node: Node) -> None:
        """Start one. Raises OSError or RsctlError if that cannot be done."""
        self.up.add(node.name)  # before, since it may have ended when `start` returns
        try:
            self._nodes.start(node)
        except (RsctlError, OSError):
            self.up.discard(node.name)
            raise

    def end(self, grace: float | None, events: EventQueue) -> None:
        """End all, at once if there is no grace (seconds), and wait until they have.

        What else comes meanwhile is dropped, but the queue remembers a cancellation.
        """
        for name in sorted(self.up):
            if grace is None:
                self._nodes.kill(name)
            else:
                self._nodes.stop(name, grace)
        until = time.monotonic() + (grace or 0.0) + _SPARE
        while self.up and time.monotonic() < until:
            event = events.next(until)
            if isinstance(event, NodeExited):
                self.up.discard(event.name)

    def close(self) -> None:
        """End and remove everything."""
        self._nodes.close()
