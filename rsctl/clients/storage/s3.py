"""Buckets of S3."""

from __future__ import annotations

from collections.abc import Callable

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError, aws_errors
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import Upload

_READ = 4 << 20
_TRIES_OF_A_PART = 6


class S3Bucket:
    """See rsctl.clients.storage.Bucket."""

    def __init__(
        self, endpoints: Endpoints, name: str, region: str | None, path: str | None = None
    ) -> None:
        self._aws = Aws(endpoints, region, path)
        self._bucket, self._path = name, path

    def put(self, name: str, upload: Upload, announce: Callable[[], object] = bool) -> str:
        """See Bucket.put."""
        try:
            self._aws.request("s3", "head_object", {"Bucket": self._bucket, "Key": name})
        except AwsError as problem:
            # Of a missing bucket it says 404 too; without leave to list, it says 403 of both.
            if problem.code not in ("404", "403"):
                raise
            announce()
            self._upload(name, upload)
        return ""

    def replace(self, name: str, data: bytes, content_type: str) -> None:
        """See Bucket.replace."""
        written = {"Bucket": self._bucket, "Key": name, "Body": data, "ContentType": content_type}
        self._aws.request("s3", "put_object", written)

    def read(self, name: str, offset: int = 0) -> bytes:
        """See Bucket.read."""
        block = f"bytes={offset}-{offset + _READ - 1}"
        wanted = {"Bucket": self._bucket, "Key": name, "Range": block}
        try:
            answer = self._aws.request("s3", "get_object", wanted)
        except AwsError as problem:
            if problem.code in ("NoSuchKey", "404", "InvalidRange", "416"):
                return b""
            raise
        with aws_errors("s3", self._path, None):
            content: bytes = answer["Body"].read()
        return content

    def _upload(self, name: str, upload: Upload) -> None:
        """In parts, which boto3 itself sends again."""
        from boto3.exceptions import S3UploadFailedError
        from boto3.s3.transfer import TransferConfig
        from botocore.exceptions import ClientError

        upload.file.seek(0)
        # It closes what it was given, which is not its own: the threads stay out of it too.
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
