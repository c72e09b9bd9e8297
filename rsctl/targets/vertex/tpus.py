"""TPUs: the slice that a job requests, and the settings that a slice does not support. Pure.

A job with TPUs has one worker pool with one replica, which is one slice; a slice of several hosts
is named by its topology. Source: "Train with TPU VMs" of the platform's documentation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Optional

from rsctl.estimate.catalog import Machine
from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job
from rsctl.job.yaml_tree import quoted
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.scheduling import spot_key

_TOPOLOGY = "targets.vertex.tpu_topology"
_FORM = re.compile(r"[1-9][0-9]{0,2}(x[1-9][0-9]{0,2}){1,2}", re.ASCII)


def topology_of(job: Job, machine: Machine) -> Optional[str]:
    """The slice in the API's terms: the job's own, otherwise one host's; None without TPUs."""
    if not machine.tpu:
        return None
    return vertex_options(job).tpu_topology or machine.topologies[0]


def tpu_findings(job: Job, machine: Machine) -> Iterator[Finding]:
    """The mistakes in the TPUs of a job whose workers have this machine."""
    wanted = vertex_options(job).tpu_topology
    if not machine.tpu:
        if wanted:
            message = f"{machine.name} has no TPUs, and a topology applies only to TPUs"
            yield error("tpu", message, "remove it, or set workers.accelerator: v5e:4", _TOPOLOGY)
        return
    if wanted and wanted not in machine.topologies:
        message = f"{machine.name} has no topology {quoted(wanted)}"
        yield error("tpu", message, f"use one of: {', '.join(machine.topologies)}", _TOPOLOGY)
    if job.workers.count > 1:
        yield several_replicas()
    if vertex_options(job).capacity == "spot" or job.limits.spot:
        key, other = spot_key(job)
        message = "TPUs are not available as spot machines"
        yield error("capacity", message, f"set {key}: {other}", key)
    if job.comm.backend == "nccl":
        message = "NCCL requires GPUs, but the workers have TPUs"
        yield error("comm", message, "set comm.backend: auto", "comm.backend")
    yield from _launch_findings(job, machine)


def several_replicas() -> Finding:
    """The error for TPUs in more than one replica."""
    message = "a job with TPUs has one worker pool with one replica, which is one slice"
    remedy = (
        f"set workers.count: 1, and {_TOPOLOGY} for a slice of several hosts, without reducers "
    )
    remedy += "and other roles"
    return error("tpu", message, remedy, "workers.count")


def _launch_findings(job: Job, machine: Machine) -> Iterator[Finding]:
    """rsctl-launch sees one node, and the libraries for TPUs start their own processes."""
    topology = str(topology_of(job, machine))
    hosts = _chips(topology) // machine.accelerators[0]
    if hosts > 1 and job.run.is_launched:
        message = (
            f"topology {topology} has {hosts} hosts in one replica, and rsctl-launch starts its "
            "command without information about the other hosts"
        )
        remedy = "set run.launcher: none, and let JAX or PyTorch/XLA find the hosts"
        yield warning("tpu", message, remedy, _TOPOLOGY)
    elif job.run.launcher == "torchrun":
        message = "JAX and PyTorch/XLA start the processes for a host's TPUs themselves"
        remedy = "set run.launcher: once; torchrun starts one process here"
        yield warning("tpu", message, remedy, "run.launcher")


def _chips(topology: str) -> int:
    """The number of chips in a slice, at least one host's."""
    if not _FORM.fullmatch(topology):
        return 1
    return math.prod(int(each) for each in topology.split("x"))
