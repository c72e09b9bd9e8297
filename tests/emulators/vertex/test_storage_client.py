"""google-cloud-storage as it is, by the variables that the emulator prints."""

from __future__ import annotations

import io
from typing import Any

import pytest
from google.api_core.exceptions import MethodNotImplemented, NotFound

from tests.emulators.vertex.conftest import Project
from tests.kit.deferred import Deferred
from tests.kit.loopback import keep_google_auth_here

storage = Deferred("google.cloud.storage")


@pytest.fixture
def bucket(project: Project, monkeypatch: pytest.MonkeyPatch) -> Any:
    keep_google_auth_here(monkeypatch)
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    return storage.Client(project="rehearsal").bucket("staging")


def test_objects_come_and_go(project: Project, bucket: Any) -> None:
    blob = bucket.blob("a/é b.txt")
    blob.upload_from_string(b"0\r\n--=1\r\n9", content_type="application/octet-stream")
    assert blob.exists()
    assert blob.download_as_bytes() == b"0\r\n--=1\r\n9"
    assert blob.download_as_bytes(start=1, end=2) == b"\r\n"
    blob.reload()
    assert (blob.size, blob.generation is not None) == (10, True)
    blob.delete()
    assert not blob.exists()
    for call in (blob.delete, blob.download_as_bytes):
        with pytest.raises(NotFound, match="No such object: staging/a/"):
            call()


def test_a_large_object_in_parts(bucket: Any) -> None:
    content = bytes(range(256)) * 4096  # 1 MiB
    blob = bucket.blob("big", chunk_size=256 << 10)
    blob.upload_from_file(io.BytesIO(content), checksum=None)
    assert blob.download_as_bytes() == content
    size = bucket.blob("of a known size", chunk_size=256 << 10)
    with size.open("wb", checksum=None) as file:
        file.write(content)
    assert size.download_as_bytes() == content


def test_listing(bucket: Any) -> None:
    for name in ("a/1", "a/2", "b/1", "c"):
        bucket.blob(name).upload_from_string(name)
    client = bucket.client
    assert [each.name for each in client.list_blobs("staging", page_size=1)] == [
        *("a/1", "a/2", "b/1", "c")
    ]
    listing = client.list_blobs("staging", delimiter="/", page_size=2)
    assert ([each.name for each in listing], listing.prefixes) == (["c"], {"a/", "b/"})
    assert [each.name for each in client.list_blobs("staging", prefix="a/")] == ["a/1", "a/2"]
    assert [each.name for each in client.list_buckets()] == ["staging"]


def test_what_is_not_emulated_says_so(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string("a")
    assert bucket.get_blob("a", generation=1) is None
    blob.metadata = {"k": "v"}
    calls = (
        blob.patch,
        lambda: bucket.copy_blob(blob, bucket, "b"),
        lambda: list(bucket.list_blobs(versions=True)),
        lambda: bucket.client.create_bucket("another"),
    )
    for call in calls:
        with pytest.raises(MethodNotImplemented, match="not emulated by rsctl's emulator"):
            call()
