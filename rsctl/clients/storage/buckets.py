"""Opens a bucket by its URL; only that cloud's client is imported."""

from __future__ import annotations

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import Bucket, ObjectUrl


def open_bucket(
    url: str, endpoints: Endpoints, region: str | None = None, path: str | None = None
) -> Bucket:
    """The bucket of a `gs://` or `s3://` URL; `path` is the field of the job that names it.

    `region` is of buckets of S3. Raises RsctlError.
    """
    parts = ObjectUrl.parse(url)
    if parts.scheme == "gs":
        from rsctl.clients.storage.google import GoogleBucket

        return GoogleBucket(endpoints, parts.bucket, path)
    from rsctl.clients.storage.s3 import S3Bucket

    return S3Bucket(endpoints, parts.bucket, region, path)
