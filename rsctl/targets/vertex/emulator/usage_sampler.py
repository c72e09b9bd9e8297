"""Measures the nodes of a job whose containers print no telemetry, as Cloud Monitoring does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from rsctl.runs.stream.events import now
from rsctl.targets.managed.emulator.nodes import JobNodes
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.samples import TELEMETRY

_FIRST_SECONDS = 0.3
_PERIOD_SECONDS = 60.0


class UsageSampler:
    """Asks what each node uses, from a thread of its own, until it is stopped.

    `running` gives the nodes' names; `take` gets a node, a line of telemetry and its time. A node
    that prints telemetry is left out. The first samples come soon, so that short jobs have some.
    """

    def __init__(
        self,
        nodes: JobNodes,
        running: Callable[[], Iterable[str]],
        take: Callable[[str, str, str], None],
        behaviour: Behaviour,
    ) -> None:
        self._nodes, self._running, self._take = nodes, running, take
        self._behaviour = behaviour
        self._reporting: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a call that is under way is not waited for."""
        self._stopped.set()

    def leave_out(self, node: str) -> None:
        """A node prints telemetry itself."""
        self._reporting.add(node)

    def _run(self) -> None:
        wait = _FIRST_SECONDS
        while not self._stopped.wait(wait):
            wait = max(_PERIOD_SECONDS * self._behaviour.pace, _FIRST_SECONDS)
            for node in [name for name in self._running() if name not in self._reporting]:
                with suppress(OSError):  # it may end meanwhile
                    self._sample(node)

    def _sample(self, node: str) -> None:
        fields = self._nodes.usage(node)
        if fields and not self._stopped.is_set() and node not in self._reporting:
            self._take(node, TELEMETRY + json.dumps(fields)[1:], now())
