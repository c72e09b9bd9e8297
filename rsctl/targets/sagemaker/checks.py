"""Checks of a job's limits, inputs and options against SageMaker's features. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, error, note, warning
from rsctl.images.package import is_packaged
from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.job.secret_names import is_secret_variable
from rsctl.job.units import Duration
from rsctl.targets.launch_command import unlaunched
from rsctl.targets.sagemaker.channels import PACKAGE
from rsctl.targets.sagemaker.input_modes import channel_mode, mode_findings
from rsctl.targets.sagemaker.long_arguments import NAME as ARGUMENTS
from rsctl.targets.sagemaker.machines import ResolvedPools
from rsctl.targets.sagemaker.options import SageMakerOptions, sagemaker_options
from rsctl.targets.sagemaker.quota_names import LONGEST_RUN_QUOTA, machines_quota
from rsctl.targets.sagemaker.request import (
    DEFAULT_SPOT_WAIT,
    DEFAULT_TIMEOUT,
    JOB_TAG,
    RUN_TAG,
    STOPPING_SECONDS,
)
from rsctl.targets.sagemaker.request_values import milliseconds
from rsctl.targets.sagemaker.resource_checks import resource_findings
from rsctl.targets.sagemaker.roles import role_checks
from rsctl.targets.stalls import cloud_stall_findings
from rsctl.targets.variables import secret_findings

_OPTIONS = "targets.sagemaker"
_DAY = 86_400
_USUAL_DAYS, _USUAL_MACHINES = 5, 20
_INTERVALS = (100, 200, 500, 1000, 5000, 60_000)  # milliseconds
_SECRETS = "keep it in AWS Secrets Manager, and let the script read it with the job's role"


def job_findings(resolved: ResolvedPools) -> Iterator[Finding]:
    """The findings about a job's limits, data and options."""
    yield from _limits(resolved)
    yield from _data(resolved)
    yield from secret_findings(resolved.job, _SECRETS)
    yield from _machines_together(resolved)
    yield from _quotas(resolved)
    if resolved.chief:
        yield from _chief(resolved.job)
    yield from role_checks(resolved)
    yield from _options(sagemaker_options(resolved.job))
    yield from _checkpoints(resolved.job)
    yield from _profiler(sagemaker_options(resolved.job))
    yield from resource_findings(resolved)


def _machines_together(resolved: ResolvedPools) -> Iterator[Finding]:
    job, options = resolved.job, sagemaker_options(resolved.job)
    if sum(count for _, _, count in resolved.groups) > 1 and options.security_groups:
        message = "the machines reach each other only if the security groups allow all "
        message += _traffic(resolved)
        yield note("network", message, None, f"{_OPTIONS}.security_groups")
    if options.keep_alive and len(resolved.groups) < 2 and not job.limits.spot:
        message = (
            f"SageMaker keeps the machines, and bills them, for up to {options.keep_alive} after "
            "the job, until another job uses them, only within a quota, which is 0 by default; "
            "neither the cost of the plan nor limits.cost includes that"
        )
        remedy = (
            "ask in Service Quotas for TYPE for training warm pool usage; to release the machines "
            "earlier, `aws sagemaker update-training-job --training-job-name RUN "
            "--resource-config KeepAlivePeriodInSeconds=0`"
        )
        yield note("quota", message, remedy, f"{_OPTIONS}.keep_alive")


def _quotas(resolved: ResolvedPools) -> Iterator[Finding]:
    """The defaults of quotas that are not of one machine type (Service Quotas, SageMaker)."""
    remedy = "`rsctl doctor JOB` shows your quota"
    if (resolved.job.limits.timeout or 0) > _USUAL_DAYS * _DAY:
        message = f"by default the quota '{LONGEST_RUN_QUOTA}' is {_USUAL_DAYS * _DAY} seconds, "
        yield note("quota", f"{message}{_USUAL_DAYS} days", remedy, "limits.timeout")
    machines = sum(count for _, _, count in resolved.groups)
    if machines > _USUAL_MACHINES:
        name = machines_quota(resolved.job)
        message = f"by default the quota '{name}' is {_USUAL_MACHINES}, and the job has {machines}"
        yield note("quota", message, remedy, "workers.count")


