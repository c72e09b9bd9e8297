"""Each call of S3, and what its answers mean, by boto3's names."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import IncompleteReadError

from rsctl.clients.aws_errors import AwsError, aws_error
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer
from rsctl.clients.storage import LoadedObject, ObjectChanged, StoredObject, Upload
from rsctl.clients.storage.s3 import S3Bucket
from rsctl.findings import RsctlError

OBJECT = {"Bucket": "data", "Key": "o"}
ETAG = '"0123456789abcdef0123456789abcdef"'
FOUND = StoredObject("o", 9, ETAG)


class Service:
    """Answers in order; a text is the code of an error."""

    def __init__(self, *answers: dict[str, Any] | str) -> None:
        self.answers, self.calls = list(answers), list[tuple[str, dict[str, Any]]]()

    def request(
        self, service: str, operation: str, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        assert service == "s3"
        self.calls.append((operation, dict(parameters)))
        given = self.answers.pop(0)
        if isinstance(given, str):
            raise aws_error(given, "why", "x")
        return given


def bucket(*answers: dict[str, Any] | str, name: str = "data") -> tuple[S3Bucket, Service]:
    made, service = S3Bucket(Endpoints(), name, "us-east-1", "x"), Service(*answers)
    made._aws = service  # type: ignore[assignment]
    return made, service


class Body:
    """The content of an answer, in blocks."""

    def __init__(self, *blocks: bytes | Exception) -> None:
        self.blocks, self.asked, self.is_closed = list(blocks), list[int](), False

    def read(self, most: int = -1) -> bytes:
        self.asked.append(most)
        block = self.blocks.pop(0) if self.blocks else b""
        if isinstance(block, Exception):
            raise block
        return block if most < 0 else block[:most]

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken"])
def test_a_refusal_of_head_has_the_reason_of_get(code: str) -> None:
    """An answer to HEAD has no body: https://github.com/boto/botocore/issues/1400."""
    first = {**OBJECT, "Range": "bytes=0-0"}
    made, service = bucket("400", code)
    with pytest.raises(AwsError) as refused:
        made.digests(FOUND)
    assert refused.value.code == code
    assert service.calls[1:] == [
        ("get_object", {**first, "IfMatch": ETAG, "ChecksumMode": "ENABLED"})
    ]
    made, service = bucket("400", code)
    with pytest.raises(AwsError) as refused:
        made.put("o", Upload(io.BytesIO(), 0, ""))
    assert refused.value.code == code
    assert service.calls[1:] == [("get_object", first)]
    body = Body()
    made, service = bucket("400", {"Body": body})
    with pytest.raises(AwsError) as refused:
        made.digests(FOUND)
    assert (refused.value.code, body.is_closed) == ("400", True)


@pytest.mark.parametrize(
    ("version", "condition"),
    [(None, {}), ("", {"IfNoneMatch": "*"}), ("v", {"IfMatch": "v"})],
)
def test_a_small_object_is_written_on_a_condition(
    version: str | None, condition: dict[str, str]
) -> None:
    made, service = bucket({})
    made.replace("o", b"x", "text/plain", version)
    written = {**OBJECT, "Body": b"x", "ContentType": "text/plain", **condition}
    assert service.calls == [("put_object", written)]


@pytest.mark.parametrize(
    "code",
    ["PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey", "404"],
)
def test_an_object_of_another_version_is_not_replaced(code: str) -> None:
    for version in ("", "v"):
        with pytest.raises(ObjectChanged):
            bucket(code)[0].replace("o", b"x", "text/plain", version)
    with pytest.raises(AwsError) as caught:
        bucket(code)[0].replace("o", b"x", "text/plain")
    assert caught.value.code == code


@pytest.mark.parametrize("code", ["NoSuchKey", "404"])
def test_an_object_that_does_not_exist(code: str) -> None:
    assert bucket(code)[0].load("o", 9) is None
    assert bucket(code)[0].read("o") == b""


