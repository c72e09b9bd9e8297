"""The program of a ModelTrainer in an image with a foreign entrypoint, as its `SourceCode`.

The SDK then uploads the source itself and starts it with its own programs, which also set the SM_*
variables. So source with `image.uri` does not need rsctl in the container, unless the job has
reducers or settings of `comm:`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from rsctl.findings import RsctlError
from rsctl.images.python_package import is_local
from rsctl.job.job import Job
from rsctl.targets.base import Plan, Submission
from rsctl.targets.chief import has_own_chief
from rsctl.targets.launch_command import ranks_in, user_command
from rsctl.targets.managed.sdk_calls import SdkCall, inexpressible
from rsctl.targets.sagemaker.channels import CHIEF
from rsctl.targets.sagemaker.long_arguments import decode_arguments
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.variables import comm_env

_TORCHRUN = (
    "torchrun --nnodes=$SM_HOST_COUNT --node_rank=$SM_CURRENT_HOST_RANK "
    "--master_addr=$SM_MASTER_ADDR --master_port=$SM_MASTER_PORT"
)
"""The SDK's own programs set these variables."""


def source_code(submission: Submission, body: dict[str, Any]) -> SdkCall | None:
    """The SourceCode of a request; None if the image starts the work by itself.

    Raises RsctlError for programs that only rsctl can start.
    """
    plan, job = submission.plan, submission.job
    algorithm = body["AlgorithmSpecification"]
    entry, arguments = algorithm.get("ContainerEntrypoint"), decode_arguments(body)
    if not job.image.uri and job.run.is_launched:
        return None  # an image built by rsctl, whose entrypoint reads its arguments
    if job.run.package is not None:
        return _of_folder(job, str(job.run.package)) if is_local(job) else None
    if submission.package is not None:
        return _of_source(plan, job, arguments)
    if entry:
        if decode_arguments(body, CHIEF) != arguments:
            raise _unsupported("arguments or variables of only the chief")
        if any(decode_arguments(body, role) != arguments for role in job.roles):
            raise _unsupported("programs of roles")
        return SdkCall("SourceCode", _started([*entry, *arguments]))
    if arguments:
        raise _unsupported("AlgorithmSpecification.ContainerArguments without ContainerEntrypoint")
    return None


def _of_source(plan: Plan, job: Job, arguments: list[str]) -> SdkCall:
    if needs := list(_ours(plan, job)):
        raise _unsupported(f"image.source beside image.uri with {' and '.join(needs)}")
    return _of_folder(job, str(job.image.source), ranks_in(arguments) or 1)


def _of_folder(job: Job, folder: str, ranks: int = 0) -> SdkCall:
    """A folder that the SDK uploads, and its program; by default a rank for each GPU."""
    if job.run.launcher == "mpi":
        raise _unsupported("run.launcher: mpi")
    own = [name for name in sagemaker_options(job).hyperparameters if name.startswith("sagemaker_")]
    if job.run.package is not None and own:  # the SDK's programs start it, not the image's toolkit
        raise _unsupported(f"HyperParameters.{own[0]}, which the image's toolkit reads")
    user, accelerator = user_command(job), job.workers.accelerator
    if job.run.launcher == "torchrun":
        ranks = ranks or (accelerator.ranks_per_node if accelerator else 1)
        command = f"{_TORCHRUN} --nproc_per_node={ranks}"
        command += " --no-python" if job.run.program is not None else ""
        # torchrun replaces ${local_rank} and $$ in arguments, but not in the name of a program.
        kept = user[:1] if job.run.program is not None else []
        escaped = [word.replace("$", "$$") for word in user[len(kept) :]]
        started = {"command": command, "args": [*kept, *escaped]}
    else:
        started = _started(user if job.run.program is not None else ["python3", *user])
    return SdkCall("SourceCode", {"source_dir": folder, **started})


def _ours(plan: Plan, job: Job) -> Iterator[str]:
    """The features that need rsctl's runtime in the containers."""
    if any(pool.role == "reducer" for pool in plan.pools):
        yield "reducers"
    if comm_env(job, False):
        yield "comm"
    if has_own_chief(job):
        yield "chief"
    if job.roles:
        yield "roles"


def _started(command: list[str]) -> dict[str, Any]:
    """The SDK splits `command` at spaces, and quotes `args` for the shell."""
    if shlex.quote(command[0]) != command[0]:
        command = ["env", *command]
    return {"command": command[0], **({"args": command[1:]} if command[1:] else {})}


def _unsupported(what: str) -> RsctlError:
    return inexpressible("ModelTrainer", [what])
