"""What the emulated Google services refuse, seen by google-auth's own session."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import requests
from google.auth import default
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import AuthorizedSession

from rsctl.targets.vertex.emulator.google_services import GoogleAccess
from tests.kit.builders.cloudbuild import CloudBuildEmulator

BUILDS = "/v1/projects/rehearsal/locations/us-central1/builds"
BUILD = {
    "source": {"storageSource": {"bucket": "staging", "object": "none.zip"}},
    "steps": [{"name": "gcr.io/cloud-builders/docker", "args": ["version"]}],
    "logsBucket": "gs://staging/logs",
}


@pytest.fixture
def session(google: CloudBuildEmulator) -> AuthorizedSession:
    credentials, _ = default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    return AuthorizedSession(credentials)


def error(answer: requests.Response) -> tuple[int, str, str]:
    body = answer.json()["error"]
    return answer.status_code, body["status"], body["message"]


def test_only_its_own_tokens_open_it(google: CloudBuildEmulator) -> None:
    expected = (401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
    assert error(requests.get(google.url + BUILDS)) == expected
    header = {"Authorization": "Bearer guessed"}
    assert error(requests.post(google.url + BUILDS, json=BUILD, headers=header)) == expected
    assert google.builds() == []


def test_it_says_what_it_is(google: CloudBuildEmulator) -> None:
    server = requests.get(google.url).headers["Server"]
    assert server == "rsctl emulator (made from the documentation; not the cloud)"


def test_a_foreign_key_gets_no_token(
    google: CloudBuildEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    GoogleAccess("rehearsal").write_key(tmp_path / "key.json", f"{google.url}/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    credentials, _ = default(scopes=["a"])
    with pytest.raises(RefreshError, match="Invalid JWT"):
        AuthorizedSession(credentials).get(google.url + BUILDS)


def test_the_key_is_for_its_owner_only(google: CloudBuildEmulator) -> None:
    file = Path(os.environ["GOOGLE_APPLICATION_CREDENTIALS"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bogus": 1}, 'has no field named "bogus"'),
        ({"timeout": "1 hour"}, "timeout"),
        ({"options": {"logging": "EVERYWHERE"}}, "EVERYWHERE"),
        ({"steps": []}, "invalid build: no build steps are specified"),
        ({"steps": [{"args": ["x"]}]}, "invalid build step name: a name is required"),
        (
            {"steps": [{"name": "n", "args": ["$base"]}]},
            'key in the template "base" is not a valid built-in substitution',
        ),
        ({"steps": [{"name": "n", "args": ["x"] * 101}]}, "too many arguments"),
        ({"steps": [{"name": "n", "env": ["A"]}]}, "a step's env is a list of NAME=VALUE"),
        (
            {"steps": [{"name": "n", "env": ["DOCKER_BUILDKIT=1", "PATH=/x"]}]},
            "not emulated: a step's variable PATH, which this machine's programs heed",
        ),
        ({"steps": [{"name": "n", "env": ["LD_PRELOAD=/x"]}]}, "not emulated: "),
        ({"tags": ["has space"]}, "invalid tag: 'has space'"),
        ({"logsBucket": "gs://nobody"}, "logs bucket 'nobody' does not exist"),
    ],
)
def test_a_build_that_is_wrong(
    google: CloudBuildEmulator, session: AuthorizedSession, change: dict[str, Any], message: str
) -> None:
    answer = session.post(google.url + BUILDS, json={**BUILD, **change})
    status, kind, said = error(answer)
    assert (status, kind) == (400, "INVALID_ARGUMENT")
    assert message in said


def test_a_project_of_others(google: CloudBuildEmulator, session: AuthorizedSession) -> None:
    answer = session.get(google.url + BUILDS.replace("rehearsal", "other"))
    assert error(answer)[:2] == (403, "PERMISSION_DENIED")


def test_a_source_that_is_not_there(google: CloudBuildEmulator, session: AuthorizedSession) -> None:
    created = session.post(google.url + BUILDS, json=BUILD).json()["metadata"]["build"]
    place = f"{google.url}{BUILDS}/{created['id']}"
    while (build := session.get(place).json())["status"] in ("QUEUED", "WORKING"):
        pass
    assert build["status"] == "FAILURE"
    assert build["failureInfo"]["type"] == "FETCH_SOURCE_FAILED"


def upload(google: CloudBuildEmulator, session: AuthorizedSession, name: str) -> str:
    """Open an upload; its address."""
    place = f"{google.url}/upload/storage/v1/b/staging/o?uploadType=resumable&name={name}"
    return session.post(place + "&ifGenerationMatch=0", json={}).headers["Location"]


def test_an_upload_in_blocks(google: CloudBuildEmulator, session: AuthorizedSession) -> None:
    content = os.urandom((256 << 10) + 5)
    place = upload(google, session, "a%2Fb")
    first = session.put(
        place,
        data=content[: 256 << 10],
        headers={"Content-Range": f"bytes 0-{(256 << 10) - 1}/{len(content)}"},
        allow_redirects=False,
    )
    assert (first.status_code, first.headers["Range"]) == (308, f"bytes=0-{(256 << 10) - 1}")
    last = {"Content-Range": f"bytes {256 << 10}-{len(content) - 1}/{len(content)}"}
    done = session.put(place, data=content[256 << 10 :], headers=last)
    assert (done.json()["name"], done.json()["size"]) == ("a/b", str(len(content)))
    read = session.get(
        f"{google.url}/storage/v1/b/staging/o/a%2Fb?alt=media", headers={"Range": "bytes=10-19"}
    )
    assert (read.status_code, read.content) == (206, content[10:20])


def test_an_upload_without_a_block_has_no_range(
    google: CloudBuildEmulator, session: AuthorizedSession
) -> None:
    """https://docs.cloud.google.com/storage/docs/performing-resumable-uploads#status-check"""
    place = upload(google, session, "a")
    status = session.put(place, headers={"Content-Range": "bytes */*"}, allow_redirects=False)
    assert (status.status_code, status.headers.get("Range")) == (308, None)


def test_a_block_of_an_odd_size_is_refused(
    google: CloudBuildEmulator, session: AuthorizedSession
) -> None:
    answer = session.put(
        upload(google, session, "x"), data=b"abc", headers={"Content-Range": "bytes 0-2/10"}
    )
    assert answer.status_code == 400


def test_what_is_there_is_not_replaced_unasked(
    google: CloudBuildEmulator, session: AuthorizedSession
) -> None:
    google.storage.write("staging", "x", b"there")
    place = f"{google.url}/upload/storage/v1/b/staging/o?uploadType=resumable&name=x"
    assert session.post(place + "&ifGenerationMatch=0", json={}).status_code == 412
    past = {"Range": "bytes=5-"}
    beyond = session.get(f"{google.url}/storage/v1/b/staging/o/x?alt=media", headers=past)
    assert beyond.status_code == 416
