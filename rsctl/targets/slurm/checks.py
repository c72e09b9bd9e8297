"""The findings about a job on Slurm, as far as its file shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from rsctl.findings import Finding, error, note, warning
from rsctl.images.findings import search_path_notes
from rsctl.images.package import Package, package_notes
from rsctl.job.job import Job
from rsctl.job.values import value_on
from rsctl.targets.chief import rank_findings
from rsctl.targets.slurm.directives import LONGEST_GRACE, grace_of
from rsctl.targets.slurm.info import INFO
from rsctl.targets.slurm.options import SlurmOptions, slurm_options
from rsctl.targets.slurm.payload import size_findings
from rsctl.targets.slurm.pools import Allocation, pool_findings
from rsctl.targets.stalls import cloud_stall_findings
from rsctl.targets.variables import comm_env, reducer_count, tls_findings

_MONTH = 30 * 86400.0

_BATCH_KEYS: Mapping[str, str] = {
    **dict.fromkeys(("p", "partition"), "targets.slurm.partition"),
    **dict.fromkeys(("A", "account"), "targets.slurm.account"),
    **dict.fromkeys(("q", "qos"), "targets.slurm.qos"),
    "reservation": "targets.slurm.reservation",
    **dict.fromkeys(("C", "constraint"), "targets.slurm.constraint"),
    **dict.fromkeys(("x", "exclude"), "targets.slurm.exclude"),
    "exclusive": "targets.slurm.exclusive",
    **dict.fromkeys(("c", "cpus-per-task"), "targets.slurm.cpus"),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), "targets.slurm.memory"),
    **dict.fromkeys(("G", "gpus", "gpus-per-node", "gpus-per-task", "gres"), "workers.accelerator"),
    "switches": "targets.slurm.switches",
    "segment": "targets.slurm.segment",
    **dict.fromkeys(("L", "licenses"), "targets.slurm.licenses"),
    **dict.fromkeys(("t", "time"), "limits.timeout"),
    **dict.fromkeys(("requeue", "no-requeue"), "targets.slurm.requeue"),
    "signal": "limits.grace",
    **dict.fromkeys(("N", "nodes"), "workers.count"),
}
"""Options of sbatch that a key sets."""

_BATCH_OWN = frozenset(
    {
        *("batch", "comment", "D", "chdir", "e", "error", "export", "export-file", "H"),
        *("hold", "het-group", "i", "input", "J", "job-name", "k", "no-kill"),
        *("kill-on-invalid-dep", "mpi", "n", "ntasks", "ntasks-per-node", "ntasks-per-gpu"),
        *("ntasks-per-socket", "o", "output", "open-mode", "parsable", "Q", "quiet"),
        *("test-only", "uid", "gid", "v", "verbose", "V", "version", "W", "wait", "wrap"),
        *("h", "help", "usage", "get-user-env", "propagate", "ignore-pbs", "M", "clusters"),
    }
)
"""Options of sbatch that rsctl needs for itself, or by which it would not find the job again."""

_NO_ARRAY = (
    "the cells of a bench are jobs of their own, and not a job array: all tasks of an array have "
    "one script, the same nodes and the same options, MaxArraySize limits their number, and a task "
    "that lost its node could not run again without that node"
)

_STEP_OWN = frozenset(
    {
        *("label", "l", "n", "ntasks", "N", "nodes", "w", "nodelist", "x", "exclude", "o"),
        *("output", "e", "error", "i", "input", "u", "unbuffered", "K", "kill-on-bad-exit"),
        *("het-group", "overlap", "J", "job-name", "jobid", "s", "overcommit"),
        *("multi-prog", "D", "chdir", "export", "container", "container-image"),
        *("container-mounts", "container-name", "container-workdir", "no-shell", "pty"),
        *("r", "relative", "t", "time", "m", "distribution", "ntasks-per-node"),
        *("auto-resume", "bcast", "T", "threads", "task-prolog", "X", "disable-status"),
        *("Z", "no-allocate", "test-only", "p", "partition", "A", "account", "q", "qos"),
    }
)
"""Options of srun that rsctl sets, or that would start the tasks otherwise than it expects."""


def job_findings(job: Job, allocation: Allocation, package: Package) -> Iterator[Finding]:
    """All findings about a job."""
    options = slurm_options(job)
    yield from _shared_findings(options)
    yield from _time_findings(job)
    yield from _raw_findings(options)
    yield from _accelerator_findings(job, options, allocation)
    yield from _container_findings(job, options)
    yield from pool_findings(job)
    yield from _comm_findings(job, allocation)
    yield from package_notes(package)
    if options.container == "none" or job.image.uri:  # otherwise the image's findings have it
        yield from search_path_notes(job)
    yield from size_findings(package)


def _shared_findings(options: SlurmOptions) -> Iterator[Finding]:
    if options.shared is None:
        message = "a job needs a folder that all nodes of the cluster see"
        remedy = "set targets.slurm.shared: /PATH, your folder on the shared file system"
        yield error("shared", message, remedy, "targets.slurm.shared")
    elif any(part in ("", ".", "..") for part in options.shared[1:].split("/")):
        message = f"{options.shared} is not the shortest path of the folder"
        remedy = "remove `.`, `..` and double slashes, and the slash at the end"
        yield error("shared", message, remedy, "targets.slurm.shared")


def _time_findings(job: Job) -> Iterator[Finding]:
    limit = job.limits.timeout
    if limit is None:
        message = (
            "Slurm plans by the time limits of jobs: without one the partition's default ends the "
            "job, or the job waits longer than it needs to"
        )
        yield error("time-limit", message, "set limits.timeout, such as 2h", "limits.timeout")
        return
    if limit > _MONTH:
        message = f"a time limit of {limit} is above that of most partitions"
        remedy = "`sinfo -o '%P %l'` shows the limits; a job above its partition's may wait forever"
        yield warning("time-limit", message, remedy, "limits.timeout")
    if limit % 60:
        message = "Slurm counts time limits in minutes: it is rounded up"
        yield note("time-limit", message, None, "limits.timeout")
    if limit <= grace_of(job):
        message = (
            "the ranks get no signal before the time limit, because limits.timeout is not longer "
            "than limits.grace, whose default is 2m"
        )
        yield note("grace", message, "set a shorter limits.grace", "limits.grace")
    elif grace_of(job) > LONGEST_GRACE:
        message = f"sbatch signals at most {LONGEST_GRACE} s (18h12m) before the time limit"
        yield error("grace", message, "set limits.grace: 18h, or less", "limits.grace")
    yield from cloud_stall_findings(job, "Slurm")


def _raw_findings(options: SlurmOptions) -> Iterator[Finding]:
    """Errors for raw options that rsctl sets itself."""
    for number, option in enumerate(options.sbatch):
        path = f"targets.slurm.sbatch[{number}]"
        name = _name(option, [*_BATCH_KEYS, *_BATCH_OWN, "a", "array"])
        if name == "gres" and not _asks_for_gpus(option):
            continue
        if name in _BATCH_KEYS:
            message = f"{_shown(name)} of sbatch has a key"
            yield error("sbatch", message, f"set {_BATCH_KEYS[name]} instead", path)
        elif name in ("a", "array"):
            yield error(
                "sbatch", _NO_ARRAY, "use `matrix` and `rsctl bench run --parallel N`", path
            )
        elif name in _BATCH_OWN:
            message = f"rsctl sets {_shown(name)} of sbatch itself, or needs its default"
            yield error("sbatch", message, "remove it", path)
    for number, option in enumerate(options.srun):
        name, path = _name(option, _STEP_OWN), f"targets.slurm.srun[{number}]"
        if name in _STEP_OWN:
            message = f"rsctl sets {_shown(name)} of srun itself, or needs its default"
            yield error("srun", message, "remove it", path)


def _name(option: str, known: Collection[str]) -> str:
    """The name of --NAME=VALUE. Slurm takes the beginning of a name, too, and -NVALUE for -N."""
    if not option.startswith("--"):
        return option[1]
    name = option[2:].partition("=")[0]
    return name if name in known else min((k for k in known if k.startswith(name)), default=name)


def _asks_for_gpus(option: str) -> bool:
    """Whether a --gres asks for GPUs, and not only for other resources, such as local disks."""
    return any(re.match(r"(gpu)?(:|$)", each) for each in option.partition("=")[2].split(","))


def _shown(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _accelerator_findings(
    job: Job, options: SlurmOptions, allocation: Allocation
) -> Iterator[Finding]:
    """A note if no option limits a job to nodes with the GPUs that it names, a warning if it has a
    type of GPUs and no GPUs.
    """
    if options.gpu_type and not any(component.gpus for component in allocation.components):
        message = "the job asks for no GPUs, so that their type is not used"
        remedy = f"set workers.accelerator, such as {options.gpu_type}:8"
        yield warning("unused", message, remedy, "targets.slurm.gpu_type")
    limits = (options.gpu_type, options.partition, options.constraint, options.reservation)
    machine = value_on(job.workers.machine, INFO.name)
    is_limited = any(limits) or machine not in (None, "auto")
    is_limited |= any(_name(each, ["nodelist"]) in ("nodelist", "w") for each in options.sbatch)
    if job.workers.accelerator and not is_limited:
        message = (
            f"Slurm may give the job other GPUs than {job.workers.accelerator.type}, because "
            "clusters have their own names of GPUs, partitions and features"
        )
        remedy = (
            "set targets.slurm.gpu_type, partition or constraint; `sinfo -o '%P %G %f'` lists them"
        )
        yield note("accelerator", message, remedy, "workers.accelerator")


def _container_findings(job: Job, options: SlurmOptions) -> Iterator[Finding]:
    image = job.image
    if options.container == "none":
        names = ("uri", "base", "dockerfile", "env", "run", "python", "secrets", "apt")
        remedy = "set targets.slurm.container, or prepare the environment in targets.slurm.setup"
        for name in (*names, "transport", "repository", "platform"):
            if getattr(image, name) and (name, image.transport) != ("transport", "auto"):
                message = "target slurm uses this only with targets.slurm.container"
                yield note("unused", message, remedy, f"image.{name}")
    elif not (image.uri or image.base or image.dockerfile):
        message = f"targets.slurm.container: {options.container} needs an image"
        yield error("image", message, "set image.uri or image.base", "targets.slurm.container")
    elif image.is_built and not value_on(image.repository, INFO.name):
        message = "the nodes pull the image from a registry, and rsctl builds it on this machine"
        remedy = "set image.repository to a repository that the nodes can read"
        yield error("image", message, remedy, "image.repository")
    if options.container != "none" and image.uri and "@sha256:" not in image.uri:
        message = "an image by tag is converted again for each run"
        remedy = "name it by its digest, as in NAME@sha256:…: then it is converted once"
        yield note("image", message, remedy, "image.uri")
    for name, role in job.roles.items():
        if role.image is not None:
            message = "target slurm starts all replicas from one image or from none"
            remedy = "remove it, or use another target"
            yield error("unsupported", message, remedy, f"roles.{name}.image")


def _comm_findings(job: Job, allocation: Allocation) -> Iterator[Finding]:
    reducers = reducer_count(job)
    yield from tls_findings(job, bool(reducers))
    ranks = [step.processes for step in allocation.steps if step.role == "worker"]
    yield from rank_findings(job, ranks[0], ranks[-1], bool(reducers))
    if job.run.launcher == "none" and comm_env(job, False):
        message = "comm: needs rsctl-launch, which launcher none does not use"
        yield error("unsupported", message, "use launcher torchrun or once", "comm")
    if job.comm.backend == "rsctl" and not reducers:
        message = "backend rsctl needs reducers"
        yield error("comm", message, "set reducers.count", "comm.backend")
    if job.comm.backend == "nccl" and job.workers.accelerator is None:
        message = "backend nccl needs GPUs, and the workers have none"
        yield error("comm", message, "set comm.backend: gloo", "comm.backend")
