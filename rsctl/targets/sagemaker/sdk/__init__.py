"""A job as a `sagemaker.train.ModelTrainer`, of the SageMaker Python SDK version 3.

SageMaker starts an image built by rsctl in the default way, with the word `train`: `rsctl-launch`
then reads its arguments from the hyperparameters. So the SDK's own drivers are not in the
container, and a reducer group works too, which the SDK's Torchrun cannot express. For another
image, the program to start is a SourceCode, see `source_code`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rsctl.clients.aws_errors import aws_errors
from rsctl.clients.staging import parse_staging
from rsctl.job.job import Job
from rsctl.targets.base import Submission
from rsctl.targets.managed.placeholders import resolve_placeholders
from rsctl.targets.managed.sdk import AnyJob, planned
from rsctl.targets.managed.sdk_calls import (
    CodeExpression,
    SdkCall,
    execute,
    has_code,
    imports,
    inexpressible,
    invalid_names,
    missing_sdk,
    names_in,
    python_code,
    secret,
    snake,
    snake_keys,
)
from rsctl.targets.sagemaker.channels import PACKAGE
from rsctl.targets.sagemaker.long_arguments import NAME, as_hyperparameters, decode_arguments
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.sdk.estimator import estimator as estimator
from rsctl.targets.sagemaker.sdk.source_code import source_code
from rsctl.targets.variables import secret_values

if TYPE_CHECKING:
    from sagemaker.train import ModelTrainer

_SDK = "sagemaker"
_CLASS = "ModelTrainer"
_PLAIN = {"RoleArn": "role", "Environment": "environment"}
_CONFIGS = {
    "StoppingCondition": "stopping_condition",
    "OutputDataConfig": "output_data_config",
    "CheckpointConfig": "checkpoint_config",
}
_SETTERS = {
    "RetryStrategy": "with_retry_strategy",
    "InfraCheckConfig": "with_infra_check_config",
    "SessionChainingConfig": "with_session_chaining_config",
    "RemoteDebugConfig": "with_remote_debug_config",
    "TensorBoardOutputConfig": "with_tensorboard_output_config",
}
_NETWORKING = ("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption")
_ALGORITHM = frozenset(
    {
        *("TrainingImage", "TrainingInputMode", "ContainerEntrypoint", "ContainerArguments"),
        *("MetricDefinitions", "TrainingImageConfig"),
    }
)
_SAID = frozenset(
    {
        *("TrainingJobName", "AlgorithmSpecification", "HyperParameters", "InputDataConfig"),
        *("ResourceConfig", "VpcConfig", "Tags", "EnableManagedSpotTraining"),
        *(*_NETWORKING, *_PLAIN, *_CONFIGS, *_SETTERS),
    }
)
_MODULE = "sagemaker.core.training.configs"
_FROM = {
    "RetryStrategy": "sagemaker.core.shapes",
    "Session": "sagemaker.core.helper.session_helper",
    _CLASS: "sagemaker.train",
}
_BOTO = "boto3.Session"


def model_trainer(job: AnyJob, run: str | None = None) -> ModelTrainer:
    """A job file, or a job, as a ModelTrainer that has not trained yet: call `.train()`.

    Raises RsctlError with the errors of the job, for fields that a ModelTrainer cannot express, or
    if the SDK is not installed.
    """
    submission = planned(job, "sagemaker", run)
    secrets = secret_values(submission)
    request = resolve_placeholders(submission.plan.request, submission.placeholders, None, secrets)
    calls = _calls(submission, request["body"])
    functions = _functions(calls)
    with aws_errors("SageMaker", None, None):  # the SDK may look for credentials
        trainer: Any = execute(calls.trainer, functions)
        for setter, argument in calls.setters:
            getattr(trainer, setter)(execute(argument, functions))
    result: ModelTrainer = trainer
    return result


def code(submission: Submission) -> str:
    """The plan's request as Python. Raises RsctlError for fields that the SDK cannot express."""
    calls = _calls(submission, _with_code(submission.plan.request["body"]))
    standard = [name for name in ("os", "secrets") if has_code(calls.trainer, f"{name}.")]
    by_module: dict[str, set[str]] = {}
    for name in calls.names - {_BOTO}:
        by_module.setdefault(_FROM.get(name, _MODULE), set()).add(name)
    lines = [
        f'"""What `rsctl submit` sends for {submission.plan.run}, by the SageMaker SDK."""',
        "",
    ]
    lines += [f"import {name}" for name in standard] + [""] * bool(standard)
    lines += ["import boto3", *imports(by_module)]
    lines += ["", f"trainer = {python_code(calls.trainer)}"]
    lines += [f"trainer.{setter}({python_code(argument)})" for setter, argument in calls.setters]
    return "\n".join([*lines, "trainer.train()"]) + "\n"


