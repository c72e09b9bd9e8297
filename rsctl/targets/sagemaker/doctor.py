"""The requirements of target sagemaker in AWS: identity, permissions, role, quotas, buckets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from urllib.parse import unquote

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import next_page
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.targets.base import Plan
from rsctl.targets.doctor import Check, Verdict, run_check
from rsctl.targets.sagemaker.errors import other_limit
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.permissions import permission_checks
from rsctl.targets.sagemaker.quota_names import (
    LONGEST_RUN_QUOTA,
    machines_quota,
    usage_quota,
    warm_quota,
)
from rsctl.targets.sagemaker.request import DEFAULT_TIMEOUT
from rsctl.targets.sagemaker.request_values import whole_seconds

_OPTIONS = "targets.sagemaker"
_TRUSTED = "sagemaker.amazonaws.com"


def aws_checks(job: Job, plan: Plan) -> Iterator[Check]:
    """The checks of one job, as far as credentials reach."""
    options = sagemaker_options(job)
    region = options.first_region
    who = run_check("credentials", lambda: _identity(region))
    yield who
    if who.verdict != "ok":
        return
    if options.role:
        yield run_check("role", lambda: _role(str(options.role)), "warning")
    yield from permission_checks(_aws(region), who.message, plan)
    quotas = cache(lambda: _quotas(_aws(region, f"{_OPTIONS}.region")))
    for name, quota, needed in _needed_quotas(job, plan):
        yield run_check(
            f"quota {name}",
            lambda q=quota, n=needed: _within(quotas(), q, n),  # type: ignore[misc]
            "warning",
        )
    for bucket in _buckets(job):
        yield run_check(f"s3://{bucket}", lambda b=bucket: _bucket(region, b))  # type: ignore[misc]


def _identity(region: str | None) -> str:
    return str(_aws(region).request("sts", "get_caller_identity")["Arn"])


def _aws(region: str | None, path: str | None = None) -> Aws:
    endpoints = Endpoints.of_environment()
    return Aws(endpoints, region, path, retries=RetryPolicy.of(endpoints, tries=2))


def _role(arn: str) -> str:
    name = arn.rpartition("/")[2]
    role = _aws(None, f"{_OPTIONS}.role").request("iam", "get_role", {"RoleName": name})["Role"]
    policy = role.get("AssumeRolePolicyDocument", {})
    if isinstance(policy, str):
        policy = json.loads(unquote(policy))
    if _TRUSTED not in json.dumps(policy):
        message = f"{name} does not trust {_TRUSTED}, so jobs cannot use it"
        remedy = f"allow {_TRUSTED} to assume the role in its trust policy"
        raise RsctlError(ExitCode.REFUSED, error("role", message, remedy, f"{_OPTIONS}.role"))
    return f"{name} trusts {_TRUSTED}"


def _machines(plan: Plan) -> dict[str, int]:
    count: dict[str, int] = {}
    for pool in plan.pools:
        if pool.machine:
            count[pool.machine] = count.get(pool.machine, 0) + pool.count
    return count


def _preferred(plan: Plan) -> dict[str, int]:
    """Preferred machines: SageMaker refuses a job if the quota of any of their types is too small.

    Source: AWS, "Instance preference lists for training jobs".
    """
    resources = plan.request["body"].get("ResourceConfig", {})
    return {
        each["InstanceType"]: each.get("InstanceCount") or resources["InstanceCount"]
        for each in resources.get("InstancePreferences", [])
    }


def _needed_quotas(job: Job, plan: Plan) -> Iterator[tuple[str, str, int]]:
    """The quotas of a job: their short and whole names, and the amount that the job needs."""
    machines = _machines(plan)
    for machine, count in {**machines, **_preferred(plan)}.items():
        yield machine, usage_quota(job, machine), count
    if sagemaker_options(job).keep_alive:
        for machine, count in machines.items():
            yield f"{machine} warm pool", warm_quota(machine), count
    yield "machines of a job", machines_quota(job), sum(machines.values())
    timeout = whole_seconds(job.limits.timeout) or DEFAULT_TIMEOUT
    yield "running time", LONGEST_RUN_QUOTA, timeout


def _within(quotas: dict[str, float], name: str, needed: int) -> str:
    value = quotas.get(name)
    if value is None:
        return f"{needed} needed; the quota is unknown"
    if value < needed:
        message = f"{needed} needed, but the quota '{name}' is {value:g}"
        remedy = "ask for more in Service Quotas (Amazon SageMaker), or use another machine"
        path = f"{_OPTIONS}.region"
        if other := other_limit(name, f"{value:.0f}"):
            remedy, path = str(other.remedy), str(other.path)
        elif "spot" in name:
            remedy += ", or limits.spot: false"
        raise RsctlError(ExitCode.REFUSED, error("quota", message, remedy, path))
    return f"{needed} of {value:.0f}"


def _quotas(aws: Aws) -> dict[str, float]:
    """The values of SageMaker's quotas by their names."""
    wanted = {"ServiceCode": "sagemaker"}
    found: dict[str, float] = {}
    while True:
        page = aws.request("service-quotas", "list_service_quotas", wanted, member="Quotas")
        found.update((quota["QuotaName"], quota["Value"]) for quota in page["Quotas"])
        token = next_page("service-quotas", page.get("NextToken"), wanted.get("NextToken"))
        if not token:
            return found
        wanted["NextToken"] = token


def _buckets(job: Job) -> list[str]:
    inputs = [job_input.location for job_input in inputs_of(job, "sagemaker")]
    uris = [*inputs, job.outputs, job.checkpoints, sagemaker_options(job).staging]
    names = [str(p).removeprefix("s3://").partition("/")[0] for p in uris if p]
    return list(dict.fromkeys(names))


def _bucket(region: str | None, bucket: str) -> str:
    try:
        answer = _aws(region).request("s3", "head_bucket", {"Bucket": bucket})
    except AwsError as problem:
        if problem.code != "404":
            raise
        remedy = f"create it: `aws s3 mb s3://{bucket}`"
        finding = error("bucket", "the bucket does not exist", remedy)
        raise RsctlError(ExitCode.REFUSED, finding) from None
    found_region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", region)
    if region and found_region != region:
        message = f"the bucket is in {found_region}, but the job is in {region}"
        remedy = f"use a bucket in {region}: SageMaker requires one in the job's own region"
        raise RsctlError(ExitCode.REFUSED, error("bucket", message, remedy))
    return f"it exists, in {found_region}"


def signed_in(severity: Verdict) -> Check:
    """Whether there are credentials at all, without a job."""
    return run_check("aws", lambda: _identity(None), severity)
