"""Buckets of S3."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError, aws_errors
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import next_page, no_answer
from rsctl.clients.storage import (
    LoadedObject,
    ObjectChanged,
    StoredObject,
    Upload,
    hexadecimal,
)

_READ = 4 << 20
_STREAMED = 1 << 20
_TRIES_OF_A_PART = 6
_MD5 = re.compile(r"[0-9a-f]{32}")
_DIRECTORY_BUCKET = "--x-s3"  # whose ETags are not digests
_ENCRYPTIONS_WITH_MD5 = (None, "AES256")
_NOT_WRITTEN = (
    *("PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey", "404"),
)
_MISSING = ("NoSuchKey", "404")
_CHANGED = ("PreconditionFailed", "412", "NoSuchKey", "404", "InvalidRange", "416")


class S3Bucket:
    """See rsctl.clients.storage.Bucket."""

    def __init__(
        self, endpoints: Endpoints, name: str, region: str | None, path: str | None = None
    ) -> None:
        self._aws = Aws(endpoints, region, path)
        self._bucket, self._path = name, path

    def put(self, name: str, upload: Upload, announce: Callable[[], object] = bool) -> str:
        """See Bucket.put."""
        # Of a missing bucket it says 404 too; without leave to list, it says 403 of both.
        if self._ask("head_object", name, ("404", "403")) is None:
            announce()
            self._upload(name, upload)
        return ""

    def replace(
        self, name: str, data: bytes, content_type: str, version: str | None = None
    ) -> None:
        """See Bucket.replace."""
        written = {"Bucket": self._bucket, "Key": name, "Body": data, "ContentType": content_type}
        if version is not None:
            written |= {"IfMatch": version} if version else {"IfNoneMatch": "*"}
        try:
            self._aws.request("s3", "put_object", written)
        except AwsError as problem:
            if version is not None and problem.code in _NOT_WRITTEN:
                raise ObjectChanged(name) from None
            raise

    def load(self, name: str, most: int) -> LoadedObject | None:
        """See Bucket.load; the version is the ETag."""
        answer = self._ask("get_object", name, _MISSING)
        if answer is None:
            return None
        with aws_errors("s3", self._path, None):
            content: bytes = answer["Body"].read(most)
            answer["Body"].close()
        return LoadedObject(content, str(answer.get("ETag", "")))

    def read(self, name: str, offset: int = 0) -> bytes:
        """See Bucket.read."""
        block = f"bytes={offset}-{offset + _READ - 1}"
        answer = self._ask("get_object", name, (*_MISSING, "InvalidRange", "416"), Range=block)
        if answer is None:
            return b""
        with aws_errors("s3", self._path, None):
            content: bytes = answer["Body"].read()
        return content

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """See Bucket.objects."""
        query = {"Bucket": self._bucket, "Prefix": prefix}
        while True:
            answer = self._aws.request("s3", "list_objects_v2", query)
            for item in answer.get("Contents", ()):
                yield StoredObject(item["Key"], int(item["Size"]), item["ETag"])
            more = answer.get("NextContinuationToken") if answer.get("IsTruncated") else None
            token = next_page("s3", more, query.get("ContinuationToken"))
            if not token:
                return
            query["ContinuationToken"] = token

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """See Bucket.digests. Checksums of parts are not checksums of the content."""
        wanted = {"IfMatch": found.version, "ChecksumMode": "ENABLED"}
        answer = self._ask("head_object", found.name, _CHANGED, **wanted)
        if answer is None:
            raise ObjectChanged(found.name)
        digests = {}
        if answer.get("ChecksumType") != "COMPOSITE":
            for name in ("SHA256", "SHA1", "CRC32C", "CRC32"):
                if value := hexadecimal(answer.get(f"Checksum{name}")):
                    digests[name.lower()] = value
        etag = found.version.strip('"')
        is_md5 = (
            _MD5.fullmatch(etag)
            and answer.get("ServerSideEncryption") in _ENCRYPTIONS_WITH_MD5
            and "SSECustomerAlgorithm" not in answer
            and not self._bucket.endswith(_DIRECTORY_BUCKET)
        )
        return {**digests, **({"md5": etag} if is_md5 else {})}

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See Bucket.stream."""
        import urllib3
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        wanted = {"IfMatch": found.version, "Range": f"bytes={offset}-"}
        answer = self._ask("get_object", found.name, _CHANGED, **wanted)
        if answer is None:
            raise ObjectChanged(found.name)
        body = answer["Body"]
        try:
            while block := body.read(_STREAMED):
                yield block
        except (
            HTTPClientError,
            IncompleteReadError,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as lost:
            raise no_answer("s3", str(lost)[:200]) from None
        finally:
            body.close()

    def _ask(
        self, operation: str, name: str, codes: tuple[str, ...], **wanted: str
    ) -> dict[str, Any] | None:
        """The answer to a request for an object; None for an error with one of these codes.

        S3 answers a HEAD that it refuses, such as with an expired token, with 400 alone; the answer
        to a GET has the reason.
        """
        asked = {"Bucket": self._bucket, "Key": name, **wanted}
        try:
            return self._aws.request("s3", operation, asked)
        except AwsError as problem:
            if operation == "head_object" and problem.code == "400":
                first = self._aws.request("s3", "get_object", {**asked, "Range": "bytes=0-0"})
                first["Body"].close()
            if problem.code not in codes:
                raise
            return None

    def _upload(self, name: str, upload: Upload) -> None:
        """In parts, which boto3 itself sends again."""
        from boto3.exceptions import S3UploadFailedError
        from boto3.s3.transfer import TransferConfig
        from botocore.exceptions import ClientError

        upload.file.seek(0)
        # It would close a file that it does not own: the threads stay out of it too.
        config = TransferConfig(use_threads=False)
        with aws_errors("s3", self._path, None):
            try:
                self._aws.client("s3", _TRIES_OF_A_PART).upload_fileobj(
                    upload.file,
                    self._bucket,
                    name,
                    ExtraArgs={"ContentType": upload.content_type},
                    Config=config,
                )
            except S3UploadFailedError as problem:
                cause = problem.__cause__ or problem.__context__
                if isinstance(cause, ClientError):
                    raise cause from None
                raise
