"""The replicas of a job: which of them are up, and which are to be started when."""

from __future__ import annotations

import time

from rsctl.emulators.containers import Containers
from rsctl.emulators.inbox import Ended, Inbox
from rsctl.emulators.nodes import Nodes, Runner
from rsctl.emulators.vertex.behaviour import Behaviour
from rsctl.emulators.vertex.contract import Replica
from rsctl.emulators.vertex.endings import Ending, not_started
from rsctl.findings import RsctlError


class Crew:
    """`due` has the times at which replicas start, by name."""

    def __init__(
        self, nodes: Nodes, replicas: list[Replica], runner: Runner, behaviour: Behaviour
    ) -> None:
        self._containers = Containers(nodes)
        self._runner = runner
        self._behaviour = behaviour
        self._lost: set[str] = set()
        self.replicas = {replica.name: replica for replica in replicas}
        self.due: dict[str, float] = {}

    def plan(self) -> None:
        """Have all replicas start, one after the other, the first one now."""
        self._lost.clear()
        names = [name for name, replica in self.replicas.items() if replica.node]
        for number, name in enumerate(names):
            self.start_in(name, number * self._behaviour.stagger)

    def start_in(self, name: str, made_up_seconds: float) -> None:
        """Have a replica start later."""
        self.due[name] = time.monotonic() + made_up_seconds * self._behaviour.pace

    def start_due(self) -> Ending | None:
        """Start those whose time has come; how the job ends if that cannot be done."""
        now = time.monotonic()
        for name in [name for name, when in self.due.items() if when <= now]:
            del self.due[name]
            try:
                self._start(self.replicas[name])
            except (RsctlError, OSError) as problem:
                return not_started(self.replicas[name].task, problem)
        return None

    def take_away(self, task: str | None) -> None:
        """Lose the machine of a task that is up, or the last that is."""
        names = [name for name in self.replicas if name in self._containers.up]
        if task is not None:
            names = [name for name in names if self.replicas[name].task == task]
        if names:
            self._lost.add(names[-1])
            self._containers.lose(names[-1])

    def hear(self, event: Ended) -> bool:
        """Note that a replica has ended; whether that is because its machine was lost."""
        self._containers.hear(event)
        return event.name in self._lost

    def stop(self, inbox: Inbox) -> None:
        """End all that are up, and wait until they have."""
        self.due.clear()
        self._containers.end(self._behaviour.grace, inbox)

    def close(self) -> None:
        """Remove everything."""
        self._containers.close()

    def _start(self, replica: Replica) -> None:
        if replica.node is None:
            return
        if not self._runner.has_image(replica.node.image):
            raise OSError(f"image {replica.node.image} is not found")
        self._containers.start(replica.node)