def _traffic(resolved: ResolvedPools) -> str:
    """The traffic that security groups must allow (data-parallel-use-api, train-encrypt)."""
    if any("EFA" in (machine.own_transport or "") for machine in resolved.machines):
        return "traffic within, in and out, which EFA needs"
    if sagemaker_options(resolved.job).encrypt_traffic:
        return "TCP within, and UDP 500 and protocol 50 (ESP), which encrypt_traffic needs"
    return "TCP within"


def _checkpoints(job: Job) -> Iterator[Finding]:
    path = sagemaker_options(job).checkpoint_path
    if path and not job.checkpoints:
        message = "it is the folder that is saved to checkpoints, and checkpoints is not set"
        remedy = "set checkpoints: s3://BUCKET/FOLDER"
        yield error("missing-key", message, remedy, f"{_OPTIONS}.checkpoint_path")


def _profiler(options: SageMakerOptions) -> Iterator[Finding]:
    """The intervals that AWS's documentation of ProfilerConfig lists."""
    profiler = options.profiler
    if profiler is None or isinstance(profiler, bool) or milliseconds(profiler) in _INTERVALS:
        return
    names = ", ".join(str(Duration(each / 1000)) for each in _INTERVALS)
    message = f"SageMaker's profiler does not support the interval {profiler}"
    yield error("unsupported", message, f"use one of {names}", f"{_OPTIONS}.profiler")


def _chief(job: Job) -> Iterator[Finding]:
    """All machines of a job have one ContainerArguments and one Environment."""
    if job.run.package is not None:
        message = "SageMaker's images start a package in the same way on all machines"
        yield error("unsupported", message, "use image.base and image.source instead", "chief")
    elif not job.run.is_launched:
        for key in (key for key in ("args", "env") if getattr(job.chief, key)):
            message = (
                f"SageMaker gives all machines of a job the same {key}, and {unlaunched(job)[0]} "
                "does not use rsctl-launch, which would give the chief its own"
            )
            remedy = "use launcher once, or let the script read SM_CURRENT_HOST"
            yield error("unsupported", message, remedy, f"chief.{key}")
    for name, value in job.chief.env.items():
        if value.secret or is_secret_variable(name, value):
            message = "SageMaker gives all machines of a job the same variables, so those of the "
            message += "chief are passed as arguments, which are not safe for a secret"
            yield error("secret", message, f"move {name} to run.env", f"chief.env.{name}")


def _options(options: SageMakerOptions) -> Iterator[Finding]:
    for key in (key for key in (RUN_TAG, JOB_TAG) if key in options.tags):
        message = f"rsctl sets {key} itself"
        yield error("tags", message, "use another key", f"{_OPTIONS}.tags.{key}")
    for name in options.hyperparameters:
        if name.startswith(ARGUMENTS):
            message = f"names that start with {ARGUMENTS} are reserved for rsctl"
            path = f"{_OPTIONS}.hyperparameters.{name}"
            yield error("hyperparameters", message, "use another name", path)
    if options.registry_credentials and options.registry_access == "Platform":
        message = "registry_credentials require a private registry, but registry_access is Platform"
        remedy = "set registry_access: Vpc, or remove it"
        yield error("image", message, remedy, f"{_OPTIONS}.registry_credentials")


def _limits(resolved: ResolvedPools) -> Iterator[Finding]:
    limits = resolved.job.limits
    if limits.timeout is None:
        message = f"SageMaker ends the job after {DEFAULT_TIMEOUT // _DAY} day, its default"
        yield note("timeout", message, "set limits.timeout", "limits")
    if limits.grace is not None:
        yield from _grace(resolved.job)
    yield from cloud_stall_findings(resolved.job, "SageMaker")
    if limits.keep is not None and not sagemaker_options(resolved.job).remote_debug:
        message = "SageMaker opens a shell on a kept node only if the job allows it from its start"
        yield warning("keep", message, f"set {_OPTIONS}.remote_debug: true", "limits.keep")
    if limits.restarts == "platform":
        message = "by default, SageMaker restarts a job only after an interruption of spot machines"
        yield note("restarts", message, None, "limits.restarts")
    if limits.most_restarts:
        yield warning(
            "retries",
            "SageMaker restarts a job only after an internal error of the service, never after a "
            "failure of the program",
            "let the pipeline submit the job again, with checkpoints",
            f"limits.{'retries' if limits.restarts is None else 'restarts'}",
        )
    if limits.spot:
        yield from _spot(resolved.job)
    elif limits.queue and resolved.worker and not resolved.worker.accelerators:
        yield error(
            "unsupported",
            "SageMaker limits the wait only for machines with accelerators and for spot machines",
            "remove limits.queue",
            "limits.queue",
        )


