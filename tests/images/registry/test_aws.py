"""Amazon ECR by unmodified boto3 over HTTP, against a small ECR that keeps to botocore's model."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import botocore.session
import pytest
from botocore.model import OperationModel, ServiceModel, Shape, StringShape, StructureShape
from botocore.validate import ParamValidator

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import RsctlError
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import parse_repository
from rsctl.images.registry.operations import ensure_repository, find_pushed, login_for
from rsctl.targets.sagemaker.registry import CLIENT

from .conftest import Request, StartScript, refusal

ACCOUNT = "123456789012"
HOST = f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com"
REPOSITORY = f"{HOST}/team/bert"
LOGIN = Login(HOST, "AWS", "x")
DIGEST = f"sha256:{64 * 'b'}"
AWS_LOGIN = "run `aws sso login` or `aws configure`, or set AWS_PROFILE to a profile that works"
Answer = tuple[int, dict[str, str], bytes]


def model_of(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


@dataclass
class FakeEcr:
    """ECR's JSON protocol: what it takes and gives is checked against botocore's shapes."""

    service: str = "ecr"
    repositories: dict[str, dict[str, str]] = field(default_factory=dict)
    errors: dict[str, tuple[str, str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    before_create: Callable[[], None] = lambda: None

    def answer(self, request: Request) -> Answer:
        _, _, name = request.headers["X-Amz-Target"].rpartition(".")
        self.calls.append(name)
        operation = model_of(self.service).operation_model(name)
        sent = json.loads(request.body)
        check(operation.input_shape, sent)
        if name in self.errors:
            return failed(operation, *self.errors[name])
        return getattr(self, name)(operation, sent)

    def GetAuthorizationToken(self, operation: OperationModel, sent: dict[str, Any]) -> Answer:
        token = base64.b64encode(b"AWS:pass:with:colons").decode()
        data = {"authorizationToken": token, "expiresAt": datetime(2030, 1, 1, tzinfo=timezone.utc)}
        if self.service == "ecr-public":
            return done(operation, {"authorizationData": data})
        data["proxyEndpoint"] = f"https://{HOST}"
        return done(operation, {"authorizationData": [data]})

    def DescribeRepositories(self, operation: OperationModel, sent: dict[str, Any]) -> Answer:
        assert sent["registryId"] == ACCOUNT
        (name,) = sent["repositoryNames"]
        if name not in self.repositories:
            return missing(operation, name)
        return done(operation, {"repositories": [{"repositoryName": name}]})

    def CreateRepository(self, operation: OperationModel, sent: dict[str, Any]) -> Answer:
        assert sent["registryId"] == ACCOUNT
        self.before_create()
        name = sent["repositoryName"]
        if name in self.repositories:
            text = f"The repository with name '{name}' already exists"
            return failed(operation, "RepositoryAlreadyExistsException", text)
        self.repositories[name] = {}
        return done(operation, {"repository": {"repositoryName": name}})

    def DescribeImages(self, operation: OperationModel, sent: dict[str, Any]) -> Answer:
        assert sent["registryId"] == ACCOUNT
        name, tag = sent["repositoryName"], sent["imageIds"][0]["imageTag"]
        if name not in self.repositories:
            return missing(operation, name)
        if tag not in self.repositories[name]:
            return failed(operation, "ImageNotFoundException", f"The image '{tag}' does not exist")
        digest = self.repositories[name][tag]
        image = {"imageTags": [tag], **({"imageDigest": digest} if digest else {})}
        return done(operation, {"imageDetails": [image]})


def done(operation: OperationModel, content: dict[str, Any]) -> Answer:
    check(operation.output_shape, content)
    body = json.dumps(content, default=lambda moment: moment.timestamp()).encode()
    return 200, {"Content-Type": "application/x-amz-json-1.1"}, body


def failed(operation: OperationModel, code: str, text: str) -> Answer:
    """An error of the operation's own, or of those that every service may give."""
    common = ("AccessDeniedException", "ExpiredTokenException", "UnrecognizedClientException")
    assert code in {shape.name for shape in operation.error_shapes} | set(common), code
    return 400, {}, json.dumps({"__type": code, "message": text}).encode()


def missing(operation: OperationModel, name: str) -> Answer:
    text = f"The repository with name '{name}' does not exist in the registry with id '{ACCOUNT}'"
    return failed(operation, "RepositoryNotFoundException", text)


def check(shape: Shape | None, content: dict[str, Any]) -> None:
    """Types and required members by botocore's validator; patterns, which it leaves, by us."""
    assert shape is not None
    report = ParamValidator().validate(content, shape)
    assert not report.has_errors(), report.generate_report()
    assert isinstance(shape, StructureShape)
    for name, value in content.items():
        pattern = shape.members[name].metadata.get("pattern")
        if isinstance(shape.members[name], StringShape) and pattern:
            assert re.fullmatch(pattern, value), (name, value)


@pytest.fixture
def ecr(serve: StartScript, monkeypatch: pytest.MonkeyPatch) -> FakeEcr:
    fake = FakeEcr()
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR", serve(fake.answer).url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return fake


