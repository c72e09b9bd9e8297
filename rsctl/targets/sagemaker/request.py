"""The body of CreateTrainingJob for a job. Pure, without AWS's libraries.

If all nodes are equal workers, it has InstanceType and InstanceCount, so that warm pools work. With
reducers, roles or a different chief it is a heterogeneous cluster of the groups `chief`, `workers`,
`reducers` and one for each role, by its name, which run the same image. It leaves out fields that
the spec does not set, except `DEFAULT_TIMEOUT`, the volume that machines without disks must have,
and the location of outputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from rsctl.findings import Finding
from rsctl.images.package import Package
from rsctl.job.job import Job
from rsctl.node.roles import STOPPED_ROLES
from rsctl.targets.node_checks import checks_env
from rsctl.targets.profiles import profile_env
from rsctl.targets.sagemaker.arguments import container_arguments
from rsctl.targets.sagemaker.channels import PACKAGE_PATH, channels, input_env
from rsctl.targets.sagemaker.estimator_contract import estimator_hyperparameters
from rsctl.targets.sagemaker.long_arguments import ContainerArguments
from rsctl.targets.sagemaker.machines import ResolvedPools
from rsctl.targets.sagemaker.metric_definitions import metric_definitions
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.request_values import milliseconds, whole_seconds, without_empty
from rsctl.targets.sagemaker.resources import resource_config
from rsctl.targets.sagemaker.roles import stopped_roles
from rsctl.targets.sagemaker.tracking import experiment_of
from rsctl.targets.stalls import stall_env
from rsctl.targets.variables import TOKEN, comm_env, grace_env, reducers_env, user_env

DEFAULT_TIMEOUT = 86_400
"""Seconds that a job runs at most by default: SageMaker's own, a day."""

DEFAULT_SPOT_WAIT = 86_400
"""Total seconds that a spot job waits for capacity, unless its spec has another time."""

STOPPING_SECONDS = 120.0
"""Seconds between SIGTERM and SIGKILL for a job that is stopped (StoppingCondition in the API)."""

RUN_TAG = "rsctl:run"
"""The tag with the run's id, for finding its job."""

JOB_TAG = "rsctl:job"

OUTPUT_DIR = "/opt/ml/output/data"
CHECKPOINT_DIR = "/opt/ml/checkpoints"

Env = dict[str, Optional[str]]


class Rendered(NamedTuple):
    """A request's body, and the findings that came up on the way."""

    body: dict[str, Any]
    findings: list[Finding]


def render_body(
    resolved: ResolvedPools,
    run: str,
    image: str,
    package: Optional[Package] = None,
    python_package: str = "",
) -> Rendered:
    """The body for a run with an image.

    `package` is `image.source`, `python_package` the location of `run.package`.
    """
    job = resolved.job
    arguments = container_arguments(job)
    algorithm, findings = _algorithm(job, image, arguments, package)
    body: dict[str, Any] = {
        "TrainingJobName": run,
        "RoleArn": sagemaker_options(job).role,
        "AlgorithmSpecification": algorithm,
        "HyperParameters": {**sagemaker_options(job).hyperparameters, **arguments.hyperparameters},
        "Environment": environment(resolved, run),
        "InputDataConfig": channels(job, [name for name, _, _ in resolved.groups], package),
        "OutputDataConfig": _outputs(job, run),
        "CheckpointConfig": _checkpoints(job),
        "ResourceConfig": resource_config(resolved),
        "StoppingCondition": _stopping(resolved),
        "EnableManagedSpotTraining": job.limits.spot or None,
        "RetryStrategy": without_empty({"MaximumRetryAttempts": job.limits.most_restarts or None}),
        **_network(job),
        **_extras(job),
        "ProfilerConfig": _profiler(job, run),
        "ExperimentConfig": _experiment(job, run),
        "Tags": _tags(job, run),
    }
    if python_package:
        machine = body["ResourceConfig"].get("InstanceType")
        body["HyperParameters"] = estimator_hyperparameters(job, run, machine, python_package)
    return Rendered(without_empty(body), findings)


def environment(resolved: ResolvedPools, run: str) -> Env:
    """The variables for the script in every container; None for a secret, which a plan does not
    show.

    All machines share them, so they cannot identify a container: rsctl-launch finds out.
    """
    job, has_reducers = resolved.job, bool(resolved.reducers)
    if job.run.package is not None:  # the images' toolkit sets variables of its own
        return {**user_env(job)}
    env: Env = {**user_env(job), **comm_env(job, has_reducers), **stall_env(job)}
    machines = [machine for machine in (resolved.worker, resolved.chief) if machine]
    gbps = min(filter(None, (machine.gbps for machine in machines)), default=None)
    env |= {**_soft_stop_env(job), **profile_env(job), **checks_env(job, gbps)}
    env |= {"RSCTL_RUN": run, "RSCTL_TARGET": "sagemaker"}
    env |= input_env(job)
    env |= {"RSCTL_OUTPUT_DIR": OUTPUT_DIR, "RSCTL_CHECKPOINT_DIR": _checkpoint_dir(job)}
    if has_reducers:
        env["RSCTL_REDUCER_KIND"] = "rsctl"
    if stopped := stopped_roles(job):
        env |= {STOPPED_ROLES: ",".join(stopped), TOKEN: None}
    return env | reducers_env(job, has_reducers)


def _soft_stop_env(job: Job) -> Env:
    """SageMaker sends SIGTERM at its time limit, 120 s before SIGKILL; nodes that need more time
    ask their ranks to end by themselves before.
    """
    timeout, grace = job.limits.timeout, job.limits.grace
    if timeout is None or grace is None or float(grace) <= STOPPING_SECONDS:
        return grace_env(job)
    return grace_env(job, float(timeout) + STOPPING_SECONDS - float(grace))