class _Calls(NamedTuple):
    """The call that makes a request's ModelTrainer, and then its setters with an argument each."""

    trainer: SdkCall
    setters: list[tuple[str, Any]]

    @property
    def names(self) -> set[str]:
        """All calls except the setters."""
        return names_in([self.trainer, *(argument for _, argument in self.setters)])


def _calls(submission: Submission, body: dict[str, Any]) -> _Calls:
    """Raise RsctlError for fields that a ModelTrainer cannot express."""
    if unsaid := list(_unsupported(body)):
        raise inexpressible(_CLASS, unsaid)
    setters: list[tuple[str, Any]] = [
        (setter, SdkCall(key, snake_keys(body[key])))
        for key, setter in _SETTERS.items()
        if key in body
    ]
    definitions = body["AlgorithmSpecification"].get("MetricDefinitions", [])
    if definitions:
        each = [SdkCall("MetricDefinition", snake_keys(definition)) for definition in definitions]
        setters.append(("with_metric_definitions", each))
    job = submission.job
    source = source_code(submission, body)
    trainer = SdkCall(_CLASS, _arguments(body, submission.plan.request["region"], job, source))
    if wrong := list(invalid_names([trainer, *(argument for _, argument in setters)])):
        raise inexpressible(_CLASS, wrong)
    return _Calls(trainer, setters)


def _unsupported(body: dict[str, Any]) -> Iterator[str]:
    """The fields of a request that a ModelTrainer cannot express."""
    for key in body["AlgorithmSpecification"]:
        if key not in _ALGORITHM:
            yield f"AlgorithmSpecification.{key}"
    yield from (key for key in body if key not in _SAID)


def _arguments(
    body: dict[str, Any], region: str, job: Job, source: SdkCall | None
) -> dict[str, Any]:
    """The arguments of ModelTrainer."""
    algorithm = body["AlgorithmSpecification"]
    arguments: dict[str, Any] = {
        "sagemaker_session": _session(region, job if source else None),
        "base_job_name": body["TrainingJobName"],
        "training_image": algorithm["TrainingImage"],
        "training_input_mode": algorithm["TrainingInputMode"],
    }
    if "TrainingImageConfig" in algorithm:
        arguments["training_image_config"] = _nested("TrainingImageConfig", algorithm)
    arguments |= {name: body[key] for key, name in _PLAIN.items() if key in body}
    if source:
        arguments["source_code"] = source
    arguments |= _hyperparameters(job, body, bool(source))
    arguments["compute"] = _compute(body)
    if networking := _networking(body):
        arguments["networking"] = SdkCall("Networking", networking)
    for key, name in _CONFIGS.items():
        if key in body:
            arguments[name] = SdkCall(key, snake_keys(body[key]))
    if "InputDataConfig" in body:
        # The SDK brings the source itself.
        channels = [c for c in body["InputDataConfig"] if c.get("ChannelName") != PACKAGE]
        arguments["input_data_config"] = [_channel(each) for each in channels]
    arguments["tags"] = [SdkCall("Tag", snake_keys(tag)) for tag in body.get("Tags", [])]
    return arguments


