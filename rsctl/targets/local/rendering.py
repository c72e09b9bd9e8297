"""The common parts of the plans of both local targets: replicas, environment, findings. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Optional

import msgspec

from rsctl.findings import Finding, error, note
from rsctl.job.job import Job
from rsctl.targets.base import Pool, merged_pools
from rsctl.targets.chief import chief_job, has_own_chief, rank_findings
from rsctl.targets.node_checks import checks_env
from rsctl.targets.profiles import profile_env
from rsctl.targets.roles import role_job
from rsctl.targets.stalls import stall_env, stall_findings
from rsctl.targets.variables import (
    comm_env,
    grace_env,
    reducer_count,
    reducers_env,
    tls_findings,
    user_env,
)


class Share(msgspec.Struct, frozen=True):
    """The share of each worker: GPUs of this machine by number, ranks, and threads for each rank.

    `gpus` and `ranks` have one entry for each worker, `role_gpus` the GPUs of each replica of a
    role.
    """

    gpus: tuple[tuple[int, ...], ...]
    ranks: tuple[int, ...]
    threads: int
    role_gpus: Mapping[str, tuple[tuple[int, ...], ...]]

    @property
    def world_size(self) -> int:
        """The ranks of all workers."""
        return sum(self.ranks)

    def accelerator(self, worker: int) -> str | None:
        """A worker's GPUs as a plan shows them; None if it has none."""
        return _shown(self.gpus[worker])


def _shown(gpus: tuple[int, ...]) -> str | None:
    return f"gpu:{len(gpus)}" if gpus else None


