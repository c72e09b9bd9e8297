"""S3, as far as rsctl needs it: upload a file once."""

from __future__ import annotations

from collections.abc import Callable

from rsctl.clients.archive import Archive
from rsctl.clients.aws import client, code_of, findings

STAGING = "targets.sagemaker.staging"
"""The field that names the bucket."""


class Bucket:
    """One bucket. Raises RsctlError."""

    def __init__(self, name: str, region: str | None) -> None:
        self._name = name
        self._s3 = client("s3", region)

    def put(self, key: str, archive: Archive, announce: Callable[[], object] = bool) -> None:
        """Have the archive under a content-addressed name.

        What is there already is not sent again; `announce` is called before something is sent.
        Raises RsctlError.
        """
        from botocore.exceptions import ClientError

        with findings(STAGING):
            try:
                self._s3.head_object(Bucket=self._name, Key=key)
            except ClientError as problem:
                # Of a missing bucket it says 404 too; without leave to list, it says 403 of both.
                if code_of(problem) not in ("404", "403"):
                    raise
                announce()
                self._upload(key, archive)

    def _upload(self, key: str, archive: Archive) -> None:
        """Raises ClientError, also for a part of an upload."""
        from boto3.exceptions import S3UploadFailedError
        from boto3.s3.transfer import TransferConfig
        from botocore.exceptions import ClientError

        archive.file.seek(0)
        # It closes what it was given, which is not its own: the threads stay out of it too.
        config = TransferConfig(use_threads=False)
        try:
            self._s3.upload_fileobj(
                archive.file,
                self._name,
                key,
                ExtraArgs={"ContentType": archive.content_type},
                Config=config,
            )
        except S3UploadFailedError as problem:
            cause = problem.__cause__ or problem.__context__
            if isinstance(cause, ClientError):
                raise cause from None
            raise
