"""No credential leaves this machine without TLS, whoever asks and wherever the address is from."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import parse_url

import rsctl
from rsctl.clients.aws import Aws
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.private import host_of, is_private
from rsctl.clients.sessions import (
    aws_client,
    aws_regions,
    aws_session,
    connection_problem,
    google_request,
    google_session,
    http_session,
)
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import parse_repository
from rsctl.images.registry.operations import ensure_repository
from rsctl.targets.sagemaker.registry import CLIENT

AMBIGUOUS = [
    "http://192.0.2.1:80\\@127.0.0.1/",
    "http://192.0.2.1:80\\\\@localhost/x",
    "https://192.0.2.1\\@example.com/",
    "http://user:secret@127.0.0.1/",
    "https://user:secret@example.com/",
    "https://secret@example.com/",
    "http://127.0.0.1:80@192.0.2.1:80/",
    "http://192.0.2.1%2f@127.0.0.1/",
    "http://127.0.0.1\t.example.com/",
    "http://127.0.0.1/\r\nHost: example.com",
    "http://127.0.0.1/\x7f",
    "http://127.0.0.1 /",
    "http://127.0.0.1\\.example.com/",
    "http://127.0.0.1\uff20192.0.2.1/",
    "http://127\u30020.0.1/",
]
"""What libraries read different hosts from, or what has a user."""

ELSEWHERE = "http://192.0.2.1:80"  # TEST-NET-1 (RFC 5737): nobody answers there


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(RsctlError) as raised:
        call()
    (finding,) = raised.value.findings
    assert (raised.value.exit_code, finding.code) == (ExitCode.ENVIRONMENT, "endpoint")
    return finding.message


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        ("https://example.com", True),
        ("http://127.0.0.1:80/x", True),
        ("http://[::1]:80", True),
        ("http://localhost", True),
        ("http://example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("http://localhost@example.com", False),
        ("http://0.0.0.0", False),
        ("http://169.254.169.254", False),
        ("ftp://127.0.0.1", False),
        ("https://", False),
        ("http://[::1", False),
        ("", False),
        ("HTTP://LocalHost/x", True),
        ("https://example.com:443/x?y=a@b#c", True),
        *((address, False) for address in AMBIGUOUS),
    ],
)
def test_which_addresses_are_private(url: str, verdict: bool) -> None:
    assert is_private(url) is verdict


def test_every_parser_reads_a_private_address_in_the_same_way() -> None:
    """All addresses of some characters that parsers treat differently, beside two hosts."""
    parts = [
        "",
        "\\",
        "@",
        ":",
        "/",
        "?",
        "#",
        "%",
        "\t",
        "\n",
        " ",
        "[",
        "]",
        "\0",
        "\x85",
        "\uff20",
    ]
    taken = 0
    for scheme in ("http", "https", "HTTP"):
        for first, second, third in product(parts, parts, parts):
            url = f"{scheme}:/{first or '/'}192.0.2.1:80{second}{third}127.0.0.1/"
            url2 = f"{scheme}://127.0.0.1{first}{second}{third}192.0.2.1:80"
            for each in (url, url2):
                if is_private(each):
                    taken += 1
                    host = host_of(each)
                    assert urlsplit(each).hostname == host, each
                    assert parse_url(each).host == host, each
                    assert parse_url(each).auth is None, each
                    sent = requests.Request("GET", each).prepare().url
                    assert parse_url(str(sent)).host == host, each
    assert taken > 100


@pytest.mark.parametrize("address", AMBIGUOUS)
def test_nothing_is_sent_to_an_address_that_parsers_disagree_on(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    message = refused(lambda: http_session().get(address, headers={"Authorization": "Bearer x"}))
    assert "secret" not in message
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    message = refused(lambda: Endpoints.of_environment().google_url("storage"))
    assert message.endswith(
        "which has a user, a backslash, a space, a control character or a host not in ASCII: "
        "programs disagree about its host"
    )
    assert "secret" not in message


@pytest.mark.parametrize("address", AMBIGUOUS)
def test_nothing_is_signed_for_an_address_that_parsers_disagree_on(address: str) -> None:
    endpoints = Endpoints.of_environment()
    made = aws_client(aws_session(endpoints, "us-east-1"), endpoints, "s3")

    def redirected(request: Any, **_: Any) -> None:
        request.url = address

    made.meta.events.register_first("before-send", redirected)
    refused(made.list_buckets)


def test_a_question_to_a_metadata_server_brings_no_credential() -> None:
    place = "http://metadata.google.internal.invalid/"
    headers = {"Metadata-Flavor": "Google", "Authorization": "Bearer x"}
    refused(lambda: http_session().get(place, headers=headers))


@pytest.mark.parametrize(
    "place",
    [
        *("http://metadata.google.internal/computeMetadata/v1", "http://[fd00:ec2::254]/latest"),
        *("http://169.254.169.254/latest", "http://METADATA.google.internal/"),
    ],
)
def test_a_metadata_server_is_asked_in_clear(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no TLS."""
    asked: list[str] = []

    def send(_: HTTPAdapter, request: requests.PreparedRequest, **__: Any) -> requests.Response:
        asked.append(str(request.url))
        answer = requests.Response()
        answer.status_code = 200
        return answer

    monkeypatch.setattr(HTTPAdapter, "send", send)
    assert http_session().put(place).status_code == 200
    refused(lambda: http_session().put(place, headers={"Authorization": "Bearer x"}))
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("place", "method", "headers"),
    [
        ("http://169.254.169.253/x", "PUT", {}),
        ("http://[fe80::1]/x", "GET", {}),
        ("http://metadata.example/x", "GET", {"Metadata-Flavor": "Google"}),
    ],
)
def test_which_servers_are_asked_in_clear_for_metadata(
    monkeypatch: pytest.MonkeyPatch, place: str, method: str, headers: dict[str, str]
) -> None:
    answer = requests.Response()
    answer.status_code = 200
    monkeypatch.setattr(HTTPAdapter, "send", lambda *_, **__: answer)
    assert http_session().request(method, place, headers=headers) is answer
    for other, wrong in (("GET", {}), ("POST", headers)):
        if headers:
            refused(
                lambda other=other, wrong=wrong: http_session().request(other, place, headers=wrong)
            )