def share_out(job: Job, host_gpus: int, host_cpus: float) -> Share:
    """GPUs as requested, or in equal parts if there are too few.

    Never one GPU for two workers: NCCL cannot share one between nodes. Roles get the remaining
    GPUs, in the order of the job file.
    """
    workers = job.workers.count
    wanted = [_wanted(chief_job(job)), *[_wanted(job)] * (workers - 1)]
    most = host_gpus if sum(wanted) <= host_gpus else host_gpus // workers
    counts = [min(each, most) for each in wanted]
    gpus, role_gpus = _numbered(counts, 0), {}
    given = sum(counts)
    for name, role in job.roles.items():
        each = min(_wanted(role_job(job, name)), (host_gpus - given) // role.count)
        role_gpus[name] = _numbered([each] * role.count, given)
        given += each * role.count
    chosen = job.workers.processes
    ranks = tuple((each or 1) if chosen == "auto" else chosen for each in counts)
    processes = sum(ranks) + sum(role.count for role in job.roles.values())
    return Share(gpus, ranks, max(1, int(host_cpus // processes)), role_gpus)


def _numbered(counts: list[int], first: int) -> tuple[tuple[int, ...], ...]:
    """So many GPUs each, by their numbers on this machine."""
    ends = [first + end for end in accumulate(counts)]
    return tuple(tuple(range(end - n, end)) for end, n in zip(ends, counts, strict=True))


def _wanted(job: Job) -> int:
    return job.workers.accelerator.per_node if job.workers.accelerator else 0


def share_findings(job: Job, share: Share) -> Iterator[Finding]:
    """A note where this machine has fewer GPUs than the spec asks for."""
    nodes = job.workers.count
    remedy = "set workers.processes to use another number of ranks"
    if has_own_chief(job):
        each, ranks = len(share.gpus[0]), f", with {share.ranks[0]} rank(s) per node"
        replica_job = chief_job(job)
        yield from _too_few(replica_job, each, "a chief", ranks, remedy, "chief.accelerator")
        nodes -= 1
    if nodes:
        each, ranks = len(share.gpus[-1]), f", with {share.ranks[-1]} rank(s) per node"
        yield from _too_few(job, each, f"{nodes} nodes", ranks, remedy, "workers.accelerator")
    for name, gpus in share.role_gpus.items():
        path = f"roles.{name}.accelerator"
        yield from _too_few(role_job(job, name), len(gpus[0]), f"role {name}", "", None, path)


def _too_few(
    job: Job, each: int, who: str, ranks: str, remedy: str | None, path: str
) -> Iterator[Finding]:
    wanted = job.workers.accelerator
    if wanted and each < wanted.per_node:
        has = f"each node gets {each}" if each else "the job runs on the CPU"
        message = f"this machine has too few GPUs for {who} of {wanted}: {has}{ranks}"
        yield note("gpus", message, remedy, path)


def supervision(job: Job) -> dict[str, Any]:
    """The supervisor's tasks besides starting the replicas, in the format of the request.

    `ends` are the roles that do not end with the workers. Defaults are left out.
    """
    limits = job.limits
    given = {
        "timeout": float(limits.timeout) if limits.timeout else None,
        "grace": float(limits.grace) if limits.grace else None,
        "retries": limits.most_restarts,
        "stall": float(limits.stall) if limits.stall is not None else None,
        "on_stall": limits.on_stall if limits.on_stall != "notify" else None,
        "ends": {n: role.ends for n, role in job.roles.items() if role.ends != "with-workers"},
    }
    shown = {n: value for n, value in given.items() if value or (n == "stall" and value == 0)}
    return {"supervisor": shown} if shown else {}


def restart_findings(job: Job) -> Iterator[Finding]:
    """Findings on restarts that are left to the target."""
    yield from stall_findings(job)
    if job.limits.restarts == "platform":
        message = "only rsctl restarts jobs on this machine, so the job is not restarted"
        yield note("restarts", message, None, "limits.restarts")


def comm_findings(job: Job, share: Share) -> Iterator[Finding]:
    """Findings on how gradients travel."""
    reducers = reducer_count(job)
    if job.reducers.count == "auto":
        why = "a single worker exchanges no gradients"
        if reducers:
            why = "as many as workers, because all links on this machine have the same speed"
        yield note("reducers", f"{reducers} reducers: {why}", None, "reducers.count")
    yield from tls_findings(job, bool(reducers))
    yield from rank_findings(job, share.ranks[0], share.ranks[-1], bool(reducers))
    if job.run.launcher == "none" and (reducers or comm_env(job, False)):
        yield error(
            "unsupported",
            "reducers and comm: need rsctl-launch, which launcher none does not use",
            "use launcher torchrun or once",
            "reducers.count" if reducers else "comm",
        )
    if job.comm.backend == "rsctl" and not reducers:
        yield error("comm", "backend rsctl needs reducers", "set reducers.count", "comm.backend")
    if job.comm.backend == "nccl" and not all(share.gpus):
        yield error(
            "comm",
            "backend nccl needs GPUs, and no node has one",
            "set comm.backend: gloo",
            "comm.backend",
        )


class Replica(msgspec.Struct, frozen=True):
    """A replica to start. `job` is its own job, `env` its variables on each local target."""

    role: str
    index: int
    job: Job
    ranks: int
    gpus: tuple[int, ...]
    env: dict[str, Optional[str]]

    @property
    def name(self) -> str:
        """The name, such as `worker-0`; the first worker is the chief."""
        return f"{self.role}-{self.index}"


def replicas(job: Job, share: Share) -> Iterator[Replica]:
    """All replicas of a job. Reducers get only their own variables, none of them secret."""
    for index, ranks in enumerate(share.ranks):
        own = chief_job(job) if index == 0 else job
        yield Replica("worker", index, own, ranks, share.gpus[index], script_env(own, share))
    reducer_env: dict[str, Optional[str]] = {n: str(v) for n, v in job.reducers.env.items()}
    for index in range(reducer_count(job)):
        yield Replica("reducer", index, job, share.ranks[-1], (), reducer_env)
    for name, gpus in share.role_gpus.items():
        own = role_job(job, name)
        env = {"OMP_NUM_THREADS": str(share.threads), **user_env(own), **stall_env(own)}
        for index, mine in enumerate(gpus):
            yield Replica(name, index, own, 1, mine, env)


def names(job: Job, role: str) -> list[str]:
    """`worker-0` … of a role; the first worker is the chief."""
    counts = {name: each.count for name, each in job.roles.items()}
    counts |= {"worker": job.workers.count, "reducer": reducer_count(job)}
    return [f"{role}-{index}" for index in range(counts[role])]


def pools(job: Job, share: Share, gbps: float | None = None) -> list[Pool]:
    """The pools of a plan; `gbps` is the bandwidth of every node in Gbit/s, if it is known."""
    chief, others = share.accelerator(0), share.accelerator(-1)
    return merged_pools(
        [
            Pool(role="worker", count=1, accelerator=chief, gbps=gbps),
            Pool(role="worker", count=job.workers.count - 1, accelerator=others, gbps=gbps),
            Pool(role="reducer", count=reducer_count(job), gbps=gbps),
            *(
                Pool(
                    role=name,
                    count=r.count,
                    accelerator=_shown(share.role_gpus[name][0]),
                    gbps=gbps,
                )
                for name, r in job.roles.items()
            ),
        ]
    )


def script_env(job: Job, share: Share) -> dict[str, Optional[str]]:
    """A worker's own variables; None for a secret, which travels outside the request."""
    threads: dict[str, Optional[str]] = {"OMP_NUM_THREADS": str(share.threads)}
    comm = comm_env(job, bool(reducer_count(job)))
    watched = {**stall_env(job), **profile_env(job), **checks_env(job)}
    return {**threads, **user_env(job), **comm, **watched, **grace_env(job)}


def identity_env(
    job: Job, run: str, target: str, replica: Replica, interface: str, address: str | None = None
) -> dict[str, Optional[str]]:
    """The variables that identify a replica and its peers, and the secrets that these share.

    The peers are at `address`, or at their names. `rsctl-launch` reads `RSCTL_CLUSTER`.
    """

    def hosts(role: str) -> list[str]:
        return [address or name for name in names(job, role)]

    contract: dict[str, Any] = {"role": replica.role, "index": replica.index}
    contract |= {"workers": hosts("worker"), "reducers": hosts("reducer")}
    launched = [name for name in job.roles if role_job(job, name).run.is_launched]
    if launched:
        contract["roles"] = {name: hosts(name) for name in launched}
    is_other = replica.role in job.roles
    return {
        "RSCTL_RUN": run,
        "RSCTL_TARGET": target,
        "RSCTL_ROLE": replica.role,
        "RSCTL_REPLICA": replica.name,
        **({} if is_other else reducers_env(job, bool(reducer_count(job)))),
        "RSCTL_CLUSTER": json.dumps({**contract, "interface": interface}),
    }
