"""SageMaker's machine families, their disks, and the machine for reducers."""

from __future__ import annotations

import re

from rsctl.estimate.catalog import Catalog, Machine

_WITH_DISKS = re.compile(r"g[4-9].*|p3dn|p[4-9].*|trn.*|r5d")


def family(machine: str) -> str:
    """`c5n` of `ml.c5n.18xlarge`."""
    return machine.removeprefix("ml.").partition(".")[0]


def has_own_disks(machine: str) -> bool:
    """Whether a machine has NVMe disks of fixed size, so that no volume is attached to it."""
    return _WITH_DISKS.fullmatch(family(machine)) is not None


def reducer_machine(catalog: Catalog, worker_gbps: float | None) -> Machine:
    """The machine for reducers of such workers, in Gbit/s.

    The smallest of the catalogue's reducer family that is as fast as a worker, so that there are
    never more reducers than workers. If none is as fast, or if the rate is unknown: the fastest.
    """
    fastest = catalog.machines[catalog.reducer]
    fast_enough = [
        machine
        for machine in catalog.machines.values()
        if family(machine.name) == family(fastest.name)
        and worker_gbps is not None
        and (machine.gbps or 0.0) >= worker_gbps
    ]
    return min(fast_enough, key=lambda machine: machine.vcpus, default=fastest)
