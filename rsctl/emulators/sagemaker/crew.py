"""The machines of a job and the containers on them."""

from __future__ import annotations

from pathlib import Path

from rsctl.emulators.containers import Containers
from rsctl.emulators.inbox import Ended, Inbox
from rsctl.emulators.nodes import Nodes, Runner
from rsctl.emulators.sagemaker import contract, endings
from rsctl.emulators.sagemaker.contract import Machine
from rsctl.emulators.sagemaker.endings import Ending
from rsctl.emulators.sagemaker.hosts import Host, hosts_of, ports
from rsctl.emulators.sagemaker.record import Record
from rsctl.findings import RsctlError


class Crew:
    """All containers of one job; each attempt has machines with empty disks."""

    def __init__(self, nodes: Nodes, runner: Runner, record: Record) -> None:
        self._nodes = nodes
        self._runner = runner
        self._record = record
        self._containers = Containers(nodes)
        self.hosts = hosts_of(record["ResourceConfig"], nodes)
        self.machines: list[Machine] = []

    def host(self, node: str) -> Host:
        """The host that the runner calls so."""
        return next(host for host in self.hosts if host.node == node)

    def furnish(self, folder: Path) -> None:
        """Give each host a disk of its own below a folder. Raises OSError."""
        self.machines = [Machine(host, folder / host.name) for host in self.hosts]
        for machine in self.machines:
            contract.furnish(machine, self.machines, self._record, self._runner.kind)

    def start(self) -> Ending | None:
        """Start all containers; how the job ends if that cannot be done."""
        more = ports(self.hosts, self._nodes)
        for machine in self.machines:
            node = contract.node_of(machine, self._record, more)
            try:
                self._containers.start(node)
            except (RsctlError, OSError) as problem:
                return endings.not_started(problem)
        return None

    def hear(self, event: Ended) -> Ending | None:
        """Note that a container has ended; how the job ends by that."""
        self._containers.hear(event)
        if event.code:
            machine = next(m for m in self.machines if m.host.node == event.name)
            return endings.exited(event.code, machine.failure)
        return None if self._containers.up else endings.COMPLETED

    def lose(self, name: str | None) -> None:
        """Lose the machine of a host, the last one's if none is named."""
        names = [host.node for host in self.hosts if name in (None, host.name)]
        if names:
            self._containers.lose(names[-1])

    def end(self, grace: float | None, inbox: Inbox) -> None:
        """End all containers that are up, at once if there is no grace; wait until they have."""
        self._containers.end(grace, inbox)

    def close(self) -> None:
        """Remove everything."""
        self._containers.close()
