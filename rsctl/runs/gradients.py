"""How the gradients of a stored run travel."""

from __future__ import annotations

from typing import Any

from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import Run, Store
from rsctl.stream.gradients import REDUCER, TRANSPORT, Gradients, Pool, gradients


def gradients_of(store: Store, run: Run) -> Gradients | None:
    """The figures of a run's transport, if its gradients go over reducers."""
    pools: list[dict[str, Any]] = run.plan.get("pools", [])
    workers = next((pool for pool in pools if pool["role"] == "worker"), {})
    # The plan has the cloud's bandwidth, and a rehearsal this machine's, which nobody knows.
    gbps = None if is_rehearsed(run.run) else workers.get("gbps")
    pool = Pool(workers.get("count", 0), run.plan.get("world_size", 0), gbps)
    return gradients(store.latest(run.run, TRANSPORT), store.latest(run.run, REDUCER), pool)