@pytest.mark.parametrize("code", ["InvalidRange", "416"])
def test_there_is_nothing_after_the_end(code: str) -> None:
    assert bucket(code)[0].read("o", 9) == b""
    with pytest.raises(AwsError):
        bucket(code)[0].load("o", 9)


def test_a_small_object_is_loaded() -> None:
    body = Body(b"0123456")
    made, service = bucket({"Body": body, "ETag": ETAG})
    assert made.load("o", 4) == LoadedObject(b"0123", ETAG)
    assert (service.calls, body.is_closed) == ([("get_object", OBJECT)], True)
    assert bucket({"Body": Body()})[0].load("o", 4) == LoadedObject(b"", "")


def test_a_part_of_an_object_is_read() -> None:
    made, service = bucket({"Body": Body(b"34")})
    assert made.read("o", 3) == b"34"
    assert service.calls == [("get_object", {**OBJECT, "Range": f"bytes=3-{(4 << 20) + 2}"})]


@pytest.mark.parametrize(
    "act",
    [
        lambda made: made.load("o", 9),
        lambda made: made.read("o"),
        lambda made: made.digests(FOUND),
        lambda made: list(made.stream(FOUND, 0)),
        lambda made: made.put("o", Upload(io.BytesIO(), 0, "")),
        lambda made: made.replace("o", b"", "text/plain", ""),
        lambda made: list(made.objects("")),
    ],
)
def test_other_errors_are_the_callers(act: Callable[[S3Bucket], object]) -> None:
    with pytest.raises(AwsError) as caught:
        act(bucket("ExpiredToken")[0])
    assert (caught.value.code, caught.value.findings[0].path) == ("ExpiredToken", "x")


def test_a_list_comes_by_pages() -> None:
    item = {"Key": "o", "Size": 9, "ETag": ETAG}
    more = {"IsTruncated": True, "NextContinuationToken": "more"}
    made, service = bucket({"Contents": [item], **more}, {"Contents": [item]})
    assert list(made.objects("a/")) == [FOUND, FOUND]
    query = {"Bucket": "data", "Prefix": "a/"}
    assert service.calls == [
        ("list_objects_v2", query),
        ("list_objects_v2", {**query, "ContinuationToken": "more"}),
    ]
    for last in ({"IsTruncated": True}, {"NextContinuationToken": "more"}, {}):
        assert list(bucket(last)[0].objects("")) == []


def test_a_list_that_repeats_its_page_ends() -> None:
    page = {"IsTruncated": True, "NextContinuationToken": "more"}
    made, service = bucket(*[page] * 5)
    with pytest.raises(NoAnswer, match="it repeats a page of its list"):
        list(made.objects(""))
    assert len(service.calls) == 2


MD5 = ETAG.strip('"')


@pytest.mark.parametrize(
    ("answer", "version", "name", "digests"),
    [
        ({}, ETAG, "data", {"md5": MD5}),
        ({"ServerSideEncryption": "AES256"}, ETAG, "data", {"md5": MD5}),
        ({"ServerSideEncryption": "aws:kms"}, ETAG, "data", {}),
        ({"SSECustomerAlgorithm": "AES256"}, ETAG, "data", {}),
        ({}, f'"{MD5}-2"', "data", {}),  # of several parts
        ({}, ETAG, "data--use1-az4--x-s3", {}),  # a directory bucket
        (
            {
                "ChecksumSHA256": "AAE=",
                "ChecksumSHA1": "AAI=",
                "ChecksumCRC32C": "AAM=",
                "ChecksumCRC32": "AAQ=",
                "ChecksumType": "FULL_OBJECT",
            },
            '"odd"',
            "data",
            {"sha256": "0001", "sha1": "0002", "crc32c": "0003", "crc32": "0004"},
        ),
        ({"ChecksumCRC32": "AAQ=", "ChecksumType": "COMPOSITE"}, ETAG, "data", {"md5": MD5}),
        ({"ChecksumCRC32": "AAQ=-3", "ChecksumSHA1": ""}, ETAG, "data", {"md5": MD5}),
    ],
)
def test_what_is_known_of_the_content(
    answer: dict[str, str], version: str, name: str, digests: dict[str, str]
) -> None:
    made, service = bucket(answer, name=name)
    assert made.digests(FOUND._replace(version=version)) == digests
    wanted = {"Bucket": name, "Key": "o", "IfMatch": version, "ChecksumMode": "ENABLED"}
    assert service.calls == [("head_object", wanted)]


