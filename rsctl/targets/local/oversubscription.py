"""The warning for a job with many more processes than this machine has cores. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, warning
from rsctl.job.job import Job
from rsctl.targets.base import Pool, count_of_role

_MOST_PER_CORE = 4


def oversubscription(job: Job, pools: list[Pool], world_size: int, cores: int) -> Iterator[Finding]:
    """A warning where more than four processes share a core, with the key to lower.

    Each rank is a separate Python with torch, about 300 MB, and all start at the same time.
    """
    workers, reducers = count_of_role(pools, "worker"), count_of_role(pools, "reducer")
    ranks = world_size if job.run.launcher in ("torchrun", "mpi") else workers
    roles = {name: role.count for name, role in job.roles.items()}
    if ranks + reducers + sum(roles.values()) <= _MOST_PER_CORE * cores:
        return
    key = _key_to_lower(ranks, workers, reducers, roles)
    counts = {"rank": ranks, "reducer": reducers, "node of roles": sum(roles.values())}
    *most, last = [_count(number, what) for what, number in counts.items() if number]
    yield warning(
        "oversubscription",
        f"{', '.join(most)}{' and ' if most else ''}{last} share the {_count(cores, 'core')} of "
        "this machine: the job starts slowly, needs memory for all of them, and may exceed its "
        "time-outs",
        f"for this run, lower {key}: --set {key}=1",
        key,
    )


def _key_to_lower(ranks: int, workers: int, reducers: int, roles: dict[str, int]) -> str:
    """The largest group of them."""
    if roles and max(roles.values()) > max(ranks, reducers):
        return f"roles.{max(roles, key=lambda name: roles[name])}.count"
    if reducers > ranks:
        return "reducers.count"
    return "workers.processes" if ranks // max(1, workers) >= workers else "workers.count"


def _count(number: int, what: str) -> str:
    first, *rest = what.split(" ")
    return " ".join([str(number), first if number == 1 else f"{first}s", *rest])