def test_the_password_is_all_after_the_first_colon(ecr: FakeEcr) -> None:
    assert login_for(REPOSITORY) == Login(HOST, "AWS", "pass:with:colons")


def test_an_image_without_a_digest_is_as_good_as_none(ecr: FakeEcr) -> None:
    ecr.repositories["bert"] = {"t1": "", "t2": "sha256:" + "0" * 64}
    place = parse_repository(f"{HOST}/bert")
    endpoints = Endpoints.of_environment()
    assert CLIENT.find_digest(place, "t1", LOGIN, endpoints) is None
    assert CLIENT.find_digest(place, "t2", LOGIN, endpoints) == "sha256:" + "0" * 64


def test_the_public_registry_is_asked_in_its_only_region(
    serve: StartScript, monkeypatch: pytest.MonkeyPatch, ecr: FakeEcr
) -> None:
    public = serve(FakeEcr("ecr-public").answer)
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR_PUBLIC", public.url)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    login = login_for("public.ecr.aws/alias/bert")
    assert login == Login("public.ecr.aws", "AWS", "pass:with:colons")
    assert "/us-east-1/ecr-public/" in public.requests[0].headers["Authorization"]
    assert ecr.calls == []


def test_the_region_is_that_of_the_host(
    serve: StartScript, monkeypatch: pytest.MonkeyPatch, ecr: FakeEcr
) -> None:
    server = serve(ecr.answer)
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR", server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    login_for(REPOSITORY)
    assert "/eu-west-1/ecr/" in server.requests[0].headers["Authorization"]


def test_a_missing_repository_is_created_once(ecr: FakeEcr) -> None:
    ensure_repository(REPOSITORY, LOGIN)
    ensure_repository(REPOSITORY, LOGIN)
    assert ecr.repositories == {"team/bert": {}}
    assert ecr.calls == ["DescribeRepositories", "CreateRepository", "DescribeRepositories"]


def test_another_job_creates_it_at_the_same_time(ecr: FakeEcr) -> None:
    ecr.before_create = lambda: ecr.repositories.update({"team/bert": {}})
    ensure_repository(REPOSITORY, LOGIN)
    assert ecr.calls == ["DescribeRepositories", "CreateRepository"]


def test_a_repository_that_may_not_be_created(ecr: FakeEcr) -> None:
    said = "User: arn:aws:iam::1:user/a is not authorized to perform: ecr:CreateRepository"
    ecr.errors["CreateRepository"] = ("AccessDeniedException", said)
    with pytest.raises(RsctlError) as refused:
        ensure_repository(REPOSITORY, LOGIN)
    exit_code, code, message, remedy = refusal(refused.value)
    assert (exit_code, code) == ("REFUSED", "denied")
    assert message == f"AWS denies all calls for {REPOSITORY}: {said} (AccessDeniedException)"
    assert remedy.startswith("ask for the action that it names on team/bert; ask for the managed ")


def test_too_many_repositories(ecr: FakeEcr) -> None:
    ecr.errors["CreateRepository"] = ("LimitExceededException", "100000 are enough")
    with pytest.raises(RsctlError) as refused:
        ensure_repository(REPOSITORY, LOGIN)
    assert refusal(refused.value)[:3] == (
        *("REFUSED", "cloud"),
        "AWS refuses: 100000 are enough (LimitExceededException)",
    )


def test_what_is_pushed_is_found_by_its_tag(ecr: FakeEcr) -> None:
    assert find_pushed(f"{REPOSITORY}:v1", LOGIN) is None
    ecr.repositories["team/bert"] = {"v1": DIGEST}
    assert find_pushed(f"{REPOSITORY}:v1", LOGIN) == DIGEST
    assert find_pushed(f"{REPOSITORY}:v2", LOGIN) is None


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            ("ExpiredTokenException", "The security token included in the request is expired"),
            "credentials-expired",
            "AWS refuses: The security token included in the request is expired "
            "(ExpiredTokenException)",
        ),
        (
            ("UnrecognizedClientException", "The security token is invalid"),
            "credentials",
            "AWS does not recognize these credentials: The security token is invalid "
            "(UnrecognizedClientException)",
        ),
    ],
)
def test_credentials_that_do_not_serve(
    ecr: FakeEcr, error: tuple[str, str], code: str, message: str
) -> None:
    ecr.errors["GetAuthorizationToken"] = error
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    *shown, remedy = refusal(refused.value)
    assert shown == ["ENVIRONMENT", code, message]
    assert remedy.startswith(AWS_LOGIN)


def test_no_credentials() -> None:
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    assert refusal(refused.value) == (
        *("ENVIRONMENT", "credentials-missing"),
        "there are no AWS credentials: Unable to locate credentials",
        AWS_LOGIN,
    )


def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    assert refusal(refused.value)[1:3] == (
        "credentials-missing",
        "there are no AWS credentials: The config profile (nobody) could not be found",
    )


def test_nobody_answers(ecr: FakeEcr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR", "http://127.0.0.1:1")
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    assert refusal(refused.value)[:2] == ("ENVIRONMENT", "network")
