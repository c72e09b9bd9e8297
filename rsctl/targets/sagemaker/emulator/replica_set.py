"""The machines of a job and the containers on them."""

from __future__ import annotations

from pathlib import Path

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.containers import Containers
from rsctl.targets.managed.emulator.job_events import NodeExited
from rsctl.targets.managed.emulator.nodes import JobNodes, NodeRunner
from rsctl.targets.sagemaker.emulator import contract, outcomes, toolkit
from rsctl.targets.sagemaker.emulator.contract import HostFolder
from rsctl.targets.sagemaker.emulator.hosts import EmulatedHost, hosts_of, ports
from rsctl.targets.sagemaker.emulator.job_record import JobRecord
from rsctl.targets.sagemaker.emulator.outcomes import Outcome


class ReplicaSet(Containers):
    """The machines of one job; each attempt has machines with empty disks."""

    def __init__(self, nodes: JobNodes, runner: NodeRunner, record: JobRecord) -> None:
        super().__init__(nodes)
        self._runner = runner
        self._record = record
        self.hosts = hosts_of(record["ResourceConfig"], nodes)
        self.machines: list[HostFolder] = []

    def host(self, node: str) -> EmulatedHost:
        """The host that the runner calls so."""
        return next(host for host in self.hosts if host.node == node)

    def prepare_machines(self, folder: Path) -> None:
        """Give each host a disk of its own below a folder. Raises OSError."""
        self.machines = [HostFolder(host, folder / host.name) for host in self.hosts]
        for machine in self.machines:
            contract.prepare_machine(machine, self.machines, self._record, self._runner.kind)

    def start(self) -> Outcome | None:
        """Start all containers; the job's outcome if one cannot be started."""
        more = ports(self.hosts, self._nodes)
        try:
            start = toolkit.command(self._record, self._runner.kind)
        except OSError as problem:
            return outcomes.not_started(problem)
        for machine in self.machines:
            node = contract.make_node(machine, self._record, more, start)
            try:
                self.start_node(node)
            except (RsctlError, OSError) as problem:
                return outcomes.not_started(problem)
        return None

    def node_exited(self, event: NodeExited) -> Outcome | None:
        """Note the exit of a container; the job's outcome if that ends it."""
        self.up.discard(event.name)
        if event.code:
            machine = next(m for m in self.machines if m.host.node == event.name)
            return outcomes.exited(event.code, machine.failure)
        return None if self.up else outcomes.COMPLETED

    def kill(self, name: str | None) -> None:
        """Kill the machine of a host, the last one if none is named."""
        names = [host.node for host in self.hosts if name in (None, host.name)]
        if names:
            self._nodes.kill(names[-1])
