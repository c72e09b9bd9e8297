"""Services of AWS by one verb: what is tried again, and with which clients."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from rsctl.clients import aws as module
from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import AWS_LOGIN, NO_CREDENTIALS, NoAnswer
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, RsctlError, error

LOST = ReadTimeoutError(endpoint_url="https://s3")
NOT_REACHED = EndpointConnectionError(endpoint_url="https://s3")


def answered(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "why"}}, "ListBuckets")


class Cloud:
    """Sessions and clients of boto3, whose calls have these outcomes in turn."""

    def __init__(self, *outcomes: Exception | str) -> None:
        self.outcomes, self.calls = list(outcomes), list[dict[str, Any]]()
        self.sessions, self.clients = 0, list[tuple[str, dict[str, Any]]]()

    def session(self, _endpoints: Endpoints, region: str | None) -> Cloud:
        assert region == "us-east-1"
        self.sessions += 1
        return self

    def client(self, _session: Cloud, _: Endpoints, service: str, **settings: Any) -> Cloud:
        self.clients.append((service, settings))
        return self

    def get_credentials(self) -> str | None:
        return None if self.outcomes == ["none"] else "some"

    def list_buckets(self, **parameters: Any) -> str:
        self.calls.append(parameters)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def waits() -> list[float]:
    return []


def reached(monkeypatch: pytest.MonkeyPatch, waits: list[float], cloud: Cloud, **how: Any) -> Aws:
    monkeypatch.setattr(module, "aws_session", cloud.session)
    monkeypatch.setattr(module, "aws_client", cloud.client)
    retries = RetryPolicy(tries=3, sleep=waits.append)
    return Aws(Endpoints(), "us-east-1", "x", retries=retries, **how)


def test_one_client_of_a_service_calls_with_the_parameters(
    monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    cloud = Cloud("a", "b", "c")
    aws = reached(monkeypatch, waits, cloud, use_fips=True)
    assert aws.request("s3", "list_buckets", {"Prefix": "p"}) == "a"
    assert aws.request("s3", "list_buckets") == "b"
    assert aws.client("s3", 6) is aws.client("s3", 6)
    assert (cloud.calls, waits, cloud.sessions) == ([{"Prefix": "p"}, {}], [], 1)
    settings = {"connect_timeout": 10, "read_timeout": 60, "use_fips_endpoint": True}
    assert cloud.clients == [
        ("s3", {"retries": {"mode": "standard", "total_max_attempts": tries}, **settings})
        for tries in (1, 6)
    ]


def test_a_lost_answer_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    cloud = Cloud(LOST, answered("Throttling"), "a")
    aws = reached(monkeypatch, waits, cloud)
    assert aws.request("s3", "list_buckets") == "a"
    assert (len(cloud.calls), len(waits)) == (3, 2)


@pytest.mark.parametrize(
    ("retry", "problem", "calls"),
    [(True, LOST, 3), (False, LOST, 1), (True, NOT_REACHED, 3), (False, NOT_REACHED, 1)],
)
def test_no_answer_to_any_try(
    monkeypatch: pytest.MonkeyPatch, waits: list[float], retry: bool, problem: Exception, calls: int
) -> None:
    cloud = Cloud(*[problem] * 3)
    aws = reached(monkeypatch, waits, cloud)
    with pytest.raises(NoAnswer) as caught:
        aws.request("s3", "list_buckets", retry=retry)
    assert caught.value.sent is (problem is LOST)
    assert (len(cloud.calls), len(waits)) == (calls, calls - 1)


def test_a_region_that_does_not_exist_is_named_after_the_last_try(
    monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    for retry, code in ((True, "region"), (False, "network")):
        aws = reached(monkeypatch, waits, Cloud(*[NOT_REACHED] * 3))
        aws.region = "us-east-11"
        monkeypatch.setattr(module, "aws_session", lambda *_: None)
        with pytest.raises(RsctlError) as caught:
            aws.request("s3", "list_buckets", retry=retry)
        assert caught.value.findings[0].code == code


def test_a_refusal_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:
    cloud = Cloud(answered("AccessDenied"), "a")
    aws = reached(monkeypatch, waits, cloud)
    with pytest.raises(AwsError) as caught:
        aws.request("s3", "list_buckets")
    assert (caught.value.findings[0].path, len(cloud.calls)) == ("x", 1)
    aws.request("s3", "list_buckets")
    assert cloud.sessions == 1


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "RequestTimeTooSkewed"])
def test_refused_credentials_are_read_again(
    monkeypatch: pytest.MonkeyPatch, waits: list[float], code: str
) -> None:
    """A login in another terminal takes effect."""
    cloud = Cloud(answered(code), "a")
    aws = reached(monkeypatch, waits, cloud)
    with pytest.raises(AwsError):
        aws.request("s3", "list_buckets")
    assert aws.request("s3", "list_buckets") == "a"
    assert (cloud.sessions, len(cloud.clients)) == (2, 2)


def test_credentials_are_looked_for_without_a_request(
    monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    reached(monkeypatch, waits, Cloud()).credentials()
    with pytest.raises(RsctlError) as caught:
        reached(monkeypatch, waits, Cloud("none")).credentials()
    finding = error(NO_CREDENTIALS, "there are no AWS credentials", AWS_LOGIN, "x")
    assert (caught.value.exit_code, caught.value.findings) == (ExitCode.ENVIRONMENT, (finding,))


@pytest.mark.parametrize("code", ["Throttling", "InternalError"])
def test_what_gave_an_answer_has_a_region(
    monkeypatch: pytest.MonkeyPatch, waits: list[float], code: str
) -> None:
    aws = reached(monkeypatch, waits, Cloud(*[answered(code)] * 3))
    aws.region = "us-east-11"
    monkeypatch.setattr(module, "aws_session", lambda *_: None)
    with pytest.raises(NoAnswer):
        aws.request("s3", "list_buckets")
    assert aws.given_up(NoAnswer("busy", ExitCode.REFUSED, is_busy=True, sent=False)).findings == ()
