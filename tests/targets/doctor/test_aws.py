"""What `rsctl doctor` looks at in AWS, with botocore checking both sides of every call."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from rsctl.clients.aws import Aws
from rsctl.clients.endpoints import Endpoints
from rsctl.targets.base import Pool
from rsctl.targets.doctor import Check
from rsctl.targets.sagemaker import doctor as aws
from rsctl.targets.sagemaker.permissions import permission_checks

from .conftest import JobOf, plan_of, short

JOB = """
inputs: {train: {uri: {sagemaker: s3://mine/in/, vertex: gs://elsewhere/in}, mode: copy}}
outputs: s3://mine/out
targets:
  sagemaker: {region: us-east-1, role: "arn:aws:iam::123456789012:role/train"}
"""
ROLE = "arn:aws:iam::123456789012:role/train"
ME = "arn:aws:iam::123456789012:role/team/dev"
PLAN = plan_of(
    "sagemaker",
    Pool(role="worker", count=4, machine="ml.g5.12xlarge"),
    Pool(role="reducer", count=2, machine="ml.c5n.9xlarge"),
)
PLAN.request["body"] = {
    "TrainingJobName": "t-xxxxxx",
    "RoleArn": ROLE,
    "AlgorithmSpecification": {
        "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/t:5a5f4fac25240f79"
    },
    "InputDataConfig": [
        {"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://mine/in/"}}},
        {"DataSource": {"S3DataSource": {"S3DataType": "ManifestFile", "S3Uri": "s3://lists/a"}}},
        {"DataSource": {"FileSystemDataSource": {"FileSystemId": "fs-0123456789"}}},
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://mine/out"},
    "CheckpointConfig": {"S3Uri": "s3://mine"},
}
LOGS = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/TrainingJobs"
NEEDS = {
    ME: {
        "arn:aws:sagemaker:us-east-1:123456789012:training-job/t-xxxxxx": [
            *("sagemaker:CreateTrainingJob", "sagemaker:DescribeTrainingJob"),
            *("sagemaker:StopTrainingJob", "sagemaker:AddTags", "sagemaker:ListTags"),
        ],
        ROLE: ["iam:PassRole"],
        f"{LOGS}:*": ["logs:FilterLogEvents"],
        "*": ["cloudwatch:GetMetricData"],
    },
    ROLE: {
        f"{LOGS}:*": ["logs:CreateLogStream"],
        f"{LOGS}:log-stream:t-xxxxxx/any": ["logs:PutLogEvents"],
        "arn:aws:s3:::mine/in/any": ["s3:GetObject"],
        "arn:aws:s3:::mine": ["s3:ListBucket"],
        "arn:aws:s3:::lists/a": ["s3:GetObject"],
        "arn:aws:s3:::lists": ["s3:ListBucket"],
        "arn:aws:s3:::mine/out/any": ["s3:PutObject"],
        "arn:aws:s3:::mine/any": ["s3:GetObject", "s3:PutObject"],
        "arn:aws:ecr:us-east-1:123456789012:repository/team/t": [
            *("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
        ],
    },
}
"""What the policy simulator is asked for PLAN: actions by resource by identity."""
Stub = Callable[[str], Stubber]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Clients that answer what a test has put down for them, in order."""
    clients: dict[str, Any] = {}

    def make(service: str) -> Stubber:
        clients[service] = boto3.Session(region_name="us-east-1").client(
            service, aws_access_key_id="x", aws_secret_access_key="y"
        )
        stubber = Stubber(clients[service])
        stubber.activate()
        return stubber

    def stubbed(_session: Any, _endpoints: Any, service: str, **_: Any) -> Any:
        return clients[service]

    monkeypatch.setattr("rsctl.clients.aws.aws_client", stubbed)
    return make


def simulate(iam: Stubber, decisions: dict[str, dict[str, Any]]) -> None:
    """Let the policy simulator allow all that PLAN needs but for actions with another decision."""
    context = {"aws:RequestedRegion": "us-east-1", "iam:PassedToService": "sagemaker.amazonaws.com"}
    dev = {"Path": "/team/", "RoleName": "dev", "RoleId": "AROA1234567890123457", "Arn": ME}
    dev["CreateDate"] = datetime(2026, 1, 1, tzinfo=timezone.utc)  # type: ignore[assignment]
    iam.add_response("get_role", {"Role": dev}, {"RoleName": "dev"})
    for identity, needs in NEEDS.items():
        for resource, actions in needs.items():
            allowed = {"EvalResourceName": resource, "EvalDecision": "allowed"}
            results = [{"EvalActionName": a, **allowed, **decisions.get(a, {})} for a in actions]
            query = {
                "PolicySourceArn": identity,
                "ActionNames": actions,
                "ResourceArns": [resource],
                "ContextEntries": [
                    {"ContextKeyName": k, "ContextKeyValues": [v], "ContextKeyType": "string"}
                    for k, v in context.items()
                ],
            }
            iam.add_response("simulate_principal_policy", {"EvaluationResults": results}, query)


def answers(stub: Stub, trusted: str, quota: float, bucket_region: str, **others: float) -> None:
    arn = "arn:aws:sts::123456789012:assumed-role/dev/me"
    stub("sts").add_response("get_caller_identity", {"Arn": arn})
    policy = json.dumps({"Statement": [{"Principal": {"Service": trusted}}]})
    role = {
        "Path": "/",
        "RoleName": "train",
        "RoleId": "AROA1234567890123456",
        "Arn": "arn:aws:iam::123456789012:role/train",
        "CreateDate": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "AssumeRolePolicyDocument": policy,
    }
    iam = stub("iam")
    iam.add_response("get_role", {"Role": role}, {"RoleName": "train"})
    simulate(iam, {})
    quotas = stub("service-quotas")
    values = {"ml.g5.12xlarge for training job usage": quota, **others}
    wanted = {"ServiceCode": "sagemaker"}
    for number, (name, value) in enumerate(values.items(), start=1):
        page: dict[str, Any] = {"Quotas": [{"QuotaName": name, "Value": value}]}
        more = {"NextToken": f"page {number}"} if number < len(values) else {}
        quotas.add_response("list_service_quotas", {**page, **more}, {**wanted})
        wanted |= more
    head = {"ResponseMetadata": {"HTTPHeaders": {"x-amz-bucket-region": bucket_region}}}
    stub("s3").add_response("head_bucket", head, {"Bucket": "mine"})


def test_all_is_well(stub: Stub, job_of: JobOf) -> None:
    answers(stub, "sagemaker.amazonaws.com", 4.0, "us-east-1")
    assert short(list(aws.aws_checks(job_of(JOB), PLAN))) == [
        ("credentials", "ok", "arn:aws:sts::123456789012:assumed-role/dev/me"),
        ("role", "ok", "train trusts sagemaker.amazonaws.com"),
        ("permissions", "ok", "all 8 that a submission needs"),
        ("role permissions", "ok", "all 11 that the job needs"),
        ("quota ml.g5.12xlarge", "ok", "4 of 4"),
        ("quota ml.c5n.9xlarge", "ok", "2 needed; the quota is unknown"),
        ("quota machines of a job", "ok", "6 needed; the quota is unknown"),
        ("quota running time", "ok", "86400 needed; the quota is unknown"),
        ("s3://mine", "ok", "it exists, in us-east-1"),
    ]


def test_much_is_missing(stub: Stub, job_of: JobOf) -> None:
    answers(stub, "ec2.amazonaws.com", 0.0, "eu-west-1")
    checks = [check for check in aws.aws_checks(job_of(JOB), PLAN) if check.verdict != "ok"]
    assert [(c.name, c.verdict, c.message) for c in checks] == [
        (
            "role",
            "warning",
            "train does not trust sagemaker.amazonaws.com, so jobs cannot use it",
        ),
        (
            "quota ml.g5.12xlarge",
            "warning",
            "4 needed, but the quota 'ml.g5.12xlarge for training job usage' is 0",
        ),
        ("s3://mine", "error", "the bucket is in eu-west-1, but the job is in us-east-1"),
    ]


def test_quotas_of_preferred_machines(stub: Stub, job_of: JobOf) -> None:
    """SageMaker refuses a job if the quota of one of them is too small."""
    preferred = [{"InstanceType": "ml.g5.12xlarge"}, {"InstanceType": "ml.g5.24xlarge"}]
    resources = {"InstanceCount": 4, "InstancePreferences": preferred}
    plan = plan_of("sagemaker", Pool(role="worker", count=4, machine="ml.g5.12xlarge"))
    plan.request["body"] = {**PLAN.request["body"], "ResourceConfig": resources}
    answers(stub, "sagemaker.amazonaws.com", 4, "us-east-1")
    found = short(aws.aws_checks(job_of(JOB), plan))
    assert [each for each in found if each[0].startswith("quota ml.")] == [
        ("quota ml.g5.12xlarge", "ok", "4 of 4"),
        ("quota ml.g5.24xlarge", "ok", "4 needed; the quota is unknown"),
    ]
    assert ("quota machines of a job", "ok", "4 needed; the quota is unknown") in found


def test_quotas_of_a_job_besides_its_machines(stub: Stub, job_of: JobOf) -> None:
    names = {
        "ml.g5.12xlarge for training warm pool usage": 2.0,
        "ml.g5.12xlarge for spot training job usage": 0.0,
        "Maximum number of instances per training job": 20.0,
        "Longest run time for a training job": 432000.0,
    }
    answers(stub, "sagemaker.amazonaws.com", 4.0, "us-east-1", **names)
    job = JOB.replace("region:", "keep_alive: 30m, region:") + "limits: {timeout: 7d}\n"
    found = [check for check in aws.aws_checks(job_of(job), PLAN) if "quota" in check.name]
    assert short(found) == [
        ("quota ml.g5.12xlarge", "ok", "4 of 4"),
        ("quota ml.c5n.9xlarge", "ok", "2 needed; the quota is unknown"),
        (
            "quota ml.g5.12xlarge warm pool",
            "warning",
            "4 needed, but the quota 'ml.g5.12xlarge for training warm pool usage' is 2",
        ),
        ("quota ml.c5n.9xlarge warm pool", "ok", "2 needed; the quota is unknown"),
        ("quota machines of a job", "ok", "6 of 20"),
        (
            "quota running time",
            "warning",
            "604800 needed, but the quota 'Longest run time for a training job' is 432000",
        ),
    ]
    assert found[-1].remedy == (
        "set limits.timeout: 432000s or less, or ask in Service Quotas, Amazon SageMaker, for more "
        "of 'Longest run time for a training job'"
    )


def test_spot_machines_have_a_quota_of_their_own(stub: Stub, job_of: JobOf) -> None:
    spot = {"ml.g5.12xlarge for spot training job usage": 0.0}
    answers(stub, "sagemaker.amazonaws.com", 4.0, "us-east-1", **spot)
    found = list(aws.aws_checks(job_of(JOB + "limits: {spot: true}\n"), PLAN))
    names = [check.name for check in found if "quota" in check.name]
    assert names[-2:] == ["quota machines of a job", "quota running time"]
    (machine,) = (check for check in found if check.name == "quota ml.g5.12xlarge")
    assert (machine.verdict, machine.message, machine.remedy) == (
        "warning",
        "4 needed, but the quota 'ml.g5.12xlarge for spot training job usage' is 0",
        "ask for more in Service Quotas (Amazon SageMaker), or use another machine, or "
        "limits.spot: false",
    )


def permissions(iam: Stubber, identity: str) -> list[Check]:
    iam.activate()
    return list(permission_checks(Aws(Endpoints(), "us-east-1"), identity, PLAN))


ASSUMED = "arn:aws:sts::123456789012:assumed-role/dev/me"


def test_permissions_that_are_missing_are_named_with_what_they_are_about(stub: Stub) -> None:
    denied = {"EvalDecision": "implicitDeny"}
    iam = stub("iam")
    simulate(iam, {"iam:PassRole": denied, "s3:ListBucket": {"EvalDecision": "explicitDeny"}})
    mine, role = permissions(iam, ASSUMED)
    assert (mine.verdict, mine.message, mine.remedy, mine.path) == (
        "warning",
        f"{ME} lacks iam:PassRole on {ROLE}",
        "add them to its policies, unless a policy of the resource allows them",
        None,
    )
    assert (role.verdict, role.message, role.path) == (
        "warning",
        f"{ROLE} lacks s3:ListBucket on arn:aws:s3:::mine, s3:ListBucket on arn:aws:s3:::lists",
        "targets.sagemaker.role",
    )


@pytest.mark.parametrize("is_specific", [False, True])
def test_a_permission_with_conditions_that_the_simulator_cannot_know_is_not_missing(
    stub: Stub, is_specific: bool
) -> None:
    unknown: dict[str, Any] = {"MissingContextValues": ["sagemaker:VpcSubnets"]}
    if is_specific:
        specific = {"EvalResourceName": "*", "EvalResourceDecision": "implicitDeny", **unknown}
        unknown = {"ResourceSpecificResults": [specific]}
    iam = stub("iam")
    simulate(iam, {"sagemaker:CreateTrainingJob": {"EvalDecision": "implicitDeny", **unknown}})
    assert short(permissions(iam, ASSUMED))[0] == (
        "permissions",
        "ok",
        "all 8 that a submission needs, if the conditions on sagemaker:CreateTrainingJob hold",
    )


def test_permissions_are_not_checked_where_iam_does_not_tell(stub: Stub) -> None:
    iam = stub("iam")
    text = (
        "User: arn:aws:iam::123456789012:user/me is not authorized to perform: "
        "iam:SimulatePrincipalPolicy on resource: user me"
    )
    for _ in range(2):
        iam.add_client_error("simulate_principal_policy", "AccessDenied", text, 403)
    why = "not checked: this needs iam:SimulatePrincipalPolicy and iam:GetRole"
    assert short(permissions(iam, "arn:aws:iam::123456789012:user/me")) == [
        ("permissions", "skipped", why),
        ("role permissions", "skipped", why),
    ]
    iam = stub("iam")
    for _ in range(2):
        iam.add_client_error("simulate_principal_policy", "AccessDenied", text, 403)
    assert [
        short(permissions(stub_of, who))[0]
        for stub_of, who in [
            (iam, "arn:aws:iam::123456789012:root"),
            (iam, "arn:aws:sts::123456789012:federated-user/me"),
        ]
    ] == [
        ("permissions", "ok", "the root user has all"),
        ("permissions", "skipped", "not checked: IAM does not simulate federated-user"),
    ]


def test_a_bucket_that_is_not_there(stub: Stub, job_of: JobOf) -> None:
    answers(stub, "sagemaker.amazonaws.com", 4.0, "us-east-1")
    stub("s3").add_client_error("head_bucket", "404", http_status_code=404)
    last = list(aws.aws_checks(job_of(JOB), PLAN))[-1]
    assert (last.verdict, last.message, last.remedy) == (
        "error",
        "the bucket does not exist",
        "create it: `aws s3 mb s3://mine`",
    )


def test_without_credentials_nothing_else_is_asked(job_of: JobOf) -> None:
    (check,) = aws.aws_checks(job_of(JOB), PLAN)
    assert (check.name, check.verdict) == ("credentials", "error")
    assert [aws.signed_in(v).verdict for v in ("skipped", "error")] == ["skipped", "error"]