@pytest.mark.parametrize("is_emulator", [False, True])
def test_an_emulator_is_reached_without_a_proxy(is_emulator: bool) -> None:
    endpoints = Endpoints(is_emulator=is_emulator)
    session = google_session(None, endpoints)
    renewing = google_request(endpoints).session
    assert {session.trust_env, renewing.trust_env} == {not is_emulator}
    for scheme in ("https://x", "http://x"):
        assert session.get_adapter(scheme).max_retries.total == 0
        assert renewing.get_adapter(scheme).max_retries.total == 3
    assert [http_session(proxies).trust_env for proxies in (True, False)] == [True, False]
    assert http_session().trust_env
    assert http_session(total=2, backoff_factor=3).get_adapter("https://x").max_retries.total == 2


def test_an_emulator_of_aws_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's FIPS, dual stack and proxies are for the cloud."""
    for name in ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"):
        monkeypatch.setenv(name, "true")
    address = "http://127.0.0.1:1"
    for made, begin in (
        (Endpoints(), "https://s3-fips.dualstack.us-east-1.amazonaws.com"),
        (Endpoints.of_emulator({"AWS_ENDPOINT_URL": address}), address),
    ):
        client = aws_client(aws_session(made, "us-east-1"), made, "s3", read_timeout=7)
        assert client.generate_presigned_url("list_buckets").startswith(f"{begin}/")
        config = client.meta.config
        assert (config.proxies, config.read_timeout) == ({} if made.is_emulator else None, 7)


def test_an_endpoint_in_clear_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{ELSEWHERE}/?x=secret")
    endpoints = Endpoints.of_environment()
    with pytest.raises(RsctlError) as raised:
        aws_client(aws_session(endpoints, "us-east-1"), endpoints, "s3")
    what = f"the endpoint is '{ELSEWHERE}/'"
    message = f"{what}, which would send credentials unencrypted over the network"
    remedy = "set AWS_ENDPOINT_URL to an https:// address, or to one on this machine"
    assert raised.value.findings == (error("endpoint", message, remedy),)


def test_the_regions_of_a_service_are_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    known = aws_regions("sagemaker")
    assert {"us-east-1", "cn-north-1", "us-gov-west-1"} <= set(known)
    assert "moon" not in known


