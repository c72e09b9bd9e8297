"""The permissions that a submission and the role of its job need, asked of IAM's policy simulator.

The role's needs are those that AWS documents for CreateTrainingJob ("How to use SageMaker AI
execution roles"). The simulator knows an identity's own policies, and not those of a bucket, a
repository or a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import ACCESS_DENIED, AwsError
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry.names import Kind
from rsctl.targets.base import Plan
from rsctl.targets.doctor import Check, run_check, skipped
from rsctl.targets.sagemaker.account import uri_repository
from rsctl.targets.sagemaker.logs import GROUP

_SERVICE = "sagemaker.amazonaws.com"
_SIMULATE = "iam:SimulatePrincipalPolicy"
Needs = dict[str, list[str]]
"""Actions by the ARN of the resource that they are about."""


def permission_checks(aws: Aws, identity: str, plan: Plan) -> Iterator[Check]:
    """Whether `identity` may submit the plan, and the plan's role may run it."""
    body = plan.request["body"]
    role = body["RoleArn"]
    partition, account = identity.split(":")[1:5:3]
    owner = _Owner(partition, account, str(aws.region))
    submission = _needs_of_submission(owner, body)
    yield _check(aws, "permissions", identity, submission, "a submission")
    if str(role).startswith("arn:"):
        job = _needs_of_job(owner, body)
        yield _check(aws, "role permissions", role, job, "the job", "targets.sagemaker.role")


class _Owner(NamedTuple):
    """Whose resources the job's are: the account of the identity that submits it."""

    partition: str
    account: str
    region: str

    def arn(self, service: str, name: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{name}"


def _needs_of_submission(owner: _Owner, body: dict[str, Any]) -> Needs:
    job = owner.arn("sagemaker", f"training-job/{body['TrainingJobName']}")
    calls = ("CreateTrainingJob", "DescribeTrainingJob", "StopTrainingJob", "AddTags", "ListTags")
    return {
        job: [f"sagemaker:{call}" for call in calls],
        str(body["RoleArn"]): ["iam:PassRole"],
        owner.arn("logs", f"log-group:{GROUP}:*"): ["logs:FilterLogEvents"],
        "*": ["cloudwatch:GetMetricData"],
    }


def _needs_of_job(owner: _Owner, body: dict[str, Any]) -> Needs:
    group = owner.arn("logs", f"log-group:{GROUP}")
    needs = {
        f"{group}:*": ["logs:CreateLogStream"],
        f"{group}:log-stream:{body['TrainingJobName']}/any": ["logs:PutLogEvents"],
    }

    def add(uri: str | None, *actions: str, is_folder: bool = True) -> None:
        if uri is None or not uri.startswith("s3://"):
            return
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        key = f"{key.rstrip('/')}/any".lstrip("/") if is_folder else key
        arn = f"arn:{owner.partition}:s3:::{bucket}"
        objects = needs.setdefault(f"{arn}/{key}", [])
        objects += [action for action in actions if action not in objects]
        if "s3:GetObject" in actions:
            needs[arn] = ["s3:ListBucket"]

    for channel in body.get("InputDataConfig", []):
        source = channel.get("DataSource", {}).get("S3DataSource", {})
        is_prefix = source.get("S3DataType") == "S3Prefix"
        add(source.get("S3Uri"), "s3:GetObject", is_folder=is_prefix)
    add(body.get("OutputDataConfig", {}).get("S3OutputPath"), "s3:PutObject")
    add(body.get("CheckpointConfig", {}).get("S3Uri"), "s3:GetObject", "s3:PutObject")
    image = body["AlgorithmSpecification"].get("TrainingImage")
    repository = uri_repository(image) if image else None
    if repository and repository.kind is Kind.ECR and (ecr := repository.ecr):
        arn = f"arn:{owner.partition}:ecr:{ecr.region}:{ecr.account}:repository/{repository.path}"
        needs[arn] = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    return needs


def _check(
    aws: Aws, name: str, identity: str, needs: Needs, what: str, path: str | None = None
) -> Check:
    try:
        return run_check(name, lambda: _simulated(aws, identity, needs, what, path), "warning")
    except _NotPossible as problem:
        return skipped(name, f"not checked: {problem}")


class _NotPossible(Exception):
    """The simulator cannot be asked."""


def _simulated(aws: Aws, identity: str, needs: Needs, what: str, path: str | None) -> str:
    kind, _, name = identity.split(":", 5)[5].partition("/")
    if kind == "root":
        return "the root user has all"
    if kind not in ("user", "role", "assumed-role"):
        raise _NotPossible(f"IAM does not simulate {kind}")
    try:
        if kind == "assumed-role":  # its ARN lacks the role's path
            named = {"RoleName": name.partition("/")[0]}
            identity = aws.request("iam", "get_role", named)["Role"]["Arn"]
        denied, undecided = _decisions(aws, identity, needs)
    except AwsError as problem:
        if problem.code not in ACCESS_DENIED:
            raise
        raise _NotPossible(f"this needs {_SIMULATE} and iam:GetRole") from None
    if denied:
        message = f"{identity} lacks {', '.join(denied)}"
        remedy = "add them to its policies, unless a policy of the resource allows them"
        raise RsctlError(ExitCode.REFUSED, error("denied", message, remedy, path))
    held = f"all {sum(map(len, needs.values()))} that {what} needs"
    return f"{held}, if the conditions on {', '.join(undecided)} hold" if undecided else held


def _decisions(aws: Aws, identity: str, needs: Needs) -> tuple[list[str], list[str]]:
    """The actions that are denied, with their resources, and those that depend on conditions of
    which the simulator lacks the values.
    """
    context = {"aws:RequestedRegion": str(aws.region), "iam:PassedToService": _SERVICE}
    entries = [
        {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
        for key, value in context.items()
    ]
    denied, undecided = [], []
    for resource, actions in needs.items():
        query: dict[str, Any] = {
            "PolicySourceArn": identity,
            "ActionNames": actions,
            "ResourceArns": [resource],
            "ContextEntries": entries,
        }
        for result in aws.request("iam", "simulate_principal_policy", query)["EvaluationResults"]:
            if result["EvalDecision"] == "allowed":
                continue
            parts = [result, *result.get("ResourceSpecificResults", [])]
            if any(part.get("MissingContextValues") for part in parts):
                undecided.append(result["EvalActionName"])
            else:
                denied.append(f"{result['EvalActionName']} on {resource}")
    return denied, undecided
