"""The environment variables of a job's tasks. Pure."""

from __future__ import annotations

from typing import Optional

from rsctl.job.job import Job
from rsctl.targets.inputs import input_env
from rsctl.targets.node_checks import checks_env
from rsctl.targets.profiles import profile_env
from rsctl.targets.slurm.inputs import input_plans
from rsctl.targets.slurm.options import slurm_options
from rsctl.targets.slurm.pools import Step
from rsctl.targets.stalls import stall_env
from rsctl.targets.variables import (
    comm_env,
    grace_env,
    reducer_count,
    reducers_env,
    user_env,
)


def folder_of(job: Job, run: str) -> str:
    """The folder of a run on the cluster."""
    return f"{slurm_options(job).shared}/{run}"


def common_env(job: Job, run: str) -> dict[str, Optional[str]]:
    """The variables of all tasks but those of reducers, whose own come after them."""
    folder = folder_of(job, run)
    return {
        **grace_env(job),
        **stall_env(job),
        "RSCTL_RUN": run,
        "RSCTL_TARGET": "slurm",
        "RSCTL_OUTPUT_DIR": str(job.outputs or f"{folder}/outputs"),
        "RSCTL_CHECKPOINT_DIR": str(job.checkpoints or f"{folder}/outputs/checkpoints"),
    }


def step_env(job: Job, run: str, step: Step) -> dict[str, Optional[str]]:
    """The variables of a step's tasks beside the common ones; None for a secret."""
    has_reducers = bool(reducer_count(job))
    if step.role == "reducer":
        own: dict[str, Optional[str]] = {n: str(value) for n, value in job.reducers.env.items()}
        return {**own, **comm_env(job, has_reducers), **reducers_env(job, has_reducers)}
    env = {**user_env(step.job), **input_env(input_plans(step.job, run))}
    if step.role == "worker":
        env |= {**comm_env(job, has_reducers), **reducers_env(job, has_reducers)}
        env |= checks_env(job)
        env |= profile_env(job)
    return env
