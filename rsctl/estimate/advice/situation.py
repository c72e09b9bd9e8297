"""A job's machines as advice sees them: the fixed facts, the choices, and their costs."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.exchange import GB
from rsctl.estimate.advice.pool_size import saturating_reducers
from rsctl.estimate.advice.step import ExchangeSettings


class ReducerMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that reducers could run on: its card in bit/s, its cores, and US dollars an hour.

    None stands for an unknown value; no `name` is this machine.
    """

    name: str | None = None
    bits: float | None = None
    cores: float | None = None
    dollars: float | None = None


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of the advice. `cluster` is without reducers; dollars are per hour.

    `worker_dollars` are for one worker, `role_dollars` for all nodes of the job's own roles.
    `sharded` is the name by which the script shards its model, so that it has no all-reduce.
    `refused` says why the job can have no reducers, `count` how many it has now; `rule` is what the
    platform's documentation advises.
    """

    target: str
    cluster: ModelledCluster
    worker_machine: str | None = None
    worker_dollars: float | None = None
    role_dollars: float | None = 0.0
    reducer_machines: tuple[ReducerMachine, ...] = ()
    refused: str | None = None
    sharded: str | None = None
    count: int = 0
    rule: int | None = None
    settings: ExchangeSettings = ExchangeSettings()

    @property
    def is_priced(self) -> bool:
        """Whether money can be compared."""
        return self.worker_dollars is not None and self.role_dollars is not None

    def dollars(self, machine: ReducerMachine | None, reducers: int) -> float | None:
        """The price of all nodes per hour; None if a price is unknown."""
        if self.worker_dollars is None or self.role_dollars is None:
            return None
        if machine and machine.dollars is None:
            return None
        each = machine.dollars if machine and machine.dollars else 0.0
        return self.cluster.workers * self.worker_dollars + reducers * each + self.role_dollars

    def with_reducers(self, machine: ReducerMachine, reducers: int) -> ModelledCluster:
        """The cluster with so many of these."""
        return replace(
            self.cluster,
            reducers=reducers,
            reducer_bits=machine.bits,
            reducer_cores=machine.cores,
        )

    def saturating(self, machine: ReducerMachine, calibration: Calibration) -> int:
        """How many of these it takes until the workers are the bottleneck, cores included."""
        workers = self.cluster.workers
        if self.cluster.shared_cores or not machine.bits or not self.cluster.worker_bits:
            return workers
        threads = min(machine.cores or self.cluster.ranks, self.cluster.ranks)
        carried = 8 * GB * threads / calibration.reducer_cpu_seconds_per_gb
        gbps = self.cluster.worker_bits / 1e9, machine.bits / 1e9
        return saturating_reducers(workers, *gbps, reducer_core_gbps=carried / 1e9)
