"""A job with `run.package` as a `sagemaker.pytorch.PyTorch`, of the SageMaker SDK version 2."""

from __future__ import annotations

import functools
import json
from typing import Any

from rsctl.clients.aws_errors import aws_errors
from rsctl.clients.staging import parse_staging
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.job import Job
from rsctl.targets.base import Submission
from rsctl.targets.managed.placeholders import resolve_placeholders
from rsctl.targets.managed.sdk import AnyJob, planned
from rsctl.targets.managed.sdk_calls import execute, inexpressible
from rsctl.targets.sagemaker.estimator_contract import (
    estimator_hyperparameters,
    launch_hyperparameters,
)
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.sdk.estimator_arguments import CLASS, estimator_arguments
from rsctl.targets.sagemaker.toolkit import starts_smddp
from rsctl.targets.variables import secret_values

_PREFIX = "sagemaker_"
_LOG_LEVEL = "sagemaker_container_log_level"
_COMPARED = {"sagemaker_program", "sagemaker_job_name", "sagemaker_region"}
_BY_THE_SDK = _COMPARED | {"sagemaker_submit_directory", _LOG_LEVEL}
"""The hyperparameters that an estimator sets by itself, overriding its arguments."""


def estimator(job: AnyJob, run: str | None = None) -> Any:
    """A job file, or a job, as an estimator that has not trained yet: call `.fit(inputs)`.

    It uploads a package that is a folder itself. Raises RsctlError with the errors of the job, for
    fields that an estimator cannot express, or if version 2 of the SDK is not installed.
    """
    submission = planned(job, "sagemaker", run)
    settled = submission.job
    if settled.run.package is None:
        remedy = "use run.package with run.script, or rsctl.targets.sagemaker.sdk.model_trainer"
        finding = error("sdk", "an estimator starts a package", remedy, "run.package")
        raise RsctlError(ExitCode.USAGE, finding)
    secrets = secret_values(submission)
    request = resolve_placeholders(submission.plan.request, submission.placeholders, None, secrets)
    body = request["body"]
    arguments = {**estimator_arguments(body), **_program(submission, body)}
    sdk = _sdk()
    with aws_errors("SageMaker", None, None):  # the SDK may look for credentials
        session = sdk["Session"](request["region"], **_bucket(settled))
        made = sdk[CLASS](sagemaker_session=session, **execute(arguments, sdk))
    if experiment := body.get("ExperimentConfig"):
        made.fit = functools.partial(made.fit, experiment_config=experiment)
    return made


def _sdk() -> dict[str, Any]:
    """The SDK's classes by name. Raises RsctlError if it is not installed."""
    try:
        import boto3
        from sagemaker import debugger
        from sagemaker.instance_group import InstanceGroup
        from sagemaker.pytorch import PyTorch
        from sagemaker.session import Session
    except ImportError:
        message = "version 2 of the SageMaker SDK, which has estimators, is not installed"
        remedy = "install it with rsctl in a separate environment: pip install 'sagemaker<3'; "
        remedy += "version 3 has model_trainer instead"
        raise RsctlError(ExitCode.ENVIRONMENT, error("sdk", message, remedy)) from None

    def session(region: str, **more: Any) -> Any:
        return Session(boto3.Session(region_name=region), **more)

    def framework_profile(parameters: dict[str, str]) -> Any:
        made = debugger.FrameworkProfile()
        made.profiling_parameters = parameters
        return made

    names = ("TensorBoardOutputConfig", "ProfilerConfig", "DebuggerHookConfig", "CollectionConfig")
    return {
        **{name: getattr(debugger, name) for name in (*names, "Rule", "ProfilerRule")},
        "FrameworkProfile": framework_profile,
        "InstanceGroup": InstanceGroup,
        "Session": session,
        CLASS: PyTorch,
    }


def _program(submission: Submission, body: dict[str, Any]) -> dict[str, Any]:
    """The program to start, and how. Raises RsctlError for settings that the SDK would change."""
    job = submission.job
    given = body["HyperParameters"]
    arguments: dict[str, Any] = {
        "base_job_name": submission.plan.run,
        "entry_point": str(job.run.script or job.run.module),
        "source_dir": str(job.run.package),
        "code_location": sagemaker_options(job).staging,
    }
    contract = estimator_hyperparameters(job, submission.plan.run, None, arguments["source_dir"])
    wrong = sagemaker_options(job).hyperparameters.keys() & (_BY_THE_SDK - {_LOG_LEVEL})
    wrong |= {name for name in _COMPARED if given.get(name) != contract[name]}
    if wrong:
        raise inexpressible(CLASS, [f"HyperParameters.{name}" for name in sorted(wrong)])
    arguments["container_log_level"] = _decoded(given.get(_LOG_LEVEL, contract[_LOG_LEVEL]))
    names = given.keys() - _BY_THE_SDK
    resources = body["ResourceConfig"]
    launched = launch_hyperparameters(job, resources.get("InstanceType"))
    is_plain = {name: given[name] for name in names if name.startswith(_PREFIX)} == launched
    if is_plain and "InstanceGroups" not in resources:
        arguments["distribution"] = _distribution(job)
        names -= launched.keys()
    # Hyperparameters that do not come from a distribution are unchanged: the SDK passes them on.
    arguments["hyperparameters"] = {name: _decoded(given[name]) for name in given if name in names}
    return arguments


def _bucket(job: Job) -> dict[str, Any]:
    """The session's default bucket is the staging folder's, so that no other is made."""
    staging = parse_staging(sagemaker_options(job).staging or "")
    if not staging.bucket:
        return {}
    prefix = {"default_bucket_prefix": staging.folder.strip("/")} if staging.folder else {}
    return {"default_bucket": staging.bucket, **prefix}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _distribution(job: Job) -> dict[str, Any] | None:
    if starts_smddp(job):
        return {"smdistributed": {"dataparallel": {"enabled": True}}}
    if job.run.launcher == "mpi":
        return {"mpi": {"enabled": True, "processes_per_host": job.workers.ranks}}
    return {"torch_distributed": {"enabled": True}} if job.run.launcher == "torchrun" else None
