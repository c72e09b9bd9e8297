"""Checks of how gradients travel on SageMaker: `comm`, `reducers`, `image.transport`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from rsctl.findings import Finding, RsctlError, error, note, warning
from rsctl.images.registry.names import Kind
from rsctl.images.transport import choose_transport
from rsctl.job.job import Job
from rsctl.targets.chief import chief_job, gpu_findings, rank_findings
from rsctl.targets.launch_command import unlaunched
from rsctl.targets.managed.image_names import image_name_findings
from rsctl.targets.reducer_loss import reducer_loss_findings
from rsctl.targets.sagemaker.account import uri_repository
from rsctl.targets.sagemaker.machines import ResolvedPools
from rsctl.targets.sagemaker.neuron import neuron_findings
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.toolkit import framework_findings, starts_smddp
from rsctl.targets.variables import comm_env, tls_findings

_SMDDP_MACHINES = ("ml.p4d.24xlarge", "ml.p4de.24xlarge")
_SMDDP_V1_MACHINES = ("ml.p3.16xlarge", "ml.p3dn.24xlarge")
_SMDDP_V1_LAST = (2, 0, 0)
"""The last PyTorch of SMDDP 1: 1.8.0 is for 2.0.0, 2.0.2 for 2.0.1 (its release notes)."""

_SMDDP_LAST = (2, 4)
_SMDDP_IMAGE = (
    "658645717510.dkr.ecr.REGION.amazonaws.com/smdistributed-modelparallel:2.4.1-gpu-py311-cu121"
)
_AWS_ACCOUNTS = frozenset({"763104351884", "658645717510"})
"""Patterns for AWS's deep-learning containers and for its model-parallel images."""


def comm_findings(resolved: ResolvedPools) -> Iterator[Finding]:
    """The combinations of `comm:`, `reducers:` and `image.transport` that do not work here."""
    job = resolved.job
    yield from tls_findings(job, bool(resolved.reducers))
    if not job.run.is_launched and (resolved.reducers or _is_left_out(job)):
        yield _without_launcher(resolved)
    elif resolved.reducers:
        yield from _reducer_findings(job)
        yield from reducer_loss_findings(job, "SageMaker")
    elif job.comm.backend == "rsctl":
        yield error("comm", "backend rsctl needs reducers", "set reducers.count", "comm.backend")
    if len(resolved.groups) > 1:
        yield from _group_findings(job)
    if resolved.chief:
        ranks = chief_job(job).workers.ranks, job.workers.ranks
        yield from rank_findings(job, *ranks, bool(resolved.reducers))
        yield from gpu_findings(job)
    yield from neuron_findings(resolved)
    yield from image_name_findings(job, resolved.worker, resolved.chief, resolved.roles)
    if job.comm.backend == "nccl":
        yield from _nccl_findings(job)
    if job.comm.backend == "smddp":
        yield from _smddp_findings(resolved)
    else:
        yield from framework_findings(job)


def _without_launcher(resolved: ResolvedPools) -> Finding:
    """Check for reducers or `comm:` in a job whose containers do not run rsctl-launch."""
    job = resolved.job
    what, remedy = unlaunched(job)
    if job.run.package is not None and job.comm.backend == "smddp":
        remedy = "set run.launcher: mpi, with which the image's smddp starts the job"
    message = f"reducers and comm: need rsctl-launch, which {what} does not use"
    return error("unsupported", message, remedy, "reducers.count" if resolved.reducers else "comm")


def _nccl_findings(job: Job) -> Iterator[Finding]:
    """NCCL needs GPUs on all workers, the chief too."""
    accelerators = {
        "workers": job.workers.accelerator,
        "chief": chief_job(job).workers.accelerator,
    }
    without = [name for name, accelerator in accelerators.items() if not accelerator]
    if without:
        message = f"backend nccl needs GPUs, and {without[0]}.accelerator names none"
        yield error(
            "comm", message, "set comm.backend: gloo, or set an accelerator", "comm.backend"
        )
    neuron = [each for each in accelerators.values() if each and each.is_neuron]
    if neuron:
        message = f"backend nccl needs NVIDIA's GPUs, but workers.accelerator is {neuron[0]}"
        yield error("comm", message, "set comm.backend: auto", "comm.backend")


def _is_left_out(job: Job) -> bool:
    """Whether nothing in the container would read `comm:`."""
    backend = "auto" if starts_smddp(job) else job.comm.backend
    return bool(comm_env(replace(job, comm=replace(job.comm, backend=backend)), False))