def _grace(job: Job) -> Iterator[Finding]:
    """SageMaker sends SIGTERM and, 120 s later, SIGKILL: StopTrainingJob, MaxRuntimeInSeconds and
    interruptions of spot machines alike.
    """
    path = "limits.grace"
    if not job.run.is_launched or job.run.package is not None:
        message = "limits.grace is not used: rsctl-launch is not in the container"
        yield note("unused", message, None, path)
    elif float(job.limits.grace or 0) > STOPPING_SECONDS:
        message = (
            f"SageMaker gives a job that is cancelled or interrupted {STOPPING_SECONDS:g} s; "
            "limits.grace applies before limits.timeout only"
        )
        yield note("grace", message, None, path)


def _spot(job: Job) -> Iterator[Finding]:
    if job.checkpoints is None:
        message = "without checkpoints, an interrupted spot job starts from the beginning"
        yield warning("spot", message, "set checkpoints: s3://BUCKET/FOLDER", "limits.spot")
    if job.limits.queue == 0:
        message = "SageMaker always limits the wait for spot machines"
        yield error("unsupported", message, "set limits.queue: 1d", "limits.queue")
    if job.limits.queue:
        total = Duration(float(job.limits.timeout or DEFAULT_TIMEOUT) + float(job.limits.queue))
        message = (
            f"SageMaker limits the waits and the running time together, to {total}; rsctl ends a "
            f"wait of more than {job.limits.queue}, but only while a command watches the job "
            "(submit, watch, logs -f, status --watch)"
        )
        yield note("queue", message, None, "limits.queue")
    if job.limits.queue is None:
        message = f"the job waits for spot machines for a total of {DEFAULT_SPOT_WAIT // _DAY} day"
        yield note("spot", message, "set limits.queue", "limits.spot")


def _data(resolved: ResolvedPools) -> Iterator[Finding]:
    job, options = resolved.job, sagemaker_options(resolved.job)
    for name in options.channels:
        if name not in job.inputs:
            message = f"there is no input {name!r}"
            yield error("inputs", message, "correct the name", f"{_OPTIONS}.channels.{name}")
    yield from _reserved_findings(job)
    taken = {name.upper(): name for name in job.inputs}
    for name in options.file_systems:
        if taken.setdefault(name.upper(), name) != name or name in job.inputs:
            message = f"{taken[name.upper()]} is the name of another input"
            path = f"{_OPTIONS}.file_systems.{name}"
            yield error("inputs", message, "rename one of the two", path)
    if options.file_systems and resolved.reducers and job.inputs:
        message = "reducers get the inputs too: with a file system, rsctl cannot exclude them"
        yield note("inputs", message, None, f"{_OPTIONS}.file_systems")
    for job_input in inputs_of(job, "sagemaker"):
        location = job_input.location
        if "." not in location.rpartition("/")[2] and not location.endswith("/"):
            message = (
                f"SageMaker reads every object whose name starts with {location}, also "
                "in other folders"
            )
            yield note("inputs", message, f"for a folder, write {location}/", job_input.key)
        if (channel_mode(job, job_input) or options.input_mode) == "Pipe":
            message = f"mode Pipe: {job_input.variable} with _0 at its end is the first pipe"
            yield note("inputs", message, None, job_input.key)
    yield from mode_findings(job)


def _reserved_findings(job: Job) -> Iterator[Finding]:
    """Check that no input has the name of the channel that rsctl adds for a package."""
    file_systems = sagemaker_options(job).file_systems
    sources = {"inputs": [*job.inputs], f"{_OPTIONS}.file_systems": [*file_systems]}
    for key, names in sources.items():
        if PACKAGE in names and is_packaged(job):
            message = f"the channel {PACKAGE} delivers image.source"
            yield error("inputs", message, "use another name", f"{key}.{PACKAGE}")
