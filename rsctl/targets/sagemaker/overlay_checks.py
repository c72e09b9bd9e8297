"""Checks of what an overlay changes in a request: pools that the containers cannot run in. Pure.

The service would accept it, start the machines, and bill them until rsctl-launch has refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rsctl.findings import Finding, error, warning
from rsctl.job.units import Accelerator
from rsctl.targets.base import Pool
from rsctl.targets.sagemaker.channels import CHIEF, WORKERS
from rsctl.targets.sagemaker.machines import ResolvedPools
from rsctl.targets.sagemaker.pools import GROUPS
from rsctl.targets.sagemaker.spec_keys import OVERLAY


def patch_findings(
    before: dict[str, Any],
    body: dict[str, Any],
    resolved: ResolvedPools,
    pools: list[Pool],
    ranks: list[int],
) -> Iterator[Finding]:
    """`before` is the body without the patch; `pools` and `ranks` are those with it.

    `ranks` has the ranks on each node of the pools of workers.
    """
    if body.get("ResourceConfig") == before.get("ResourceConfig"):
        return
    for pool, each in zip(pools, ranks, strict=False):
        yield from _rank_findings(resolved, pool, each)
    if not resolved.job.run.is_launched:
        return
    groups = body["ResourceConfig"].get("InstanceGroups") or []
    names = [str(group["InstanceGroupName"]) for group in groups]
    known = [*GROUPS, *resolved.job.roles]
    if len(groups) > 1 and not ({WORKERS} <= set(names) <= set(known)):
        yield _strange_groups(names, known)
        return
    for name in (name for name in resolved.job.roles if name not in names):
        yield _wrong(f"the group {name} is missing", f"remove roles.{name} instead")
    if resolved.chief and CHIEF not in names:
        yield _wrong(f"the group {CHIEF} is missing", "remove the key chief instead")
    for group in groups:
        if not group["InstanceCount"]:
            name = group["InstanceGroupName"]
            yield _wrong(f"the group {name} has no machine", "set it to at least one")
    yield from _reducer_findings(resolved, pools)


def _strange_groups(names: list[str], known: list[str]) -> Finding:
    listed, allowed = (f"{', '.join(each[:-1])} and {each[-1]}" for each in (names, known))
    return _wrong(
        f"the instance groups are {listed}, and rsctl-launch supports only {allowed}: the "
        "containers would end immediately",
        "use these names, or set run.launcher: none for containers that read resourceconfig.json "
        "themselves",
    )


def _reducer_findings(resolved: ResolvedPools, pools: list[Pool]) -> Iterator[Finding]:
    """Check that a patch keeps reducers: only the environment enables them, and has their token."""
    count = sum(pool.count for pool in pools if pool.role == "reducer")
    if count and not resolved.reducers:
        noun = "reducer" if count == 1 else "reducers"
        text = f"the job has {count} {noun}, which its workers are not configured for"
        yield _wrong(text, "set reducers.count instead")
    if resolved.reducers and all(pool.role != "reducer" for pool in pools):
        text = "the job has no reducers, and its workers would wait for them"
        yield _wrong(text, "set reducers.count: 0 instead")


def _rank_findings(resolved: ResolvedPools, workers: Pool, ranks: int) -> Iterator[Finding]:
    """The number of ranks follows from the spec's accelerators, which a patch does not change."""
    if not resolved.job.workers.accelerator or not workers.accelerator:
        return
    if Accelerator(workers.accelerator).ranks_per_node < ranks:
        yield warning(
            "overlay",
            f"with this patch, workers are on {workers.machine}, which has "
            f"{workers.accelerator}, but the request starts {ranks} ranks on each",
            "set workers.machine and workers.accelerator instead, which determine the ranks",
            OVERLAY,
        )


def _wrong(text: str, remedy: str) -> Finding:
    return error("overlay", f"with this patch, {text}", remedy, OVERLAY)