def _reducer_findings(job: Job) -> Iterator[Finding]:
    path = "reducers.count"
    if job.workers.count == 1:
        message = "reducers need at least two workers: one alone has no gradient to exchange"
        yield error("reducers", message, "set reducers.count: 0, or workers.count: 2", path)
        return
    transport = "rsctl" if job.image.uri else choose_transport(job, "sagemaker").transport
    if transport != "rsctl" and job.comm.backend != "smddp":
        message = f"image.transport {transport} does not use reducers"
        remedy = "set image.transport: auto, or reducers.count: 0"
        yield error("reducers", message, remedy, "image.transport")
    if job.comm.backend in ("nccl", "gloo"):
        message = f"backend {job.comm.backend} does not use reducers"
        yield error("comm", message, "set comm.backend: auto", "comm.backend")


def _group_findings(job: Job) -> Iterator[Finding]:
    """Combinations with several groups of machines that AWS does not document."""
    if job.limits.spot:
        yield warning(
            "spot",
            (
                "AWS does not document whether spot machines are available in groups, which "
                "this job needs"
            ),
            "try a short job first, or set limits.spot: false",
            "limits.spot",
        )
    if sagemaker_options(job).training_plan:
        yield warning(
            "training-plan",
            (
                "AWS does not document whether a training plan supports groups of machines, and no "
                "plan has machines of several types"
            ),
            "try a short job first, or use the same machine type for all",
            "targets.sagemaker.training_plan",
        )


def _smddp_findings(resolved: ResolvedPools) -> Iterator[Finding]:
    """Release notes of the SMDDP library: 2.5.0 for PyTorch 2.4.1 is its last."""
    job, path = resolved.job, "comm.backend"
    if resolved.reducers:
        message = "smddp sums on the workers' own CPUs, and does not use reducers"
        yield error("comm", message, "set reducers.count: 0", path)
    image = job.image.uri or job.image.base
    workers = [machine.name for machine in (resolved.chief, resolved.worker) if machine]
    for name in dict.fromkeys(workers):
        if name not in _SMDDP_MACHINES:
            yield from _smddp_machine_findings(name, image or "", path)
    if image:
        yield from _smddp_image_findings(image, path)


def _smddp_machine_findings(machine: str, image: str, path: str) -> Iterator[Finding]:
    """Version 1 of the library also supports p3; later versions support only all-reduce on p3dn."""
    version = _version(image)
    remedy = "set comm.backend: auto, or use one of these machines"
    if machine in _SMDDP_V1_MACHINES and version is not None and version <= _SMDDP_V1_LAST:
        return
    if machine == "ml.p3dn.24xlarge":
        message = f"AWS develops smddp for {' and '.join(_SMDDP_MACHINES)}, and no longer for p3dn"
        yield warning("comm", message, "compare it with comm.backend: auto", path)
        return
    message = f"smddp works on {' and '.join(_SMDDP_MACHINES)}, not on {machine}"
    if machine in _SMDDP_V1_MACHINES:
        message += " with images of PyTorch after 2.0.0"
        if version is None:
            yield warning("comm", f"{message}; the image's name contains no version", remedy, path)
            return
    yield error("comm", message, remedy, path)


def _version(image: str) -> tuple[int, ...] | None:
    """PyTorch's version in the tag of an AWS image."""
    match = re.search(r":v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", image.rpartition("/")[2])
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _smddp_image_findings(image: str, path: str) -> Iterator[Finding]:
    try:
        repository = uri_repository(image)
    except RsctlError as problem:
        yield from problem.findings
        return
    is_aws = repository.kind is Kind.ECR_PUBLIC or (
        repository.ecr is not None and repository.ecr.account in _AWS_ACCOUNTS
    )
    remedy = f"build on {_SMDDP_IMAGE}, or set comm.backend: auto"
    if is_aws:
        version = _version(image)
        if "tensorflow" in image.rpartition("/")[2]:
            message = f"{image} contains TensorFlow, but comm.backend applies to PyTorch"
            yield error("comm", message, remedy, path)
        elif version and version[:2] > _SMDDP_LAST:
            message = (
                f"{image} has PyTorch {version[0]}.{version[1]}, but smddp supports PyTorch up to "
                "2.4"
            )
            yield error("comm", message, remedy, path)
        elif not version:
            message = (
                f"AWS's images contain smddp up to PyTorch 2.4; the name of {image} "
                "contains no version"
            )
            yield warning("comm", message, remedy, path)
    elif repository.ecr is not None:
        message = f"only AWS's own images contain smddp; check that {image} is based on one"
        yield note("comm", message, None, path)
    else:
        message = f"only AWS's own images contain smddp, and {image} is not one of them"
        yield error("comm", message, remedy, path)