@pytest.mark.parametrize(
    "code", ["PreconditionFailed", "412", "NoSuchKey", "404", "InvalidRange", "416"]
)
def test_an_object_that_has_changed(code: str) -> None:
    with pytest.raises(ObjectChanged):
        bucket(code)[0].digests(FOUND)
    with pytest.raises(ObjectChanged):
        list(bucket(code)[0].stream(FOUND, 0))


def test_a_stream_is_of_one_version_from_an_offset() -> None:
    body = Body(b"45", b"678")
    made, service = bucket({"Body": body})
    assert list(made.stream(FOUND, 4)) == [b"45", b"678"]
    wanted = {**OBJECT, "IfMatch": ETAG, "Range": "bytes=4-"}
    assert (service.calls, body.is_closed) == ([("get_object", wanted)], True)
    assert set(body.asked) == {1 << 20}


@pytest.mark.parametrize(
    "problem",
    [OSError("cut" * 99), IncompleteReadError(actual_bytes=1, expected_bytes=2)],
)
def test_a_stream_that_is_cut_gives_no_answer(problem: Exception) -> None:
    body = Body(b"4", problem)
    with pytest.raises(NoAnswer) as caught:
        list(bucket({"Body": body})[0].stream(FOUND, 4))
    assert (caught.value.reason, body.is_closed) == (str(problem)[:200], True)
    assert caught.value.findings[0].message == f"s3 gives no answer: {str(problem)[:200]}"


class Uploader:
    """boto3's client, as far as it uploads."""

    def __init__(self) -> None:
        self.uploads: list[tuple[Any, ...]] = []

    def upload_fileobj(self, file: Any, *place: str, ExtraArgs: Any, Config: Any) -> None:
        self.uploads.append((file.read(), *place, ExtraArgs, Config.use_threads))


@pytest.mark.parametrize("code", ["404", "403", None])
def test_an_object_is_sent_unless_it_exists(code: str | None) -> None:
    """Without leave to list, S3 says 403 of an object that does not exist."""
    made, service = bucket(code or {})
    uploader, asked, announced = Uploader(), list[tuple[str, int]](), list[int]()

    def client(name: str, tries: int) -> Uploader:
        asked.append((name, tries))
        return uploader

    service.client = client  # type: ignore[attr-defined]
    file = io.BytesIO(b"content")
    file.seek(3)
    upload = Upload(file, 7, "", "text/x")
    assert made.put("o", upload, lambda: announced.append(1)) == ""
    assert service.calls == [("head_object", OBJECT)]
    if code is None:
        assert (uploader.uploads, announced) == ([], [])
        return
    sent = (b"content", "data", "o", {"ContentType": "text/x"}, False)
    assert (uploader.uploads, asked, announced) == ([sent], [("s3", 6)], [1])


def test_an_upload_that_fails_has_the_services_error() -> None:
    from boto3.exceptions import S3UploadFailedError
    from botocore.exceptions import ClientError

    cause = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutObject")

    class Failing(Uploader):
        def upload_fileobj(self, *_: Any, **__: Any) -> None:
            raise S3UploadFailedError("failed") from cause

    made, service = bucket("404")
    service.client = lambda *_: Failing()  # type: ignore[attr-defined]
    with pytest.raises(RsctlError) as caught:
        made.put("o", Upload(io.BytesIO(), 0, ""))
    [finding] = caught.value.findings
    assert (finding.code, finding.path) == ("denied", "x")
    assert finding.message == "AWS refuses: no: it requires s3:PutObject (AccessDenied)"
