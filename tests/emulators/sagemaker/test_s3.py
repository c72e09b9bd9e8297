"""Buckets that are folders: what is uploaded is a file there, and a file there is an object."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests

from tests.emulators.sagemaker.conftest import Account, client, refused


@pytest.fixture
def s3(account: Account) -> Any:
    return client("s3")


@pytest.fixture
def bucket(account: Account) -> Path:
    return account.folder / "s3" / "staging"


def keys(s3: Any, **wanted: Any) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="staging", **wanted)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def test_an_upload_is_a_file_and_a_file_an_object(s3: Any, bucket: Path) -> None:
    large = os.urandom(9 << 20)
    s3.upload_fileobj(io.BytesIO(large), "staging", "a/large")
    s3.put_object(Bucket="staging", Key="a/small", Body=b"small")
    assert (bucket / "a" / "large").read_bytes() == large
    (bucket / "model").write_bytes(b"weights")
    assert s3.get_object(Bucket="staging", Key="model")["Body"].read() == b"weights"
    assert s3.head_object(Bucket="staging", Key="model")["ContentLength"] == 7
    into = io.BytesIO()
    s3.download_fileobj("staging", "a/large", into)
    assert into.getvalue() == large
    ranged = s3.get_object(Bucket="staging", Key="model", Range="bytes=2-3")
    assert (ranged["Body"].read(), ranged["ContentRange"]) == (b"ig", "bytes 2-3/7")
    s3.copy_object(Bucket="staging", Key="b", CopySource="staging/model")
    assert (bucket / "b").read_bytes() == b"weights"


def test_lists(s3: Any, account: Account) -> None:
    for key in ("a/1", "a/2", "a/b/3", "ab", "with space & <mark>"):
        s3.put_object(Bucket="staging", Key=key, Body=b"x")
    everything = ["a/1", "a/2", "a/b/3", "ab", "with space & <mark>"]
    assert keys(s3) == everything
    assert keys(s3, PaginationConfig={"PageSize": 2}) == everything
    assert keys(s3, Prefix="a/") == ["a/1", "a/2", "a/b/3"]
    assert keys(s3, StartAfter="a/2") == everything[2:]
    page = s3.list_objects_v2(Bucket="staging", Delimiter="/")
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["a/"]
    assert [entry["Key"] for entry in page["Contents"]] == ["ab", "with space & <mark>"]
    (entry,) = s3.list_objects_v2(Bucket="staging", Prefix="ab")["Contents"]
    head = s3.head_object(Bucket="staging", Key="ab")
    assert (entry["Size"], entry["ETag"]) == (1, head["ETag"])
    of_resource = boto3.resource("s3").Bucket("staging").objects.filter(Prefix="a/b")
    assert [each.key for each in of_resource] == ["a/b/3"]


def test_buckets(s3: Any, account: Account) -> None:
    (account.folder / "s3" / "mine").mkdir()
    s3.create_bucket(Bucket="made")
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == ["made", "mine", "staging"]
    s3.head_bucket(Bucket="mine")
    assert refused(s3.head_bucket, Bucket="none")[0] == "404"
    assert refused(s3.list_objects_v2, Bucket="none")[0] == "NoSuchBucket"
    assert s3.get_bucket_location(Bucket="mine")["LocationConstraint"] is None


def test_what_is_deleted_leaves_no_folders(s3: Any, bucket: Path) -> None:
    for key in ("a/b/1", "a/b/2", "c"):
        s3.put_object(Bucket="staging", Key=key, Body=b"x")
    s3.delete_object(Bucket="staging", Key="none")
    s3.delete_object(Bucket="staging", Key="c")
    entries = [{"Key": key} for key in ("a/b/1", "a/b/2")]
    s3.delete_objects(Bucket="staging", Delete={"Objects": entries})
    assert list(bucket.iterdir()) == []


def test_names_that_are_no_files_are_refused(s3: Any, account: Account, tmp_path: Path) -> None:
    s3.put_object(Bucket="staging", Key="file", Body=b"x")
    for key in ("a/../../escape", "a//b", "file/below"):
        assert refused(s3.put_object, Bucket="staging", Key=key, Body=b"x")[0] == "InvalidRequest"
    key = account.emulator.environment()["AWS_ACCESS_KEY_ID"]
    signed = f"AWS4-HMAC-SHA256 Credential={key}/20261121/us-east-1/s3/aws4_request, Signature=0"
    place = f"{account.emulator.url}/staging/%2e%2e/%2e%2e/escape"
    answer = requests.put(place, data=b"x", headers={"Authorization": signed})
    assert answer.status_code == 400
    assert list(tmp_path.rglob("escape")) == []


def test_links_lead_nowhere(s3: Any, bucket: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    (bucket / "link").symlink_to(tmp_path / "secret")
    (bucket / "up").symlink_to(tmp_path)
    for key in ("link", "up/secret"):
        assert refused(s3.get_object, Bucket="staging", Key=key)[0] == "NoSuchKey"
    assert refused(s3.put_object, Bucket="staging", Key="up/new", Body=b"")[0] == "InvalidRequest"
    assert keys(s3) == []


def test_parts_that_are_copied(s3: Any, bucket: Path) -> None:
    """What transfers of large objects from bucket to bucket are made of."""
    (bucket / "source").write_bytes(b"0123456789")
    place = {"Bucket": "staging", "Key": "whole"}
    upload = s3.create_multipart_upload(**place)["UploadId"]
    copied = {**place, "UploadId": upload, "CopySource": "staging/source"}
    ranges = {1: "bytes=5-9", 2: "bytes=0-4"}
    parts = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part_copy(**copied, PartNumber=number, CopySourceRange=wanted)[
                "CopyPartResult"
            ]["ETag"],
        }
        for number, wanted in ranges.items()
    ]
    assert refused(s3.upload_part_copy, **copied, PartNumber=3, CopySourceRange="bytes=0-10") == (
        "InvalidArgument",
        "Range specified is not valid for source object",
    )
    s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})
    assert (bucket / "whole").read_bytes() == b"5678901234"


def test_what_is_not_emulated_is_no_empty_answer(s3: Any) -> None:
    s3.put_object(Bucket="staging", Key="a", Body=b"x")
    for call in (s3.get_object_tagging, s3.get_object_acl):
        assert refused(call, Bucket="staging", Key="a")[0] == "NotImplemented"
    assert refused(s3.list_multipart_uploads, Bucket="staging")[0] == "NotImplemented"
    versions = {"Bucket": "staging", "VersioningConfiguration": {"Status": "Enabled"}}
    assert refused(s3.put_bucket_versioning, **versions)[0] == "NotImplemented"