def _checkpoint_dir(job: Job) -> str:
    """Without `checkpoints` SageMaker does not keep its folder for them, only the outputs."""
    if job.checkpoints is None:
        return f"{OUTPUT_DIR}/checkpoints"
    return sagemaker_options(job).checkpoint_path or CHECKPOINT_DIR


def _algorithm(
    job: Job, image: str, arguments: ContainerArguments, package: Optional[Package]
) -> tuple[dict[str, Any], list[Finding]]:
    options = sagemaker_options(job)
    definitions, findings = metric_definitions(job)
    credentials = {"TrainingRepositoryCredentialsProviderArn": options.registry_credentials}
    access = {
        "TrainingRepositoryAccessMode": options.registry_access,
        "TrainingRepositoryAuthConfig": without_empty(credentials),
    }
    algorithm = {
        "TrainingImage": image,
        "TrainingInputMode": options.input_mode,
        "ContainerEntrypoint": _entrypoint(job, package),
        "ContainerArguments": arguments.arguments,
        "MetricDefinitions": definitions,
        "EnableSageMakerMetricsTimeSeries": options.metrics_time_series,
        "TrainingImageConfig": without_empty(access) if options.registry_access == "Vpc" else None,
    }
    return without_empty(algorithm), findings


def _entrypoint(job: Job, package: Optional[Package]) -> list[str]:
    if not job.run.is_launched:
        return list(job.run.program or [])
    return package.command(PACKAGE_PATH) if package else ["rsctl-launch"]


def _outputs(job: Job, run: str) -> dict[str, Any]:
    options = sagemaker_options(job)
    staged = f"{options.staging.rstrip('/')}/{run}/outputs" if options.staging else None
    outputs = {
        "S3OutputPath": _text(job.outputs) or staged,
        "KmsKeyId": options.output_kms_key,
        "CompressionType": options.output_compression,
    }
    return without_empty(outputs)


def _checkpoints(job: Job) -> dict[str, Any]:
    if not job.checkpoints:
        return {}
    local = sagemaker_options(job).checkpoint_path
    return without_empty({"S3Uri": str(job.checkpoints), "LocalPath": local})


def _profiler(job: Job, run: str) -> dict[str, Any]:
    """The profiler's data goes to the location of outputs."""
    profiler = sagemaker_options(job).profiler
    if profiler is None or profiler is False:
        return {} if profiler is None else {"DisableProfiler": True}
    interval = (
        {} if profiler is True else {"ProfilingIntervalInMilliseconds": milliseconds(profiler)}
    )
    location = _outputs(job, run).get("S3OutputPath")
    return without_empty({"DisableProfiler": False, "S3OutputPath": location, **interval})


def _stopping(resolved: ResolvedPools) -> dict[str, Any]:
    """For spot, `limits.queue` is the wait for capacity beyond the job's running time."""
    limits = resolved.job.limits
    timeout = whole_seconds(limits.timeout) or DEFAULT_TIMEOUT
    queue = whole_seconds(limits.queue)
    stopping: dict[str, Any] = {"MaxRuntimeInSeconds": timeout}
    if limits.spot:
        stopping["MaxWaitTimeInSeconds"] = timeout + (queue or DEFAULT_SPOT_WAIT)
    elif queue:
        stopping["MaxPendingTimeInSeconds"] = queue
    return stopping


def _network(job: Job) -> dict[str, Any]:
    options = sagemaker_options(job)
    vpc = {"Subnets": list(options.subnets), "SecurityGroupIds": list(options.security_groups)}
    return {
        "VpcConfig": without_empty(vpc),
        "EnableNetworkIsolation": options.network_isolation or None,
        "EnableInterContainerTrafficEncryption": options.encrypt_traffic or None,
    }


def _extras(job: Job) -> dict[str, Any]:
    options = sagemaker_options(job)
    extras: dict[str, Any] = {
        "TensorBoardOutputConfig": without_empty({"S3OutputPath": options.tensorboard}),
        "InfraCheckConfig": without_empty({"EnableInfraCheck": options.infra_check or None}),
        "RemoteDebugConfig": without_empty({"EnableRemoteDebug": options.remote_debug or None}),
        "SessionChainingConfig": without_empty(
            {"EnableSessionTagChaining": options.session_tags or None}
        ),
    }
    if options.mlflow:
        extras["MlflowConfig"] = without_empty(
            {
                "MlflowResourceArn": options.mlflow.server,
                "MlflowExperimentName": options.mlflow.experiment,
                "MlflowRunName": options.mlflow.run,
            }
        )
    return extras


def _experiment(job: Job, run: str) -> dict[str, Any] | None:
    """The job's experiment; a tracker's experiment shows the job by the run ID."""
    options = sagemaker_options(job).experiment
    if options:
        return without_empty(
            {
                "ExperimentName": options.experiment,
                "TrialName": options.trial,
                "TrialComponentDisplayName": options.component,
                "RunName": options.run,
            }
        )
    tracked = experiment_of(job)
    return {"ExperimentName": tracked, "TrialComponentDisplayName": run} if tracked else None


def _tags(job: Job, run: str) -> list[dict[str, str]]:
    """The user's tags, then rsctl's, which identify the job."""
    own = {RUN_TAG: run, JOB_TAG: job.name}
    return [{"Key": k, "Value": v} for k, v in {**sagemaker_options(job).tags, **own}.items()]


def _text(location: str | None) -> str | None:
    return None if location is None else str(location)