def _session(region: str, job: Job | None) -> SdkCall:
    """The SDK uploads the source of `job`, to its staging folder if it has one."""
    arguments: dict[str, Any] = {"boto_session": SdkCall(_BOTO, {"region_name": region})}
    staging = sagemaker_options(job).staging if job else None
    if staging:
        parts = parse_staging(staging)
        arguments["default_bucket"] = parts.bucket
        if parts.folder:
            arguments["default_bucket_prefix"] = parts.folder.strip("/")
    return SdkCall("Session", arguments)


def _hyperparameters(job: Job, body: dict[str, Any], is_started: bool) -> dict[str, Any]:
    """The job's hyperparameters; an image built by rsctl finds its program in them."""
    sent: dict[str, Any] = body.get("HyperParameters", {})
    given = {n: v for n, v in sent.items() if not n.startswith(NAME)}
    if is_started and job.run.package is not None:
        given = dict(sagemaker_options(job).hyperparameters)
    if not is_started and job.run.is_launched:
        given = sent if given != sent else {**given, **as_hyperparameters(decode_arguments(body))}
    return {"hyperparameters": given} if given else {}


def _compute(body: dict[str, Any]) -> SdkCall:
    resources = body["ResourceConfig"]
    arguments = {snake(key): snake_keys(value) for key, value in resources.items()}
    if "InstanceGroups" in resources:
        arguments["instance_groups"] = [
            SdkCall("InstanceGroup", snake_keys(group)) for group in resources["InstanceGroups"]
        ]
    if "EnableManagedSpotTraining" in body:
        arguments["enable_managed_spot_training"] = body["EnableManagedSpotTraining"]
    return SdkCall("Compute", arguments)


def _networking(body: dict[str, Any]) -> dict[str, Any]:
    arguments = {snake(key): value for key, value in body.get("VpcConfig", {}).items()}
    return arguments | {snake(key): body[key] for key in _NETWORKING if key in body}


def _channel(channel: dict[str, Any]) -> SdkCall:
    arguments = {snake(key): value for key, value in channel.items()}
    arguments["data_source"] = _source(channel["DataSource"])
    return SdkCall("Channel", arguments)


def _source(source: dict[str, Any]) -> SdkCall:
    parts = {snake(key): SdkCall(key, snake_keys(value)) for key, value in source.items()}
    return SdkCall("DataSource", parts)


def _nested(key: str, parent: dict[str, Any]) -> SdkCall:
    inner = {
        snake(name): _nested(name, parent[key]) if isinstance(value, dict) else value
        for name, value in parent[key].items()
    }
    return SdkCall(key, inner)


def _functions(calls: _Calls) -> dict[str, Any]:
    """The SDK's classes by name. Raises RsctlError if it is not installed, or has no such class."""
    from importlib import import_module

    import boto3

    own = {_BOTO: boto3.Session}
    names = calls.names - own.keys()
    try:
        found = {n: getattr(import_module(_FROM.get(n, _MODULE)), n, None) for n in names}
    except ImportError:
        raise missing_sdk(f"{_SDK} (version 3)") from None
    # A name may come from an overlay: other objects than classes would be called, too.
    if unknown := sorted(name for name, kind in found.items() if not isinstance(kind, type)):
        raise inexpressible(_CLASS, unknown)
    return own | found


def _with_code(body: dict[str, Any]) -> dict[str, Any]:
    """The body, with code in place of secrets."""
    environment = body.get("Environment", {})
    hidden = {name: secret(name) for name, value in environment.items() if value is None}
    hidden = {
        n: CodeExpression("secrets.token_hex()") if c.text == "token" else c
        for n, c in hidden.items()
    }
    return {**body, "Environment": {**environment, **hidden}} if environment else body
