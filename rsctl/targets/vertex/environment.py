"""The environment variables of a job's containers, and the paths of its data in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Optional

from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.node.platforms.vertex_pool_roles import POOL_ROLES, write_pool_roles
from rsctl.node.roles import AWAITED_ROLES
from rsctl.targets.inputs import InputPlan, input_env, mounted_input
from rsctl.targets.node_checks import checks_env
from rsctl.targets.profiles import profile_env
from rsctl.targets.stalls import stall_env
from rsctl.targets.variables import TOKEN, comm_env, grace_env, reducers_env, user_env
from rsctl.targets.vertex.options import vertex_options


def container_env(
    job: Job,
    run: str,
    has_own_reducers: bool,
    pool_roles: Mapping[str, str] = MappingProxyType({}),
    awaited: Sequence[str] = (),
    gbps: Optional[float] = None,
) -> dict[str, Optional[str]]:
    """The variables of every container, in all roles; None for a secret.

    All replicas of a pool share one environment, so rsctl-launch finds out which replica it is on.
    A vendor's container with `run.package` has the platform's own variables, such as AIP_MODEL_DIR,
    and only those of rsctl's that have no counterpart. `pool_roles` are the roles by the names of
    their worker pools, `awaited` the job's `awaited_roles`, `gbps` the bandwidth of each worker.
    """
    env = {**user_env(job), **comm_env(job, has_own_reducers), **stall_env(job)}
    env |= {**_soft_stop_env(job), **profile_env(job), **checks_env(job, gbps)}
    env |= input_env(input_plans(job))
    env |= {POOL_ROLES: write_pool_roles(pool_roles)} if pool_roles else {}
    if awaited and job.run.is_launched:
        env |= {AWAITED_ROLES: ",".join(awaited), TOKEN: None}
    if job.run.package is not None:
        at = job.checkpoints
        return {**env, "RSCTL_CHECKPOINT_DIR": mounted(at)} if at else env
    outputs = outputs_of(job, run)
    if outputs:
        env["RSCTL_OUTPUT_DIR"] = mounted(outputs)
        checkpoints = job.checkpoints or f"{outputs}/checkpoints"  # as Vertex AI's own variable has
        env["RSCTL_CHECKPOINT_DIR"] = mounted(checkpoints)
    elif job.checkpoints:
        env["RSCTL_CHECKPOINT_DIR"] = mounted(job.checkpoints)
    env |= {"RSCTL_RUN": run, "RSCTL_TARGET": "vertex"}
    if has_own_reducers:
        env["RSCTL_REDUCER_KIND"] = "rsctl"
    return env | reducers_env(job, has_own_reducers)


def _soft_stop_env(job: Job) -> dict[str, Optional[str]]:
    """Nodes ask their ranks to end before the time limit: Google documents no signal before it."""
    timeout, grace = job.limits.timeout, job.limits.grace
    if job.run.package is not None:
        return {}
    return grace_env(job, float(timeout) - float(grace) if timeout and grace else None)


def input_plans(job: Job) -> list[InputPlan]:
    """The inputs as the nodes get them."""
    by = "Vertex AI, with Cloud Storage FUSE"
    copied_from = "the bucket that Vertex AI mounts with Cloud Storage FUSE"
    return [
        mounted_input(given, mounted(given.location), by, copied_from)
        for given in inputs_of(job, "vertex")
    ]


def awaited_roles(job: Job) -> list[str]:
    """The other workers, and the roles that end by themselves: the chief's node waits for their
    nodes, both by rsctl-launch.
    """
    if not job.run.is_launched:
        return []
    roles = ["worker"] if job.workers.count > 1 else []
    return roles + [
        name for name, role in job.roles.items() if role.ends == "by-itself" and role.image is None
    ]


def outputs_of(job: Job, run: str) -> Optional[str]:
    """The location of results, as gs:// without a slash at its end; None if unset."""
    if job.outputs:
        return str(job.outputs).rstrip("/")
    staging = vertex_options(job).staging
    return f"{staging.rstrip('/')}/{run}/outputs" if staging else None


def mounted(location: str) -> str:
    """The path of a gs:// location in the containers: all buckets are mounted below /gcs."""
    return location.replace("gs://", "/gcs/", 1).rstrip("/")
