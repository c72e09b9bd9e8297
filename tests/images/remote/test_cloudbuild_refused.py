"""What Cloud Build and its storage refuse, and what rsctl refuses to do with them."""

from __future__ import annotations

import pytest

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.faults import Fault
from tests.kit.builders.cloudbuild import CloudBuildEmulator

from .conftest import FakeDocker, Screen, Tiny, cloud_build, refusal

CREATE, SEND = "cloudbuild.builds.create", "storage.upload"

REFUSED = {
    "api": (
        Fault(CREATE, status=403, code="SERVICE_DISABLED", message="API has not been used"),
        "REFUSED",
        "api-disabled",
        "Google Cloud refuses: API has not been used",
        "enable it at https://console.developers.google.com/apis/api/cloudbuild.googleapis.com/"
        "overview?project=rehearsal, and try again after a few minutes",
        "targets.vertex",
    ),
    "permission": (
        Fault(CREATE, status=403, code="PERMISSION_DENIED", message="no cloudbuild.builds.create"),
        "REFUSED",
        "denied",
        "Google Cloud refuses: no cloudbuild.builds.create",
        "ask for the permission that the message names, or log in as another account: "
        "`gcloud auth application-default login`",
        "targets.vertex",
    ),
    "region": (
        Fault(
            CREATE,
            status=400,
            code="FAILED_PRECONDITION",
            message="due to quota restrictions, cannot run builds in this region",
        ),
        "REFUSED",
        "quota",
        "Google Cloud refuses: due to quota restrictions, cannot run builds in this region",
        "choose another region: new projects can build only in some, such as us-central1 or "
        "europe-west1 (Cloud Build, locations)",
        "targets.vertex.region",
    ),
    "quota": (
        Fault("cloudbuild.builds.list", status=429, times=99, message="Quota exceeded"),
        "REFUSED",
        "quota",
        "Google Cloud refuses: Quota exceeded",
        "wait a minute, or ask for more quota on the console's page Quotas",
        "targets.vertex",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_has_a_remedy(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen, case: str
) -> None:
    fault, *expected = REFUSED[case]
    google.faults.add(fault)
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(Tiny(), screen)
    assert list(refusal(caught.value)) == expected


def test_a_bucket_that_is_not_there(google: CloudBuildEmulator, screen: Screen) -> None:
    with pytest.raises(RsctlError) as caught:
        cloud_build(staging="gs://nobody").build(Tiny(), screen)
    assert refusal(caught.value) == (
        "REFUSED",
        "bucket",
        "bucket nobody does not exist",
        "create it: `gcloud storage buckets create gs://nobody`, or use another bucket",
        "targets.vertex.staging",
    )


def test_a_push_that_is_refused(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    program = docker.folder / "docker"
    program.write_text(program.read_text().replace('"push "*)', '"push "*) exit 1;'))
    recipe = Tiny()
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(recipe, screen)
    code, name, message, _, path = refusal(caught.value)
    assert (code, name, path) == ("REFUSED", "push", "image.repository")
    assert message == f"Cloud Build: failed to push {recipe.reference}"


def test_no_credentials(
    google: CloudBuildEmulator, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(Tiny(), screen)
    code, name, _, remedy, _ = refusal(caught.value)
    assert (code, name) == ("ENVIRONMENT", "credentials-missing")
    assert "`gcloud auth application-default login`" in remedy


def test_a_service_that_cannot_be_reached(
    google: CloudBuildEmulator, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD", "http://127.0.0.1:1")
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(Tiny(), screen)
    assert refusal(caught.value)[:2] == ("ENVIRONMENT", "network")


def test_a_token_is_not_sent_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD", "http://example.com/")
    with pytest.raises(RsctlError) as caught:
        cloud_build()
    assert refusal(caught.value)[:2] == ("ENVIRONMENT", "endpoint")


def test_an_upload_is_not_sent_elsewhere(
    google: CloudBuildEmulator, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CloudBuildEmulator, "url", "http://127.0.0.2:1", raising=False)
    builder = cloud_build()
    with pytest.raises(RsctlError) as caught:
        builder.build(Tiny(), screen)
    code, name, message, _, _ = refusal(caught.value)
    assert (code, name) == ("REFUSED", "cloud")
    assert message.startswith(
        "Cloud Storage redirects the upload to another host: 'http://127.0.0.2:1/"
    )
    assert google.count(SEND) == 0
