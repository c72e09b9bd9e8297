"""The machines of a job and the containers on them."""

from __future__ import annotations

import time
from pathlib import Path

from rsctl.emulators.nodes import Nodes, Runner
from rsctl.emulators.sagemaker import contract, endings
from rsctl.emulators.sagemaker.contract import Machine
from rsctl.emulators.sagemaker.endings import Ending
from rsctl.emulators.sagemaker.hosts import Host, hosts_of, ports
from rsctl.emulators.sagemaker.record import Record
from rsctl.emulators.vertex.inbox import Ended, Inbox
from rsctl.findings import RsctlError

_SPARE = 20.0


class Crew:
    """All containers of one job; each attempt has machines with empty disks."""

    def __init__(self, nodes: Nodes, runner: Runner, record: Record) -> None:
        self._nodes = nodes
        self._runner = runner
        self._record = record
        self._up: set[str] = set()
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
            self._up.add(node.name)
            try:
                self._nodes.start(node)
            except (RsctlError, OSError) as problem:
                self._up.discard(node.name)
                return endings.not_started(_said(problem))
        return None

    def hear(self, event: Ended) -> Ending | None:
        """Note that a container has ended; how the job ends by that."""
        self._up.discard(event.name)
        if event.code:
            machine = next(m for m in self.machines if m.host.node == event.name)
            return endings.exited(event.code, machine.failure)
        return None if self._up else endings.COMPLETED

    def lose(self, name: str | None) -> None:
        """Lose the machine of a host, the last one's if none is named."""
        names = [host.node for host in self.hosts if name in (None, host.name)]
        if names:
            self._nodes.kill(names[-1])

    def end(self, grace: float | None, inbox: Inbox) -> None:
        """End all containers that are up, at once if there is no grace; wait until they have."""
        for name in sorted(self._up):
            if grace is None:
                self._nodes.kill(name)
            else:
                self._nodes.stop(name, grace)
        until = time.monotonic() + (grace or 0.0) + _SPARE
        while self._up and time.monotonic() < until:
            event = inbox.next(until)
            if isinstance(event, Ended):
                self._up.discard(event.name)

    def close(self) -> None:
        """Remove everything."""
        self._nodes.close()


def _said(problem: RsctlError | OSError) -> str:
    if isinstance(problem, RsctlError):
        return "; ".join(finding.message for finding in problem.findings)
    return str(problem)
