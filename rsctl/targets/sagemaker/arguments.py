"""The arguments of a job's containers, and the number of ranks per node. Pure."""

from __future__ import annotations

from rsctl.job.job import Job
from rsctl.targets.chief import chief_job
from rsctl.targets.launch_command import launch_arguments, script_arguments
from rsctl.targets.roles import role_job
from rsctl.targets.sagemaker.channels import CHIEF
from rsctl.targets.sagemaker.input_modes import input_plans
from rsctl.targets.sagemaker.long_arguments import ContainerArguments, encode_arguments


def container_arguments(job: Job) -> ContainerArguments:
    """With launcher none they are passed unchanged, because no program would read a file.

    All machines have one Environment, so variables of a chief or a role are arguments, too.
    """
    if job.run.package is not None:
        return ContainerArguments([], {})
    if not job.run.is_launched:
        return ContainerArguments(script_arguments(job), {})
    chief = chief_job(job)
    inputs = input_plans(job)
    own = {CHIEF: launch_arguments(chief, chief.workers.ranks, job.chief.env, inputs)}
    for name, role in job.roles.items():
        own[name] = launch_arguments(role_job(job, name), 1, role.env, inputs)
    return encode_arguments(launch_arguments(job, job.workers.ranks, inputs=inputs), own)
