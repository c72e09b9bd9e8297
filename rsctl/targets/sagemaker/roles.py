"""Limits of a job's own roles on SageMaker, where each is an instance group. Pure.

All machines of a job have one image, one Environment and volumes of one size, and it has ended when
all of its containers have. Sources: CreateTrainingJob, and the Developer Guide's pages
train-heterogeneous-cluster and your-algorithms-training-algo-dockerfile.
"""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, error, note
from rsctl.job.job import Job
from rsctl.job.secret_names import is_secret_variable
from rsctl.targets.launch_command import unlaunched
from rsctl.targets.sagemaker.machines import ResolvedPools

_LAUNCHER = "run.launcher"
_ONE_IMAGE = "build one image for all of them (image.python, image.apt), or use another target"


def stopped_roles(job: Job) -> list[str]:
    """The roles whose nodes rsctl-launch stops when the workers have ended."""
    if not job.run.is_launched:
        return []
    return [name for name, role in job.roles.items() if role.ends == "with-workers"]


def role_checks(resolved: ResolvedPools) -> Iterator[Finding]:
    """Findings on settings that roles cannot have separately."""
    yield from _toolkit(resolved.job)
    for name in resolved.job.roles:
        yield from _of_its_own(resolved.job, name)
        yield from _end(resolved.job, name)
        yield from _processors(resolved, name)


def _toolkit(job: Job) -> Iterator[Finding]:
    """AWS's guide and version 2 of its SDK take instance groups with MPI and smddp only. The
    toolkit, sagemaker-training 5.1.4, reads `sagemaker_distribution_instance_groups` for torchrun
    too.
    """
    if job.roles and job.run.package is not None and job.run.launcher == "torchrun":
        message = "the image's toolkit starts torchrun on the workers and the program once on each "
        message += "node of a role, which AWS documents for MPI and smddp only"
        yield note("package", message, "try a short job first, or set run.launcher: mpi", _LAUNCHER)


def _of_its_own(job: Job, name: str) -> Iterator[Finding]:
    role, path = job.roles[name], f"roles.{name}"
    if role.image is not None:
        message = "SageMaker starts all machines of a job from one image"
        yield error("unsupported", message, _ONE_IMAGE, f"{path}.image")
    if role.disk is not None:
        message = "SageMaker gives all machines of a job volumes of the same size"
        yield error("unsupported", message, "set workers.disk", f"{path}.disk")
    if not job.run.is_launched:
        for key in ("script", "module", "command", "args", "env"):
            if getattr(role, key):
                what, remedy = unlaunched(job)
                message = (
                    f"SageMaker gives all machines of a job the same {key}, and {what} does not "
                    "use rsctl-launch, which would give the role its own"
                )
                remedy += ", or let the script read its instance group"
                yield error("unsupported", message, remedy, f"{path}.{key}")
    for variable, value in role.env.items():
        if value.secret or is_secret_variable(variable, value):
            message = (
                "SageMaker gives all machines of a job the same variables, so those of a role "
                "are passed as arguments, which are not safe for a secret"
            )
            remedy = f"move {variable} to run.env"
            yield error("secret", message, remedy, f"{path}.env.{variable}")


def _end(job: Job, name: str) -> Iterator[Finding]:
    """Without rsctl-launch, a role's nodes do not learn that the workers have ended."""
    if job.run.is_launched or job.roles[name].ends == "by-itself":
        return
    message = (
        f"SageMaker ends a job when all of its containers have ended, and {unlaunched(job)[0]} "
        "does not use rsctl-launch, which would stop the role's containers"
    )
    remedy = f"set roles.{name}.ends: by-itself, and make sure that its program ends"
    yield error("unsupported", message, remedy, f"roles.{name}.ends")


def _processors(resolved: ResolvedPools, name: str) -> Iterator[Finding]:
    machine, worker = resolved.roles.get(name), resolved.worker
    if machine is not None and worker is not None and machine.arm != worker.arm:
        message = f"{machine.name} and {worker.name} have different processors, but share one image"
        remedy = "use machine types with the same processors"
        yield error("arm", message, remedy, f"roles.{name}.machine")
