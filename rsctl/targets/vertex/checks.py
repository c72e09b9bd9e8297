"""Checks of a job's image, launcher, disks, variables and quotas against Vertex AI. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, Optional

from rsctl.estimate.catalog import Machine
from rsctl.findings import Finding, RsctlError, error, note, warning
from rsctl.images.findings import image_findings
from rsctl.images.package import package_findings
from rsctl.images.python_package import python_package_findings
from rsctl.images.recipe import repository_of
from rsctl.images.registry.names import ImageRepository, parse_repository
from rsctl.job.job import Job, PerTarget
from rsctl.job.units import Accelerator, Size
from rsctl.job.yaml_tree import quoted
from rsctl.targets.launch_command import unlaunched
from rsctl.targets.variables import comm_env, secret_findings
from rsctl.targets.vertex.catalog import PREEMPTIBLE_CPUS, quotas_of, rules
from rsctl.targets.vertex.environment import awaited_roles, container_env
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.reducers import ReducerPool
from rsctl.targets.vertex.scheduling import strategy_of

_GB = 10**9
_SECRETS = "keep it in Secret Manager, and let the script read it with the job's service account"


def job_findings(job: Job) -> Iterator[Finding]:
    """The mistakes that do not depend on the job's machines."""
    yield from _image(job)
    yield from _launch(job)
    yield from _kept_shell(job)
    yield from _mounts(job)
    yield from _disk_names(job)


def _kept_shell(job: Job) -> Iterator[Finding]:
    if job.limits.keep is not None and not vertex_options(job).web_access:
        message = "Vertex AI opens a shell on a kept node only if the job allows it from its start"
        yield warning("keep", message, "set targets.vertex.web_access: true", "limits.keep")


def worker_findings(job: Job, reducers: Optional[ReducerPool]) -> Iterator[Finding]:
    """The mistakes in the workers of a job, or in the chief of a `chief_job`."""
    if job.comm.backend == "nccl" and not job.workers.accelerator:
        message, remedy = (
            "backend nccl needs GPUs, and workers.accelerator is not set",
            ("set comm.backend: gloo"),
        )
        yield error("comm", message, remedy, "comm.backend")
    yield from node_findings(job, reducers)


def node_findings(job: Job, reducers: Optional[ReducerPool]) -> Iterator[Finding]:
    """The mistakes in nodes of a job, in any role; `job` is the role's job."""
    yield from _disk(job)
    yield from secret_findings(job, _SECRETS)
    yield from _environment(job, reducers)


