"""google-cloud-storage as it is, by the variables that the emulator prints."""

from __future__ import annotations

import io
from datetime import datetime, timezone
from typing import Any

import pytest
from google.api_core.exceptions import (
    BadRequest,
    MethodNotImplemented,
    NotFound,
    PreconditionFailed,
)

from tests.kit.deferred import Deferred
from tests.kit.loopback import keep_google_auth_here
from tests.targets.vertex.emulator.conftest import Project

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
    calls = (
        lambda: blob.update_storage_class("NEARLINE"),
        lambda: bucket.copy_blob(blob, bucket, "b"),
        lambda: list(bucket.list_blobs(versions=True)),
        lambda: bucket.client.create_bucket("another"),
    )
    for call in calls:
        with pytest.raises(MethodNotImplemented, match="not emulated by rsctl's emulator"):
            call()


def test_what_a_client_says_of_an_object_is_kept(bucket: Any) -> None:
    blob = bucket.blob("notes.txt")
    blob.metadata = {"step": "5"}
    blob.cache_control = "no-store"
    blob.upload_from_string("123456789", content_type="text/plain")
    found = bucket.get_blob("notes.txt")
    assert (found.content_type, found.metadata, found.cache_control) == (
        "text/plain",
        {"step": "5"},
        "no-store",
    )
    assert (found.crc32c, found.storage_class, found.metageneration) == ("4waSgw==", "STANDARD", 1)
    assert found.etag
    assert abs((datetime.now(timezone.utc) - found.time_created).total_seconds()) < 600
    found.metadata = {"step": "6"}
    found.patch()
    again = bucket.get_blob("notes.txt")
    assert (again.metadata, again.metageneration) == ({"step": "6"}, 2)
    assert again.generation == found.generation
    blob = bucket.blob("notes.txt")
    blob.upload_from_string("new")
    assert bucket.get_blob("notes.txt").metadata is None


def test_preconditions(bucket: Any) -> None:
    blob = bucket.blob("lock")
    blob.upload_from_string("1", if_generation_match=0)
    first = blob.generation
    with pytest.raises(PreconditionFailed):
        blob.upload_from_string("2", if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        blob.upload_from_string("2", if_generation_match=first + 1)
    with pytest.raises(PreconditionFailed):
        bucket.blob("none").upload_from_string("2", if_generation_match=first)
    with pytest.raises(PreconditionFailed):
        blob.upload_from_string("2", if_metageneration_match=2)
    assert blob.download_as_bytes() == b"1"
    blob.upload_from_string("2", if_generation_match=first)
    with pytest.raises(PreconditionFailed):
        blob.delete(if_generation_match=first)
    with pytest.raises(PreconditionFailed):
        blob.download_as_bytes(if_generation_match=first)
    blob.delete(if_generation_match=blob.generation)
    assert bucket.get_blob("lock") is None


def test_a_resumable_upload_is_refused_if_the_object_changed_meanwhile(bucket: Any) -> None:
    blob = bucket.blob("big")
    writer = blob.open("wb", if_generation_match=0, chunk_size=256 << 10)
    writer.write(b"x" * (300 << 10))
    bucket.blob("big").upload_from_string("other")
    with pytest.raises(Exception, match="412"):
        writer.close()
    assert bucket.blob("big").download_as_bytes() == b"other"


def test_a_hash_that_does_not_fit_is_refused(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.md5_hash = "1B2M2Y8AsgTpgAmY7PhCfg=="
    with pytest.raises(BadRequest, match="doesn't match calculated MD5 hash"):
        blob.upload_from_string("a", checksum=None)
    assert bucket.get_blob("a") is None
