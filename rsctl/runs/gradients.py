"""How the gradients of a stored run travel."""

from __future__ import annotations

from rsctl.runs.home import is_rehearsed
from rsctl.runs.pools import pool_of_role
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.gradients import REDUCER, TRANSPORT, GradientPool, Gradients, gradients


def gradients_of(store: Store, run: RunRecord) -> Gradients | None:
    """The statistics of a run's transport, if its gradients go over reducers."""
    workers, reducers = pool_of_role(run.plan, "worker"), pool_of_role(run.plan, "reducer")
    # The plan has the cloud's bandwidth, and a rehearsal this machine's, which is unknown.
    is_known = not is_rehearsed(run.run)
    pool = GradientPool(
        nodes=workers.get("count", 0),
        ranks=run.plan.get("world_size", 0),
        gbps=workers.get("gbps") if is_known else None,
        reducers=reducers.get("count", 0),
        reducer_gbps=reducers.get("gbps") if is_known else None,
    )
    return gradients(store.latest(run.run, TRANSPORT), store.latest(run.run, REDUCER), pool)
