"""Buckets of both clouds by one interface, in the emulators."""

from __future__ import annotations

import hashlib
import io
import os
from typing import Any

import boto3
import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import Bucket, ObjectChanged, StoredObject, Upload
from rsctl.clients.storage.buckets import open_bucket
from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.vertex.emulator import cloudstorage
from tests.targets.managed.emulator.conftest import aws as aws
from tests.targets.managed.emulator.conftest import bare_environment as bare_environment
from tests.targets.managed.emulator.conftest import google as google

MEBIBYTE = 1 << 20


@pytest.fixture(params=["gs", "s3"])
def scheme(request: pytest.FixtureRequest) -> str:
    """The kind of a bucket, whose emulator runs and has the bucket `data`."""
    if request.param == "s3":
        request.getfixturevalue("aws")
        boto3.session.Session().client("s3", "us-east-1").create_bucket(Bucket="data")
    else:
        emulator: Any = request.getfixturevalue("google")
        emulator.storage.make("data")
    return str(request.param)


def opened(scheme: str, name: str = "data") -> Bucket:
    return open_bucket(f"{scheme}://{name}", Endpoints.of_environment(), "us-east-1", "the.field")


@pytest.fixture
def bucket(scheme: str) -> Bucket:
    return opened(scheme)


def upload(content: bytes) -> Upload:
    return Upload(io.BytesIO(content), len(content), hashlib.sha256(content).hexdigest())


def listed(bucket: Bucket, name: str) -> StoredObject:
    [found] = bucket.objects(name)
    return found


def test_an_upload_is_sent_once(bucket: Bucket) -> None:
    sent: list[str] = []
    versions = {bucket.put("a/b c+%?#é", upload(b"content"), lambda: sent.append("a"))}
    versions.add(bucket.put("a/b c+%?#é", upload(b"content"), lambda: sent.append("b")))
    assert (len(versions), sent) == (1, ["a"])
    assert bucket.read("a/b c+%?#é") == b"content"


@pytest.mark.parametrize("size", [0, 1, 8 * MEBIBYTE, 8 * MEBIBYTE + 1])
def test_a_file_of_any_size_arrives_whole(bucket: Bucket, size: int) -> None:
    content = os.urandom(size)
    bucket.put("file", upload(content))
    found = listed(bucket, "file")
    assert found.size == size
    if size:
        assert b"".join(bucket.stream(found, 0)) == content


def test_small_objects_are_replaced(bucket: Bucket) -> None:
    assert bucket.load("o", 10) is None
    for content in (b"one", b"two", b""):
        bucket.replace("o", content, "text/plain")
        loaded = bucket.load("o", 10)
        assert loaded is not None
        assert loaded.data == content
    bucket.replace("o", b"0123456789", "text/plain")
    assert [getattr(bucket.load("o", most), "data", None) for most in (1, 4, 10, 20)] == [
        *(b"0", b"0123", b"0123456789", b"0123456789"),
    ]


def test_a_version_guards_against_another_writer(bucket: Bucket) -> None:
    bucket.replace("o", b"first", "text/plain", version="")
    first = bucket.load("o", 10)
    assert first is not None
    with pytest.raises(ObjectChanged):
        bucket.replace("o", b"second", "text/plain", version="")
    bucket.replace("o", b"second", "text/plain", version=first.version)
    with pytest.raises(ObjectChanged) as changed:
        bucket.replace("o", b"third", "text/plain", version=first.version)
    assert str(changed.value.findings[0].message) == (
        "'o' was replaced or removed while it was read"
    )
    assert bucket.read("o") == b"second"


def test_reads_go_on_where_the_last_one_ended(bucket: Bucket) -> None:
    content = os.urandom(4 * MEBIBYTE + 3)
    bucket.replace("log", content, "text/plain")
    first = bucket.read("log")
    assert first == content[: 4 * MEBIBYTE]
    assert bucket.read("log", len(first)) == content[-3:]
    assert bucket.read("log", len(content)) == b""
    assert bucket.read("none") == b""


def test_a_range_that_cloud_storage_passes_over_is_cut_here(
    google: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers with the whole of an object that it unpacks from gzip."""
    google.storage.make("data")
    whole, ranged = opened("gs"), cloudstorage.ranged_reply
    whole.replace("o", b"0123456789", "text/plain")
    found = listed(whole, "o")
    monkeypatch.setattr(
        cloudstorage, "ranged_reply", lambda content, _, kind: ranged(content, None, kind)
    )
    assert (whole.read("o", 4), whole.read("o", 10)) == (b"456789", b"")
    assert b"".join(whole.stream(found, 4)) == b"456789"


def test_a_list_has_the_objects_of_a_prefix_in_order(bucket: Bucket) -> None:
    for name in ("x/2", "x/1", "x-other", "y", "x/1/deep"):
        bucket.replace(name, name.encode(), "text/plain")
    assert [(o.name, o.size) for o in bucket.objects("x/")] == [
        *(("x/1", 3), ("x/1/deep", 8), ("x/2", 3)),
    ]
    assert len(list(bucket.objects(""))) == 5
    assert list(bucket.objects("z")) == []


def test_digests_are_those_of_the_content(bucket: Bucket) -> None:
    bucket.replace("o", b"content", "text/plain")
    digests = bucket.digests(listed(bucket, "o"))
    assert digests["md5"] == hashlib.md5(b"content", usedforsecurity=False).hexdigest()


def test_a_stream_begins_anywhere_and_is_of_one_version(bucket: Bucket) -> None:
    content = os.urandom(2 * MEBIBYTE + 5)
    bucket.replace("o", content, "text/plain")
    found = listed(bucket, "o")
    for offset in (0, 1, MEBIBYTE, 2 * MEBIBYTE + 4):
        assert b"".join(bucket.stream(found, offset)) == content[offset:]
    bucket.replace("o", content[::-1], "text/plain")
    with pytest.raises(ObjectChanged):
        list(bucket.stream(found, 0))
    with pytest.raises(ObjectChanged):
        list(bucket.stream(found._replace(name="none"), 0))


def test_a_question_that_fails_is_no_reason_to_upload(
    scheme: str, bucket: Bucket, request: pytest.FixtureRequest
) -> None:
    emulator = request.getfixturevalue({"gs": "google", "s3": "aws"}[scheme])
    route = {"gs": "storage.objects.get", "s3": "s3.HeadObject"}[scheme]
    emulator.faults.add(Fault(route, times=9, status=400, code="ExpiredToken"))
    sent: list[str] = []
    with pytest.raises(RsctlError):
        bucket.put("o", upload(b"x"), lambda: sent.append("o"))
    assert sent == []


def test_a_bucket_that_does_not_exist_is_named(scheme: str) -> None:
    """With the field of the job that names it."""
    missing = opened(scheme, "missing-bucket")
    for act in (
        lambda: list(missing.objects("")),
        lambda: missing.replace("o", b"", "text/plain"),
        lambda: missing.put("o", upload(b"x")),
    ):
        with pytest.raises(RsctlError) as caught:
            act()
        [finding] = caught.value.findings
        assert (finding.code, finding.path) == ("bucket", "the.field")
        assert "aws s3 mb" in str(finding.remedy) or "gcloud storage" in str(finding.remedy)
