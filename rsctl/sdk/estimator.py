"""A job with `run.package` as a `sagemaker.pytorch.PyTorch`, of the SageMaker SDK version 2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rsctl.clients.staging import parse_staging
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.sdk.planned import AnyJob, inexpressible, planned
from rsctl.spec.job import Job
from rsctl.targets.managed.placeholders import resolve_placeholders
from rsctl.targets.sagemaker.arguments import ranks_of
from rsctl.targets.sagemaker.toolkit import starts_smddp
from rsctl.targets.variables import secret_values

_CLASS = "PyTorch"
_FIELDS = {
    "RoleArn": "role",
    "Environment": "environment",
    "AlgorithmSpecification.TrainingImage": "image_uri",
    "AlgorithmSpecification.TrainingInputMode": "input_mode",
    "AlgorithmSpecification.MetricDefinitions": "metric_definitions",
    "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries": "enable_sagemaker_metrics",
    "OutputDataConfig.S3OutputPath": "output_path",
    "OutputDataConfig.KmsKeyId": "output_kms_key",
    "CheckpointConfig.S3Uri": "checkpoint_s3_uri",
    "CheckpointConfig.LocalPath": "checkpoint_local_path",
    "ResourceConfig.InstanceType": "instance_type",
    "ResourceConfig.InstanceCount": "instance_count",
    "ResourceConfig.VolumeSizeInGB": "volume_size",
    "ResourceConfig.VolumeKmsKeyId": "volume_kms_key",
    "ResourceConfig.KeepAlivePeriodInSeconds": "keep_alive_period_in_seconds",
    "StoppingCondition.MaxRuntimeInSeconds": "max_run",
    "StoppingCondition.MaxWaitTimeInSeconds": "max_wait",
    "EnableManagedSpotTraining": "use_spot_instances",
    "RetryStrategy.MaximumRetryAttempts": "max_retry_attempts",
    "VpcConfig.Subnets": "subnets",
    "VpcConfig.SecurityGroupIds": "security_group_ids",
    "EnableNetworkIsolation": "enable_network_isolation",
    "EnableInterContainerTrafficEncryption": "encrypt_inter_container_traffic",
    "ProfilerConfig.DisableProfiler": "disable_profiler",
    "Tags": "tags",
}
_BY_FIT = ("TrainingJobName", "InputDataConfig", "HyperParameters")
_CONTRACT = "sagemaker_"


def estimator(job: AnyJob, run: str | None = None) -> Any:
    """A job file, or a job, as an estimator that has not trained yet: call `.fit(inputs)`.

    It uploads a package that is a folder itself. Raises RsctlError with what is wrong with the job,
    for fields that an estimator cannot express, or if version 2 of the SDK is not installed.
    """
    submission = planned(job, "sagemaker", run)
    settled = submission.job
    if settled.run.package is None:
        remedy = "use run.package with run.script, or rsctl.sdk.sagemaker.model_trainer"
        finding = error("sdk", "an estimator starts a package", remedy, "run.package")
        raise RsctlError(ExitCode.USAGE, finding)
    secrets = secret_values(submission)
    request = resolve_placeholders(submission.plan.request, submission.placeholders, None, secrets)
    body = request["body"]
    fields = dict(_flat(body))
    if unsaid := [field for field in fields if field not in _FIELDS]:
        raise inexpressible(_CLASS, unsaid)
    arguments = {_FIELDS[field]: value for field, value in fields.items()}
    arguments |= {"disable_profiler": True} if "disable_profiler" not in arguments else {}
    try:
        import boto3
        from sagemaker.pytorch import PyTorch
        from sagemaker.session import Session
    except ImportError:
        message = "version 2 of the SageMaker SDK, which has estimators, is not installed here"
        remedy = "in an environment of its own: pip install 'sagemaker<3' rsctl-train; "
        remedy += "version 3 has model_trainer in its place"
        raise RsctlError(ExitCode.ENVIRONMENT, error("sdk", message, remedy)) from None
    session = Session(boto3.Session(region_name=request["region"]), **_bucket(settled))
    return PyTorch(
        sagemaker_session=session,
        base_job_name=submission.plan.run,
        entry_point=str(settled.run.script or settled.run.module),
        source_dir=str(settled.run.package),
        code_location=settled.targets.sagemaker.staging,
        debugger_hook_config=False,
        hyperparameters=_hyperparameters(body),
        distribution=_distribution(settled),
        **arguments,
    )


def _flat(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a request by their paths, as an estimator has an argument for each."""
    for name, value in body.items():
        if name in _BY_FIT:
            continue
        if isinstance(value, dict) and name not in _FIELDS:
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield name, value


def _bucket(job: Job) -> dict[str, Any]:
    """The session's default bucket is the staging folder's, so that no other is made."""
    staging = parse_staging(job.targets.sagemaker.staging or "")
    if not staging.bucket:
        return {}
    prefix = {"default_bucket_prefix": staging.folder.strip("/")} if staging.folder else {}
    return {"default_bucket": staging.bucket, **prefix}


def _hyperparameters(body: dict[str, Any]) -> dict[str, Any]:
    """The script's own: the SDK adds those of the contract, and encodes all."""
    return {
        name: _decoded(text)
        for name, text in body["HyperParameters"].items()
        if not name.startswith(_CONTRACT)
    }


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _distribution(job: Job) -> dict[str, Any] | None:
    if starts_smddp(job):
        return {"smdistributed": {"dataparallel": {"enabled": True}}}
    if job.run.launcher == "mpi":
        return {"mpi": {"enabled": True, "processes_per_host": ranks_of(job)}}
    return {"torch_distributed": {"enabled": True}} if job.run.launcher == "torchrun" else None
