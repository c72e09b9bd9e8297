"""The replicas of one job: which are running, and when the others start."""

from __future__ import annotations

import time

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.containers import Containers
from rsctl.targets.managed.emulator.job_events import EventQueue, NodeExited
from rsctl.targets.managed.emulator.nodes import JobNodes, NodeRunner
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.contract import EmulatedReplica
from rsctl.targets.vertex.emulator.outcomes import Outcome, not_started


class ReplicaSet(Containers):
    """The replicas of one job. `due` are the times at which replicas start, by name."""

    def __init__(
        self,
        nodes: JobNodes,
        replicas: list[EmulatedReplica],
        runner: NodeRunner,
        behaviour: Behaviour,
    ) -> None:
        super().__init__(nodes)
        self._runner = runner
        self._behaviour = behaviour
        self._lost: set[str] = set()
        self.replicas = {replica.name: replica for replica in replicas}
        self.due: dict[str, float] = {}

    def plan(self) -> None:
        """Schedule the start of all replicas, one after the other, the first one now."""
        self._lost.clear()
        names = [name for name, replica in self.replicas.items() if replica.node]
        for number, name in enumerate(names):
            self.start_in(name, number * self._behaviour.stagger)

    def start_in(self, name: str, simulated_seconds: float) -> None:
        """Schedule the start of a replica."""
        self.due[name] = time.monotonic() + simulated_seconds * self._behaviour.pace

    def start_due(self) -> Outcome | None:
        """Start the replicas that are due; the job's outcome if one cannot be started."""
        now = time.monotonic()
        for name in [name for name, when in self.due.items() if when <= now]:
            del self.due[name]
            try:
                self._start(self.replicas[name])
            except (RsctlError, OSError) as problem:
                return not_started(self.replicas[name].task, problem)
        return None

    def running(self) -> list[str]:
        """The names of the replicas that are up."""
        return sorted(self.up)

    def preempt(self, task: str | None) -> None:
        """Take away the machine of a task that is running, the last one if none is named."""
        names = [name for name in self.replicas if name in self.up]
        if task is not None:
            names = [name for name in names if self.replicas[name].task == task]
        if names:
            self._lost.add(names[-1])
            self._nodes.kill(names[-1])

    def node_exited(self, event: NodeExited) -> bool:
        """Note the exit of a replica; whether its machine was lost."""
        self.up.discard(event.name)
        return event.name in self._lost

    def stop(self, events: EventQueue) -> None:
        """End all that are running, and wait until they have ended."""
        self.due.clear()
        self.end(self._behaviour.grace, events)

    def _start(self, replica: EmulatedReplica) -> None:
        if replica.node is None:
            return
        if not self._runner.has_image(replica.node.image):
            raise OSError(f"image {replica.node.image} is not found")
        self.start_node(replica.node)
