"""Log-ins from Google's credentials, by google-auth itself against a token server on loopback."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from rsctl.findings import RsctlError
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.operations import ensure_repository, login_for

from .conftest import Request, Script, StartScript, refusal

HOST = "europe-west4-docker.pkg.dev"
REPOSITORY = f"{HOST}/my-project/train/bert"
Answer = tuple[int, dict[str, str], bytes]


def use_service_account(
    script: Script, folder: Path, monkeypatch: pytest.MonkeyPatch, **more: object
) -> None:
    """The file of a service account whose token server is the script's."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    content = {
        "type": "service_account",
        "client_email": "train@my-project.iam.gserviceaccount.com",
        "private_key": pem.decode(),
        "private_key_id": "1",
        "project_id": "my-project",
        "token_uri": f"{script.url}/token",
        **more,
    }
    (folder / "account.json").write_text(json.dumps(content))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(folder / "account.json"))


def claims(request: Request) -> dict[str, object]:
    """What a service account asks for: the middle part of its signed assertion."""
    assertion = parse_qs(request.body.decode())["assertion"][0].split(".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(assertion + "=="))
    return found


def test_a_service_account_gets_an_access_token(
    serve: StartScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = {"access_token": "ya29.short", "expires_in": 3599, "token_type": "Bearer"}
    script = serve(lambda request: (200, {}, json.dumps(token).encode()))
    use_service_account(script, tmp_path, monkeypatch)
    assert login_for(REPOSITORY) == Login(HOST, "oauth2accesstoken", "ya29.short")
    (request,) = script.requests
    asked = claims(request)
    assert asked["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert asked["iss"] == "train@my-project.iam.gserviceaccount.com"
    assert login_for("gcr.io/my-project/bert") == Login("gcr.io", "oauth2accesstoken", "ya29.short")


def test_credentials_that_are_not_renewed(
    serve: StartScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
    script = serve(lambda request: (400, {}, json.dumps(problem).encode()))
    use_service_account(script, tmp_path, monkeypatch)
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    assert refusal(refused.value) == (
        *("ENVIRONMENT", "credentials-expired"),
        "Google Cloud does not accept the credentials: invalid_grant: Token has been expired or "
        "revoked.",
        "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the "
        "file of a service account",
    )


def test_nobody_answers(
    serve: StartScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = serve(lambda request: (200, {}, b""))
    script.host = "127.0.0.1:1"
    use_service_account(script, tmp_path, monkeypatch)
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    assert refusal(refused.value)[:2] == ("ENVIRONMENT", "network")


def test_no_credentials(bare_home: Path) -> None:
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    exit_code, code, message, remedy = refusal(refused.value)
    assert (exit_code, code) == ("ENVIRONMENT", "credentials-missing")
    assert message.startswith("there are no Google Cloud credentials: ")
    assert remedy.startswith("run `gcloud auth application-default login`")


def test_a_file_that_is_no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "account.json").write_text('{"type": "nonsense"}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    with pytest.raises(RsctlError) as refused:
        login_for(REPOSITORY)
    exit_code, code, message, _ = refusal(refused.value)
    assert (exit_code, code) == ("ENVIRONMENT", "credentials-missing")
    assert str(tmp_path / "account.json") in message


def test_without_cloud_credentials_dockers_own_log_in_is_used(bare_home: Path) -> None:
    (bare_home / ".docker").mkdir()
    auths = {HOST: {"auth": base64.b64encode(b"oauth2accesstoken:stored").decode()}}
    (bare_home / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    assert login_for(REPOSITORY) is None


def test_a_registry_of_no_cloud_asks_nobody() -> None:
    assert login_for("registry.example/a") is None
    assert login_for("localhost:5000/a") is None


LOGIN = Login(HOST, "oauth2accesstoken", "ya29.short")
API = "CLOUDSDK_API_ENDPOINT_OVERRIDES_ARTIFACTREGISTRY"


def test_a_repository_that_exists(serve: StartScript, monkeypatch: pytest.MonkeyPatch) -> None:
    script = serve(lambda request: (200, {}, b'{"format": "DOCKER"}'))
    monkeypatch.setenv(API, f"{script.url}/")
    ensure_repository(REPOSITORY, LOGIN)
    (request,) = script.requests
    assert request.path == "/v1/projects/my-project/locations/europe-west4/repositories/train"
    assert request.headers["Authorization"] == "Bearer ya29.short"


def test_a_repository_that_is_missing(serve: StartScript, monkeypatch: pytest.MonkeyPatch) -> None:
    script = serve(lambda request: (404, {}, b'{"error": {"status": "NOT_FOUND"}}'))
    monkeypatch.setenv(API, script.url)
    with pytest.raises(RsctlError) as refused:
        ensure_repository(REPOSITORY, LOGIN)
    assert refusal(refused.value) == (
        *("REFUSED", "repository-missing"),
        "Artifact Registry has no repository 'train' in project my-project, location europe-west4",
        "run `gcloud artifacts repositories create train --project=my-project "
        "--location=europe-west4 --repository-format=docker`, or correct image.repository",
    )


def test_a_repository_for_something_else(
    serve: StartScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = serve(lambda request: (200, {}, b'{"format": "PYTHON"}'))
    monkeypatch.setenv(API, script.url)
    with pytest.raises(RsctlError) as refused:
        ensure_repository(REPOSITORY, LOGIN)
    assert refusal(refused.value)[:3] == (
        *("REFUSED", "repository-format"),
        "repository 'train' in project my-project, location europe-west4 is for PYTHON, "
        "not for images",
    )


def test_who_may_not_look_learns_from_the_push(
    serve: StartScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = serve(lambda request: (403, {}, b"{}"))
    monkeypatch.setenv(API, script.url)
    ensure_repository(REPOSITORY, LOGIN)
    assert len(script.requests) == 1