def test_amazons_registries_go_nowhere_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR", ELSEWHERE)
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR_PUBLIC", ELSEWHERE)
    for name in ("123456789012.dkr.ecr.us-east-1.amazonaws.com/a", "public.ecr.aws/a/b"):
        place = parse_repository(name)
        assert refused(lambda place=place: CLIENT.log_in(place, Endpoints.of_environment())) == (
            f"the endpoint is {ELSEWHERE!r}, which would send credentials unencrypted "
            "over the network"
        )


def test_googles_registry_goes_nowhere_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = "CLOUDSDK_API_ENDPOINT_OVERRIDES_ARTIFACTREGISTRY"
    monkeypatch.setenv(variable, ELSEWHERE)
    host = "europe-west4-docker.pkg.dev"
    login = Login(host, "oauth2accesstoken", "ya29.secret")
    assert refused(lambda: ensure_repository(f"{host}/project/train/bert", login)) == (
        f"{variable} is {ELSEWHERE!r}, which would send credentials unencrypted over the network"
    )


@pytest.mark.parametrize("service", ["aiplatform", "storage", "logging", "iam"])
def test_googles_endpoints_go_nowhere_in_clear(
    monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    monkeypatch.setenv(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}", ELSEWHERE)
    refused(lambda: Endpoints.of_environment().google_url(service))


def test_the_services_by_which_credentials_come_are_held_to_it_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """boto3 makes a client of STS by itself for a profile that takes a role."""
    config = tmp_path / "config"
    config.write_text(
        "[profile taken]\nrole_arn = arn:aws:iam::123456789012:role/r\n"
        "source_profile = base\n[profile base]\naws_access_key_id = a\n"
        "aws_secret_access_key = b\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "taken")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", ELSEWHERE)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    aws = Aws(Endpoints.of_environment(), "us-east-1")
    assert ELSEWHERE in refused(lambda: aws.request("ecr", "describe_repositories"))


def test_an_address_that_a_client_gets_later_is_held_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoints = Endpoints.of_environment()
    made = aws_client(aws_session(endpoints, "us-east-1"), endpoints, "s3")

    def redirected(request: Any, **_: Any) -> None:
        request.url = f"{ELSEWHERE}/bucket"

    made.meta.events.register_first("before-send", redirected)
    assert ELSEWHERE in refused(made.list_buckets)


def test_a_token_is_not_renewed_in_clear() -> None:
    assert f"{ELSEWHERE}/token" in refused(
        lambda: google_request(Endpoints())(
            f"{ELSEWHERE}/token?x=secret", "POST", body=b"assertion=1"
        )
    )


def test_no_access_token_goes_out_in_clear() -> None:
    from google.oauth2.credentials import Credentials

    make: Any = Credentials
    session = google_session(make(token="ya29.secret"), Endpoints())
    message = refused(lambda: session.get(f"{ELSEWHERE}/v1?key=secret"))
    assert "secret" not in message.replace("in clear", "")


def test_why_no_answer_came_without_the_layers_around_it() -> None:
    with socket.socket() as bound:  # and nothing listens there
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(requests.ConnectionError) as caught:
            http_session(total=0).get(f"http://127.0.0.1:{bound.getsockname()[1]}/")
    reason = connection_problem(caught.value)
    assert reason.endswith("Connection refused")
    assert "host=" not in reason
    assert connection_problem(requests.ConnectionError(TimeoutError())) == "TimeoutError"
    assert len(connection_problem(OSError("x" * 1000))) == 500


def test_a_redirection_leads_nowhere_in_clear() -> None:
    session = http_session()
    refused(lambda: session.get(f"{ELSEWHERE}/", headers={"Authorization": "Bearer x"}))


def test_clients_are_made_in_one_place() -> None:
    made = re.compile(
        r"boto3\.(client|resource|Session)\(|requests\.(Session|get|post|request)\(|"
        r"AuthorizedSession|transport\.(requests|urllib3|_http_client) import|http\.client|"
        r"urllib\.request|urlopen\("
    )
    root = Path(rsctl.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if made.search(path.read_text(encoding="utf-8"))
    }
    # The session of the SDK's own estimator, which sends what it likes.
    assert found - {"targets/sagemaker/sdk/estimator.py"} == {"clients/sessions.py"}
