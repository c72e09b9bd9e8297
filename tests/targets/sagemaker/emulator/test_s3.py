"""Buckets that are folders: what is uploaded is a file there, and a file there is an object."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import requests

from rsctl.targets.sagemaker.emulator import signed_addresses
from tests.targets.sagemaker.emulator.conftest import Account, client, refused


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
    for most, shown, is_truncated in ((4, 4, True), (5, 5, False)):
        page = s3.list_objects_v2(Bucket="staging", MaxKeys=most)
        assert (page["KeyCount"], page["IsTruncated"]) == (shown, is_truncated)
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


PLACE = {"Bucket": "staging", "Key": "a"}


def test_conditions_of_writes(s3: Any) -> None:
    s3.put_object(**PLACE, Body=b"1", IfNoneMatch="*")
    failed = "PreconditionFailed"
    assert refused(s3.put_object, **PLACE, Body=b"2", IfNoneMatch="*")[0] == failed
    assert refused(s3.put_object, **PLACE, Body=b"2", IfMatch='"0"')[0] == failed
    etag = s3.head_object(**PLACE)["ETag"]
    etag = s3.put_object(**PLACE, Body=b"3", IfMatch=etag)["ETag"]
    other = {**PLACE, "Key": "none"}
    assert refused(s3.put_object, **other, Body=b"2", IfMatch=etag)[0] == "NoSuchKey"
    upload = s3.create_multipart_upload(**PLACE)["UploadId"]
    part = s3.upload_part(**PLACE, UploadId=upload, PartNumber=1, Body=b"4")["ETag"]
    completed = {
        **PLACE,
        "UploadId": upload,
        "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part}]},
    }
    assert refused(s3.complete_multipart_upload, **completed, IfNoneMatch="*")[0] == failed
    assert s3.get_object(**PLACE)["Body"].read() == b"3"
    s3.complete_multipart_upload(**completed, IfMatch=etag)
    assert s3.get_object(**PLACE)["Body"].read() == b"4"


def test_conditions_of_reads_and_copies(s3: Any) -> None:
    etag = s3.put_object(**PLACE, Body=b"1")["ETag"]
    modified = s3.head_object(**PLACE)["LastModified"]
    before = modified - timedelta(hours=1)
    assert refused(s3.get_object, **PLACE, IfNoneMatch=etag)[0] == "304"
    assert refused(s3.get_object, **PLACE, IfModifiedSince=modified)[0] == "304"
    assert refused(s3.get_object, **PLACE, IfUnmodifiedSince=before)[0] == "PreconditionFailed"
    for good in ({"IfMatch": etag}, {"IfNoneMatch": '"0"'}, {"IfModifiedSince": before}):
        assert s3.get_object(**PLACE, **good)["Body"].read() == b"1"
    copy = {"Bucket": "staging", "Key": "b", "CopySource": "staging/a"}
    for bad in ({"CopySourceIfMatch": '"0"'}, {"CopySourceIfNoneMatch": etag}):
        assert refused(s3.copy_object, **copy, **bad)[0] == "PreconditionFailed"
    s3.copy_object(**copy, CopySourceIfMatch=etag)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"ContentMD5": base64.b64encode(b"0" * 16).decode()}, "BadDigest"),
        ({"ContentMD5": "bm8="}, "InvalidDigest"),
        ({"ChecksumSHA256": base64.b64encode(b"0" * 32).decode()}, "BadDigest"),
        ({"ChecksumSHA1": base64.b64encode(b"0" * 20).decode()}, "BadDigest"),
        ({"ChecksumCRC32": "AAAAAA=="}, "BadDigest"),
        ({"ChecksumCRC32C": "AAAAAA=="}, "BadDigest"),
        ({"ChecksumCRC64NVME": "AAAAAAAAAAA="}, "BadDigest"),
    ],
)
def test_what_arrives_otherwise_than_it_was_sent_is_refused(
    s3: Any, given: dict[str, str], code: str
) -> None:
    assert refused(s3.put_object, **PLACE, Body=b"123456789", **given)[0] == code
    assert keys(s3) == []


@pytest.mark.parametrize(
    ("name", "digest"),
    [  # the check values of Ross Williams' catalogue: of the bytes 123456789
        ("CRC32", "cbf43926"),
        ("CRC32C", "e3069283"),
        ("CRC64NVME", "ae8b14860a799888"),
        ("SHA1", hashlib.sha1(b"123456789").hexdigest()),
        ("SHA256", hashlib.sha256(b"123456789").hexdigest()),
    ],
)
def test_checksums_are_kept(s3: Any, name: str, digest: str) -> None:
    text = base64.b64encode(bytes.fromhex(digest)).decode()
    s3.put_object(**PLACE, Body=b"123456789", **{f"Checksum{name}": text})
    found = s3.head_object(**PLACE, ChecksumMode="ENABLED")
    assert found[f"Checksum{name}"] == text
    assert found["ETag"] == f'"{hashlib.md5(b"123456789").hexdigest()}"'


def test_what_is_said_of_an_object_is_kept(s3: Any, bucket: Path, account: Account) -> None:
    said = {
        "ContentType": "text/csv",
        "CacheControl": "no-cache",
        "ContentDisposition": 'attachment; filename="x"',
        "ContentEncoding": "gzip",
        "Metadata": {"run": "t-1", "step": "3"},
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "arn:aws:kms:us-east-1:123456789012:key/k",
        "StorageClass": "STANDARD_IA",
    }
    sent = s3.put_object(**PLACE, Body=b"1", **said)
    assert (sent["ServerSideEncryption"], sent["SSEKMSKeyId"]) == ("aws:kms", said["SSEKMSKeyId"])
    found = s3.head_object(**PLACE)
    assert {name: found.get(name) for name in said} == said
    s3.copy_object(Bucket="staging", Key="b", CopySource="staging/a")
    assert s3.head_object(Bucket="staging", Key="b")["Metadata"] == said["Metadata"]
    copy = {"Bucket": "staging", "Key": "c", "CopySource": "staging/a"}
    s3.copy_object(**copy, MetadataDirective="REPLACE", Metadata={"new": "1"})
    new = s3.head_object(Bucket="staging", Key="c")
    assert (new["Metadata"], new["ContentType"]) == ({"new": "1"}, "binary/octet-stream")
    s3.upload_fileobj(
        io.BytesIO(b"x" * (9 << 20)), "staging", "large", ExtraArgs={"Metadata": {"of": "parts"}}
    )
    large = s3.head_object(Bucket="staging", Key="large")
    assert (large["Metadata"], large["ETag"][-3:]) == ({"of": "parts"}, '-2"')
    (bucket / "a").write_bytes(b"by a container")
    assert s3.head_object(**PLACE)["Metadata"] == {}
    assert sorted(each.name for each in bucket.iterdir()) == ["a", "b", "c", "large"]


def test_folder_markers(s3: Any, bucket: Path) -> None:
    """As the console makes them, and s3fs and Hadoop look for."""
    s3.put_object(Bucket="staging", Key="set/", Body=b"")
    assert keys(s3) == ["set/"]
    assert s3.head_object(Bucket="staging", Key="set/")["ContentLength"] == 0
    s3.put_object(Bucket="staging", Key="set/a", Body=b"x")
    page = s3.list_objects_v2(Bucket="staging", Prefix="set/", Delimiter="/")
    assert [entry["Key"] for entry in page["Contents"]] == ["set/", "set/a"]
    s3.delete_object(Bucket="staging", Key="set/a")
    assert keys(s3) == ["set/"]
    s3.delete_object(Bucket="staging", Key="set/")
    assert (keys(s3), list(bucket.iterdir())) == ([], [])
    (bucket / "plain").mkdir()
    assert keys(s3) == []


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_signed_addresses(account: Account, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = client("s3", signature_version=version)
    name = {"Bucket": "staging", "Key": "a b/ü+1"}
    put = s3.generate_presigned_url("put_object", name)
    assert requests.put(put, data=b"content").status_code == 200
    shown = {**name, "ResponseContentType": "text/plain"}
    get = s3.generate_presigned_url("get_object", shown)
    answer = requests.get(get)
    assert (answer.status_code, answer.content) == (200, b"content")
    assert answer.headers["Content-Type"] == "text/plain"
    for refused_one in (requests.put(get, data=b"x"), requests.get(get.replace("b/", "c/"))):
        assert refused_one.status_code == 403
        assert code_of(refused_one) == "SignatureDoesNotMatch"
    assert requests.get(get.partition("?")[0]).status_code == 403
    own = account.emulator.environment()["AWS_ACCESS_KEY_ID"]
    assert code_of(requests.get(get.replace(own, "AKIAOTHER"))) == "InvalidAccessKeyId"
    old = s3.generate_presigned_url("get_object", name, ExpiresIn=60)
    assert code_of(requests.get(old)) == ""
    later = SimpleNamespace(time=lambda: time.time() + 61, strptime=time.strptime)
    monkeypatch.setattr(signed_addresses, "time", later)
    assert code_of(requests.get(old)) == "AccessDenied"


def code_of(answer: requests.Response) -> str:
    """The code of an error of S3."""
    return answer.text.partition("<Code>")[2].partition("</Code>")[0]


@pytest.mark.parametrize("seconds", [0, 7 * 24 * 3600 + 1])
def test_an_address_is_good_for_a_week_at_most(account: Account, seconds: int) -> None:
    s3 = client("s3", signature_version="s3v4")
    address = s3.generate_presigned_url("get_object", PLACE, ExpiresIn=seconds)
    assert code_of(requests.get(address)) == "AuthorizationQueryParametersError"


def test_uploads_by_a_form_are_not_emulated(s3: Any) -> None:
    form = s3.generate_presigned_post("staging", "a")
    answer = requests.post(form["url"], data=form["fields"], files={"file": b"x"})
    assert answer.status_code == 403


def test_parts_that_never_came_make_no_object(s3: Any) -> None:
    upload = s3.create_multipart_upload(**PLACE)["UploadId"]
    part = s3.upload_part(**PLACE, UploadId=upload, PartNumber=1, Body=b"4")["ETag"]
    for number, etag in ((2, part), (1, '"0"')):
        parts = {"Parts": [{"PartNumber": number, "ETag": etag}]}
        asked = {**PLACE, "UploadId": upload, "MultipartUpload": parts}
        assert refused(s3.complete_multipart_upload, **asked)[0] == "InvalidPart"