def disk_gb(size: Size) -> int:
    """A boot disk in the GB of the API, never less than requested."""
    return -(-int(size) // _GB)


def boot_disk(job: Job, role: str) -> Optional[str]:
    """The type of a role's boot disks; roles include `chief`, `workers` and `reducers`.

    A single type for all does not apply to reducers; the chief has the workers' type unless it has
    its own.
    """
    given = vertex_options(job).boot_disk
    if given is None or isinstance(given, str):
        return given
    return given.get(role) or (given.get("workers") if role == "chief" else None)


def _image(job: Job) -> Iterator[Finding]:
    yield from image_findings(job, "vertex")
    named = {f"roles.{name}.image": role.image for name, role in job.roles.items()}
    for path, image in ({"image.uri": job.image.uri} | named).items():
        yield from _registry(image or "", path)
    yield from package_findings(job, "vertex")
    yield from python_package_findings(job, "vertex")
    if not job.image.is_built:
        return
    try:
        repository = repository_of(job, "vertex")
    except RsctlError as problem:
        yield from problem.findings
        return
    if not repository:
        message = "target vertex needs a repository to push the image to"
        remedy = "set image.repository, such as us-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE"
        yield error("image", message, remedy, "image.repository")
    else:
        is_for_each = isinstance(job.image.repository, PerTarget)
        yield from _registry(repository, "image.repository" + ".vertex" * is_for_each)
        yield from _reach(job, repository)


def _registry(image: str, path: str) -> Iterator[Finding]:
    """Training pulls from Artifact Registry and Docker Hub, and a job has no key for a login to
    ECR.

    Source: Google, "Custom containers overview", and ContainerSpec in the reference of the API.
    """
    if ImageRepository(image.partition("/")[0].lower(), "").ecr:
        message = f"Vertex AI cannot pull {image} from a private registry of Amazon ECR"
        remedy = "copy the image to LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME"
        yield error("image", message, remedy, path)


def _reach(job: Job, repository: str) -> Iterator[Finding]:
    """Whether the image is pulled from another region than the job's."""
    own = parse_repository(repository).google
    region = vertex_options(job).first_region or ""
    near = (region, rules().multi_region(region))
    if own and near[1] and own.location not in near:
        yield warning(
            "image",
            f"the image is in {own.location}, but the job is in {region}: pulling it across "
            "regions is slower and billed",
            f"push it to {region} or {near[1]}; for several regions, write {{region}} in its name",
            "image.repository",
        )


def _launch(job: Job) -> Iterator[Finding]:
    yield from _python_package(job)
    if not job.run.is_launched and comm_env(job, False):
        what, remedy = unlaunched(job)
        message = f"comm: needs rsctl-launch, which {what} does not use"
        yield error("unsupported", message, remedy, "comm")
    if vertex_options(job).reservation is not None and not job.workers.accelerator:
        message = "reservations apply to workers with GPUs, and these have none"
        yield error("machine", message, "remove it", "targets.vertex.reservation")


def _python_package(job: Job) -> Iterator[Finding]:
    """Vertex AI runs one module of a package, once on each node."""
    run = job.run
    if run.package is None:
        return
    if run.script is not None:
        message = "Vertex AI runs a package's module, not a script"
        remedy = "use run.module, such as trainer.task for trainer/task.py"
        yield error("package", message, remedy, "run.script")
    if run.launcher in ("torchrun", "mpi"):
        message = "Vertex AI's container runs a package's module once on each node"
        remedy = "set run.launcher: none, and let the module start the other ranks of its node"
        yield error("package", message, remedy, "run.launcher")


def _disk(job: Job) -> Iterator[Finding]:
    if not job.outputs and not vertex_options(job).staging and job.run.is_launched:
        message = (
            "the results of the job have no location: they are lost when its machines are deleted"
        )
        remedy = "set outputs: gs://BUCKET/FOLDER, or targets.vertex.staging"
        yield error("outputs", message, remedy, "outputs")
    low, high = rules().disk_gb
    for key, wanted in (("workers.disk", job.workers.disk), ("reducers.disk", job.reducers.disk)):
        size = disk_gb(wanted) if wanted else low
        if not low <= size <= high:
            message = f"a boot disk must have from {low} to {high} GB, not {size}"
            yield error("disk", message, f"set {key}: {low}GB", key)


def _disk_names(job: Job) -> Iterator[Finding]:
    given = vertex_options(job).boot_disk
    known = ["chief", "workers", "reducers", *job.roles]
    for name in given if isinstance(given, dict) else ():
        if name not in known:
            message = f"the job has no role {quoted(name)}"
            path = f"targets.vertex.boot_disk.{name}"
            yield error("disk", message, f"use one of: {', '.join(known)}", path)


def _mounts(job: Job) -> Iterator[Finding]:
    for key, mounts in (("nfs", vertex_options(job).nfs), ("lustre", vertex_options(job).lustre)):
        for name in mounts:
            if "/" in name or name in (".", ".."):
                message = f"{quoted(name)} must be a single folder below /mnt/{key}"
                path = f"targets.vertex.{key}.{name}"
                yield error("mount", message, "write a name without '/'", path)
    for name, mount in vertex_options(job).nfs.items():
        if not mount.path.startswith("/"):
            path = f"targets.vertex.nfs.{name}.path"
            yield error(
                "mount", f"{quoted(mount.path)} is not an absolute path", "start it with '/'", path
            )


def _environment(job: Job, reducers: Optional[ReducerPool]) -> Iterator[Finding]:
    has_own = reducers is not None and reducers.kind == "rsctl"
    count = len(container_env(job, "run", has_own, awaited=awaited_roles(job)))
    for key, variables in (("run.env", job.run.env), ("reducers.env", job.reducers.env)):
        for name in (name for name in rules().own_env if name in variables):
            message = f"Vertex AI sets {name} itself, to identify a replica"
            yield error("env", message, "use another name", f"{key}.{name}")
    if count > rules().most_env:
        yield error(
            "env",
            f"a container has at most {rules().most_env} variables, but these are {count}: "
            f"{len(job.run.env)} from run.env and {count - len(job.run.env)} from rsctl",
            "move some of them to a file in the image",
            "run.env",
        )


class QuotaPool(NamedTuple):
    """Nodes that count against quotas: the key of their number, and their machine."""

    key: str
    nodes: int
    machine: Machine
    accelerator: Optional[Accelerator] = None


def quota_findings(job: Job, pools: list[QuotaPool]) -> Iterator[Finding]:
    """A usage beyond a project's default quota."""
    region = vertex_options(job).first_region or ""
    is_preemptible = strategy_of(job) in ("SPOT", "FLEX_START")
    wanted: Counter[str] = Counter()
    by_quota: dict[str, list[QuotaPool]] = {}
    for pool in pools:
        own = quotas_of(pool.machine, pool.accelerator, pool.nodes, is_preemptible)
        wanted += own
        for quota in own:
            by_quota.setdefault(quota, []).append(pool)
    for quota, counted in by_quota.items():
        usual = rules().default_quota(quota, region)
        if usual is None or wanted[quota] <= usual:
            continue
        machines = " and ".join(f"{pool.nodes} x {pool.machine.name}" for pool in counted)
        have = f"{machines} have {wanted[quota]} vCPUs"
        key = counted[-1].key
        if quota == PREEMPTIBLE_CPUS:
            message = f"{have}, which count toward {quota}; known projects have {usual} of it"
            yield note("quota", message, "`rsctl doctor JOB` shows your quota", key)
            continue
        yield warning(
            "quota",
            f"{have}, and by default a project can use {usual} of this kind in {region}",
            f"make sure that your quota {quota} is larger, or use another region",
            key,
        )
