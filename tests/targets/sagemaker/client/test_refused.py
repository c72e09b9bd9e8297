"""Jobs that cannot be created, and what users are shown."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.sagemaker.client import SageMakerService

from .fake_sagemaker import BODY, PLAN, REQUEST, RUN, FakeSageMaker, described_job


def refused(retries: RetryPolicy | None = None, **changes: Any) -> tuple[ExitCode, Finding]:
    with pytest.raises(RsctlError) as caught:
        SageMakerService(Endpoints.of_environment(), retries).create(
            PLAN.run, {**REQUEST, **changes}
        )
    (finding,) = caught.value.findings
    return caught.value.exit_code, finding


def test_a_name_of_somebody_else_is_not_ours(sagemaker: FakeSageMaker) -> None:
    sagemaker.jobs[RUN] = described_job({**BODY, "Environment": {}})
    code, finding = refused()
    assert (code, finding.code, finding.path) == (ExitCode.REFUSED, "name-taken", "name")
    assert finding.message == (
        "a training job named bert-7f3k2a already exists, and does not belong to this run"
    )


LIMIT = (
    "The account-level service limit '{}' is {} Instances, with current utilization of 0 "
    "Instances and a request delta of 4 Instances. Please contact AWS support."
)


@pytest.mark.parametrize(
    ("code", "message", "kind", "path", "remedy"),
    [
        (
            "ResourceLimitExceeded",
            LIMIT.format("ml.g5.12xlarge for training job usage", 0),
            "quota",
            "workers.machine",
            "ask in Service Quotas, Amazon SageMaker, for more of 'ml.g5.12xlarge for training "
            "job usage' (it is 0 until you ask for it), or use another machine type",
        ),
        (
            "ResourceLimitExceeded",
            LIMIT.format("ml.c5n.9xlarge for spot training job usage", 2),
            "quota",
            "reducers.machine",
            "wait for other jobs to end, ask in Service Quotas, Amazon SageMaker, for more of "
            "'ml.c5n.9xlarge for spot training job usage', or use another machine type, or "
            "limits.spot: false",
        ),
        (
            "ResourceLimitExceeded",
            LIMIT.format("ml.g5.12xlarge for training warm pool usage", 0),
            "quota",
            "targets.sagemaker.keep_alive",
            "ask in Service Quotas, Amazon SageMaker, for more of 'ml.g5.12xlarge for training "
            "warm pool usage', or remove targets.sagemaker.keep_alive",
        ),
        (
            "ResourceLimitExceeded",
            LIMIT.format("Longest run time for a training job", 432000).replace(
                "Instances", "Seconds"
            ),
            "quota",
            "limits.timeout",
            "set limits.timeout: 432000s or less, or ask in Service Quotas, Amazon SageMaker, for "
            "more of 'Longest run time for a training job'",
        ),
        (
            "ResourceLimitExceeded",
            LIMIT.format("Maximum number of instances per training job", 20),
            "quota",
            "workers.count",
            "use at most 20 machines in the job, reducers and roles included, or ask in Service "
            "Quotas, Amazon SageMaker, for more of 'Maximum number of instances per training job'",
        ),
        (
            "ResourceLimitExceeded",
            LIMIT.format("Number of instances across all training jobs", 4),
            "quota",
            "workers.count",
            "wait for other jobs to end, use fewer machines, or ask in Service Quotas, Amazon "
            "SageMaker, for more of 'Number of instances across all training jobs'; other machine "
            "types count too",
        ),
        (
            "ResourceLimitExceeded",
            LIMIT.format("Size of EBS volume for a training job instance", 1024).replace(
                "Instances", "GBs"
            ),
            "quota",
            "workers.disk",
            "set workers.disk: 1024GB or less, or ask in Service Quotas, Amazon SageMaker, for "
            "more of 'Size of EBS volume for a training job instance'",
        ),
        (
            "ValidationException",
            "Could not assume role arn:aws:iam::123456789012:role/train. Please ensure that the "
            "role exists and allows principal 'sagemaker.amazonaws.com' to assume the role.",
            "role",
            "targets.sagemaker.role",
            "check that the role exists and that its trust policy lets sagemaker.amazonaws.com "
            "assume it",
        ),
        (
            "AccessDeniedException",
            "User: arn:aws:iam::123456789012:user/me is not authorized to perform: iam:PassRole on "
            "resource: arn:aws:iam::123456789012:role/train",
            "denied",
            "targets.sagemaker.role",
            "ask for the permission iam:PassRole on this role, or use a role that you can pass",
        ),
        (
            "AccessDeniedException",
            "User: arn:aws:iam::123456789012:user/me is not authorized to perform: "
            "sagemaker:CreateTrainingJob",
            "denied",
            "targets.sagemaker",
            "ask for the permission that the message names, or use another profile with "
            "AWS_PROFILE",
        ),
        (
            "ValidationException",
            "Cannot find repository: bert in registry ID: 123456789012 Please check if your ECR "
            "repository exists and role arn has proper pull permissions for SageMaker",
            "image",
            "image",
            "check that the image was pushed, and let the role pull it: ecr:BatchGetImage, "
            "ecr:GetDownloadUrlForLayer and ecr:BatchCheckLayerAvailability",
        ),
        (
            "ValidationException",
            "Cannot find the requested image: bert:1",
            "image",
            "image",
            "push the image first, to a repository in the job's own region",
        ),
        (
            "ValidationException",
            "Invalid training image. Please provide a valid Amazon Elastic Container Registry path "
            "of the Docker image to run.",
            "image",
            "image",
            "use an image in ECR (ACCOUNT.dkr.ecr.REGION.amazonaws.com/...) or public.ecr.aws",
        ),
        (
            "ValidationException",
            "1 validation error detected: Value at 'retryStrategy' failed to satisfy constraint",
            "request",
            "targets.sagemaker",
            "correct the key that the message names; rsctl sends the fields of "
            "targets.sagemaker.overlay without changes",
        ),
        (
            "ExpiredTokenException",
            "The security token included in the request is expired",
            "credentials-expired",
            "targets.sagemaker",
            "run `aws sso login` or `aws configure`, or set AWS_PROFILE to a profile that works",
        ),
        (
            "InvalidSignatureException",
            "Signature expired: 20260101T000000Z is now earlier than 20260101T010000Z",
            "clock",
            "targets.sagemaker",
            "set this machine's clock: AWS accepts only current signatures",
        ),
    ],
)
def test_what_users_meet(
    sagemaker: FakeSageMaker, code: str, message: str, kind: str, path: str, remedy: str
) -> None:
    sagemaker.refuse_with["CreateTrainingJob"] = (code, message)
    _, finding = refused()
    assert finding == Finding(
        severity="error",
        code=kind,
        message=f"AWS refuses: {message} ({code})",
        remedy=remedy,
        path=path,
    )


def test_throttling_that_does_not_end(sagemaker: FakeSageMaker) -> None:
    fault = Fault("sagemaker.CreateTrainingJob", 99, status=400, code="ThrottlingException")
    sagemaker.faults.add(fault)
    code, finding = refused()
    assert (code, finding.code) == (ExitCode.REFUSED, "busy")
    assert sagemaker.count("sagemaker.CreateTrainingJob") == RetryPolicy().tries
    assert finding.message == (
        "sagemaker asks to reduce the request rate: made to fail (ThrottlingException)"
    )


def test_a_request_that_is_none_is_not_sent(sagemaker: FakeSageMaker) -> None:
    body = {key: value for key, value in BODY.items() if key != "RoleArn"}
    code, finding = refused(body=body)
    assert (code, finding.code) == (ExitCode.USAGE, "request")
    assert 'Missing required parameter in input: "RoleArn"' in finding.message
    assert not sagemaker.jobs


def test_no_credentials(sagemaker: FakeSageMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    code, finding = refused()
    assert (code, finding.code) == (ExitCode.ENVIRONMENT, "credentials-missing")


def test_secrets_go_nowhere_in_clear(
    sagemaker: FakeSageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER", "http://192.0.2.1:80")
    code, finding = refused()
    assert (code, finding.code) == (ExitCode.ENVIRONMENT, "endpoint")
    assert finding.message == (
        "the endpoint is 'http://192.0.2.1:80', which would send credentials unencrypted over "
        "the network"
    )


def test_a_region_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody answers there
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    code, finding = refused(RetryPolicy(tries=2, time_scale=0.0), region="us-east-11")
    assert (code, finding.code) == (ExitCode.REFUSED, "region")
    assert finding.remedy == "did you mean us-east-1?"
    code, finding = refused(RetryPolicy(tries=2, time_scale=0.0))
    assert (code, finding.code) == (ExitCode.ENVIRONMENT, "network")
