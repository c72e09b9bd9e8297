"""What `rsctl doctor` looks at in AWS, with botocore checking both sides of every call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from rsctl.targets.base import Pool
from rsctl.targets.sagemaker import doctor as aws

from .conftest import JobOf, plan_of, short

JOB = """
inputs: {train: {uri: {sagemaker: s3://mine/in/, vertex: gs://elsewhere/in}, mode: copy}}
outputs: s3://mine/out
targets:
  sagemaker: {region: us-east-1, role: "arn:aws:iam::123456789012:role/train"}
"""
PLAN = plan_of(
    "sagemaker",
    Pool(role="worker", count=4, machine="ml.g5.12xlarge"),
    Pool(role="reducer", count=2, machine="ml.c5n.9xlarge"),
)
Stub = Callable[[str], Stubber]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
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
    stub("iam").add_response("get_role", {"Role": role}, {"RoleName": "train"})
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
