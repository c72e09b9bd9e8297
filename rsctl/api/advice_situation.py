"""The machines of a job for advice: the machines in its plan, and the reducers it could have."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from rsctl.estimate import catalog
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.inputs import dollars_of, interconnect_of, settings_of
from rsctl.estimate.advice.situation import ReducerMachine, Situation
from rsctl.estimate.catalog.sizing import reducers_for
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.job import Job
from rsctl.plan import make_plan
from rsctl.target_info import TargetInfo, target_info
from rsctl.targets.base import Plan, Pool, Submission, Target, count_of_role

_SHARDED = re.compile(r"\b(fully_shard|FullyShardedDataParallel|deepspeed)\b")
_LONGEST_SCRIPT = 1_000_000


def make_situation(job: Job, planned: Submission, target: Target) -> Situation:
    """The facts that a job's options depend on. Raises RsctlError if a bandwidth is unknown."""
    plan, info = planned.plan, target.info
    worker = _workers(plan)
    reducer_pool = next((pool for pool in plan.pools if pool.role == "reducer"), None)
    refused, pool, transport = _reducer_pool(job, target, plan)
    sharded = _sharding(job)
    refused = _why_sharded(job, sharded) or _own_transport(info, worker) or refused
    machines = _reducer_machines(job, info, pool) if pool else ()
    cores = _cores(info, worker)
    return Situation(
        target=info.name,
        cluster=ModelledCluster(
            workers=worker.count,
            worker_bits=_bits(info, worker),
            ranks=max(1, plan.world_size // worker.count),
            worker_cores=cores,
            shared_cores=None if info.is_managed else cores,
            inside=interconnect_of(job, worker.accelerator),
            shares_work=transport != "reduction-server",
        ),
        worker_machine=worker.machine,
        worker_dollars=_per_worker(job, info, plan),
        role_dollars=_dollars(job, info, [p for p in plan.pools if p.role in job.roles]),
        reducer_machines=machines,
        refused=refused,
        sharded=sharded,
        count=reducer_pool.count if reducer_pool else 0,
        rule=_rule(worker, machines),
        settings=settings_of(job),
    )


def _workers(plan: Plan) -> Pool:
    """All workers as one pool: the machine is the other workers' if the chief has its own, and the
    rate is the slower one.
    """
    pools = [pool for pool in plan.pools if pool.role == "worker"]
    rates = [pool.gbps for pool in pools if pool.gbps]
    slowest = min(rates) if len(rates) == len(pools) else None
    return replace(pools[-1], count=count_of_role(pools, "worker"), gbps=slowest)


def _per_worker(job: Job, info: TargetInfo, plan: Plan) -> float | None:
    """The average price of a worker per hour."""
    pools = [pool for pool in plan.pools if pool.role == "worker"]
    total = _dollars(job, info, pools)
    return None if total is None else total / count_of_role(pools, "worker")


def _dollars(job: Job, info: TargetInfo, pools: list[Pool]) -> float | None:
    """The price of all nodes of these pools per hour; None if it is unknown."""
    total = 0.0
    for pool in pools:
        each = dollars_of(job, info.catalog and info.name, pool.machine, pool.accelerator)
        if each is None:
            return None
        total += pool.count * each
    return total


def _reducer_pool(job: Job, target: Target, plan: Plan) -> tuple[str | None, Pool | None, str]:
    """Why the job cannot have reducers; otherwise the possible pool, and the image's transport."""
    transport = plan.image.transport
    if job.workers.count == 1:
        return None, None, transport
    if job.reducers.count == "auto" or not any(pool.role == "reducer" for pool in plan.pools):
        full_job = replace(job, reducers=replace(job.reducers, count=job.workers.count))
        try:
            plan = make_plan(full_job, target, plan.run).plan
        except RsctlError as problem:
            reason = next((f.message for f in problem.findings if f.is_error), problem.summary)
            return reason, None, transport
    pools = [pool for pool in plan.pools if pool.role == "reducer"]
    if not pools:
        return "the target supports none", None, transport
    return None, pools[0], plan.image.transport


def _reducer_machines(job: Job, info: TargetInfo, pool: Pool) -> tuple[ReducerMachine, ...]:
    """The plan's machine for reducers; unless the job file names it, also others of its family."""
    from_job = ReducerMachine(
        name=pool.machine,
        bits=pool.gbps * 1e9 if pool.gbps else None,
        cores=_cores(info, pool),
        dollars=dollars_of(job, info.catalog and info.name, pool.machine),
    )
    if info.catalog is None or pool.machine is None or job.reducers.machine != "auto":
        return (from_job,)
    family = re.sub(r"[^-.]+$", "", pool.machine)
    others = [
        ReducerMachine(
            name=machine.name,
            bits=machine.gbps * 1e9,
            cores=machine.vcpus,
            dollars=dollars_of(job, info.catalog and info.name, machine.name),
        )
        for machine in catalog.load(info.name).machines.values()
        if machine.name.startswith(family) and machine.name != from_job.name
        if machine.gbps and not machine.retired and not machine.arm and not machine.accelerators
    ]
    return (from_job, *others)


def _bits(info: TargetInfo, pool: Pool) -> float | None:
    """The rate of a node's card; None on this machine, where no card limits the rate."""
    if pool.gbps:
        return pool.gbps * 1e9
    if not info.is_managed:
        return None
    machine = pool.machine or f"{info.title}'s nodes"
    message = f"the bandwidth of {machine} is unknown, and advice requires it"
    remedy = "use a machine whose bandwidth is in the catalogue"
    if info.catalog is None:
        remedy = "choose a target whose machines are in the catalogue; or target compose, with the "
        remedy += "rate in targets.compose.network.bandwidth"
    raise RsctlError(ExitCode.USAGE, error("advise", message, remedy, "workers.machine"))


def _cores(info: TargetInfo, pool: Pool) -> float | None:
    """The cores of a node; on this machine all cores, which the nodes share."""
    if info.catalog is None:
        from rsctl.targets.local.host import this_host

        return None if info.is_managed else this_host().cpus
    machine = catalog.load(info.name).machines.get(pool.machine or "")
    return machine.vcpus if machine else None


def _rule(worker: Pool, machines: tuple[ReducerMachine, ...]) -> int | None:
    """The number of reducers by the documented rule of bandwidths."""
    if not machines or not worker.gbps or not machines[0].bits:
        return None
    return reducers_for(worker.count, worker.gbps, machines[0].bits / 1e9)


def _own_transport(info: TargetInfo, worker: Pool) -> str | None:
    """Why machines that bring a transport of their own gain nothing."""
    machines = catalog.load(info.name).machines if info.catalog else {}
    machine = machines.get(worker.machine or "")
    if machine is None or machine.own_transport is None:
        return None
    only = f", which NCCL uses only with {machine.nccl_needs}" if machine.nccl_needs else ""
    return f"{machine.name} has its own transport ({machine.own_transport}){only}"


def rate_assumption(target: str, worker_machine: str | None, worker_bits: float) -> str:
    """The assumed rate of the workers' cards, and its conditions."""
    info = target_info(target)
    machines = catalog.load(info.name).machines if info.catalog else {}
    machine = machines.get(worker_machine or "")
    rate = f"nodes have {worker_bits / 1e9:g} Gbit/s in each direction by"
    if machine is None or machine.nccl_needs is None:
        return f"{rate} TCP"
    if machine.nccl_setup == "gib":
        return (
            f"{rate} TCP; {machine.own_transport}, with {machine.nccl_needs}, is not taken into "
            "account"
        )
    return f"{rate} {machine.own_transport}, with {machine.nccl_needs}; with TCP alone it is lower"


def _sharding(job: Job) -> str | None:
    """The name by which a script shards its model, as far as its text shows."""
    script = job.run.script
    path = Path(job.image.source or ".") / (script or "")
    try:
        if not path.is_file():  # nor a pipe, which would be waited for
            return None
        with path.open(encoding="utf-8", errors="replace") as file:
            match = _SHARDED.search(file.read(_LONGEST_SCRIPT))
    except OSError:
        return None
    return match[1] if match else None


def _why_sharded(job: Job, sharded: str | None) -> str | None:
    """Why a script that shards its model gains nothing."""
    if sharded is None:
        return None
    return (
        f"{job.run.script} shards its model ({sharded}): reduce-scatter and all-gather send "
        "(N-1)/N of it each, and reducers help all-reduces only"
    )
