"""A job as an `aiplatform.CustomJob`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.package import is_packaged
from rsctl.images.python_package import is_local
from rsctl.job.job import Job
from rsctl.targets.base import Plan, Submission
from rsctl.targets.managed.placeholders import resolve_placeholders
from rsctl.targets.managed.sdk import AnyJob, planned
from rsctl.targets.managed.sdk_calls import (
    SdkCall,
    execute,
    has_code,
    inexpressible,
    missing_sdk,
    python_code,
    secret,
    snake_keys,
)
from rsctl.targets.variables import secret_values

if TYPE_CHECKING:
    from google.cloud import aiplatform

_SDK = "google-cloud-aiplatform"
_CLASS = "aiplatform.CustomJob"
_WHOLE_NUMBERS = frozenset({"replicaCount", "bootDiskSizeGb"})
_RUN = {
    "serviceAccount": "service_account",
    "network": "network",
    "tensorboard": "tensorboard",
    "experiment": "experiment",
    "experimentRun": "experiment_run",
    "enableWebAccess": "enable_web_access",
    "persistentResourceId": "persistent_resource_id",
    "pscInterfaceConfig": "psc_interface_config",
}
_SCHEDULING = {
    "timeout": "timeout",
    "restartJobOnWorkerRestart": "restart_job_on_worker_restart",
    "disableRetries": "disable_retries",
    "strategy": "scheduling_strategy",
    "maxWaitDuration": "max_wait_duration",
}
_BY_LAST_PART = frozenset({"experiment", "experimentRun"})


def custom_job(job: AnyJob, run: str | None = None) -> aiplatform.CustomJob:
    """A job file, or a job, as a CustomJob that is not submitted yet: call `.run()` or `.submit()`.

    It has the whole request, also fields that the SDK's own arguments cannot express. Raises
    RsctlError with the errors of the job, if the SDK is not installed, or without credentials,
    which the SDK reads.
    """
    submission = planned(job, "vertex", run)
    plan = submission.plan
    _require_image(submission.job)
    try:
        from google.cloud.aiplatform_v1.types import CustomJob

        from rsctl.targets.vertex.sdk.job import RawCustomJob
    except ImportError:
        raise missing_sdk(_SDK) from None
    from google.auth.exceptions import GoogleAuthError
    from google.protobuf import json_format

    from rsctl.clients.google import no_credentials

    secrets = secret_values(submission)
    request = resolve_placeholders(plan.request, submission.placeholders, None, secrets)
    body = request["body"]
    message = json_format.ParseDict(body, CustomJob.pb(CustomJob()))
    # The constructor requires a bucket; rsctl sends the request, with or without one.
    arguments = {"staging_bucket": "gs://not-sent", **_constructor(plan, body)}
    call = SdkCall(_CLASS, arguments)
    try:
        made: Any = execute(call, {_CLASS: RawCustomJob})
    except GoogleAuthError as problem:
        raise no_credentials(problem) from None
    made.set_request(CustomJob.wrap(message))
    result: aiplatform.CustomJob = made
    return result


def code(submission: Submission) -> str:
    """The plan's request as Python. Raises RsctlError for fields that the SDK cannot express."""
    plan, job = submission.plan, submission.job
    _require_image(job)
    body = _with_code(plan.request["body"])
    if not body["jobSpec"].get("baseOutputDirectory"):
        message = f"{_CLASS} requires a bucket, and this job has none"
        remedy = "set targets.vertex.staging or outputs, or use -o json"
        finding = error("sdk", message, remedy, "targets.vertex.staging")
        raise RsctlError(ExitCode.USAGE, finding)
    made = SdkCall(_CLASS, _constructor(plan, body))
    run = SdkCall("job.run", _run_arguments(body["jobSpec"]))
    standard = [n for n, c in (("os", "os.environ"), ("secrets", "token")) if has_code(made, c)]
    lines = [f'"""What `rsctl submit` sends for {plan.run}, by {_SDK}."""', ""]
    lines += [f"import {name}" for name in standard] + [""] * bool(standard)
    lines += ["from google.cloud import aiplatform", ""]
    if "secrets" in standard:
        lines.append("token = secrets.token_hex()  # by which workers and reducers know each other")
    return "\n".join([*lines, f"job = {python_code(made)}", python_code(run)]) + "\n"


def _require_image(job: Job) -> None:
    """Only a submission by rsctl uploads local source for a foreign image."""
    if is_packaged(job):
        raise inexpressible(_SDK, ["image.source beside image.uri"])
    if is_local(job):
        message = f"{_SDK} does not upload folders"
        remedy = "submit the job with rsctl, or use a source distribution: gs://BUCKET/PATH.tar.gz"
        raise RsctlError(ExitCode.USAGE, error("sdk", message, remedy, "run.package"))


def _constructor(plan: Plan, body: dict[str, Any]) -> dict[str, Any]:
    """The arguments of CustomJob."""
    spec = body["jobSpec"]
    project, location = plan.request["url"].split("/")[5], plan.request["url"].split("/")[7]
    arguments = {
        "display_name": body["displayName"],
        "worker_pool_specs": [_pool(pool) for pool in spec["workerPoolSpecs"]],
        "base_output_dir": spec.get("baseOutputDirectory", {}).get("outputUriPrefix"),
        "project": project,
        "location": location,
        "labels": body.get("labels"),
        "encryption_spec_key_name": body.get("encryptionSpec", {}).get("kmsKeyName"),
        "staging_bucket": spec.get("baseOutputDirectory", {}).get("outputUriPrefix"),
    }
    return {name: value for name, value in arguments.items() if value is not None}


def _pool(pool: dict[str, Any]) -> dict[str, Any]:
    """A worker pool for proto-plus: 64-bit integers are numbers."""

    def numbers(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: int(item) if key in _WHOLE_NUMBERS else numbers(item)
                for key, item in value.items()
            }
        return [numbers(item) for item in value] if isinstance(value, list) else value

    result: dict[str, Any] = snake_keys(numbers(pool))
    return result


def _run_arguments(spec: dict[str, Any]) -> dict[str, Any]:
    """The arguments of CustomJob.run. Raises RsctlError for fields without an argument there."""
    named = {"workerPoolSpecs", "baseOutputDirectory", "scheduling", *_RUN}
    scheduling = spec.get("scheduling", {})
    unnamed = [f"jobSpec.{key}" for key in spec if key not in named]
    unnamed += [f"jobSpec.scheduling.{key}" for key in scheduling if key not in _SCHEDULING]
    if unnamed:
        raise inexpressible(f"{_CLASS}.run", unnamed)
    return dict([*_plain(spec), *_scheduling(scheduling)])


def _plain(spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, name in _RUN.items():
        if key in spec:
            value = spec[key]
            yield name, value.rpartition("/")[2] if key in _BY_LAST_PART else snake_keys(value)


def _scheduling(scheduling: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, name in _SCHEDULING.items():
        if key in scheduling:
            value = scheduling[key]
            is_time = isinstance(value, str) and value.endswith("s") and value[:-1].isdigit()
            yield name, int(value[:-1]) if is_time else value


def _with_code(body: Any) -> Any:
    """The body, with code in place of secrets."""
    if isinstance(body, list):
        return [_with_code(item) for item in body]
    if not isinstance(body, dict):
        return body
    if set(body) == {"name", "value"} and body["value"] is None:
        return {**body, "value": secret(body["name"])}
    return {key: _with_code(item) for key, item in body.items()}
