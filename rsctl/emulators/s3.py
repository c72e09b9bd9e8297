"""S3, as far as builds need it: whole objects and multipart uploads, path-style addresses."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any
from xml.sax.saxutils import escape

from rsctl.emulators.aws import error_xml
from rsctl.emulators.http import Refused, Reply, Request, Route, route

_XML = {"Content-Type": "application/xml"}


class S3:
    """Buckets in memory."""

    def __init__(self, buckets: tuple[str, ...]) -> None:
        self._buckets: dict[str, dict[str, bytes]] = {bucket: {} for bucket in buckets}
        self._uploads: dict[str, dict[int, bytes]] = {}

    def routes(self) -> list[Route]:
        """What it answers."""
        place = "/{bucket}/{key*}"
        return [
            route("s3.HeadObject", "HEAD", place, self._head),
            route("s3.GetObject", "GET", place, self._get),
            route("s3.PutObject", "PUT", place, self._put),
            route("s3.CreateMultipartUpload", "POST", place, self._multipart),
            route("s3.AbortMultipartUpload", "DELETE", place, self._abort),
        ]

    def names(self, bucket: str) -> list[str]:
        """The keys of a bucket."""
        return sorted(self._buckets[bucket])

    def content(self, bucket: str, key: str) -> bytes | None:
        """An object's bytes, or None."""
        return self._buckets.get(bucket, {}).get(key)

    def _bucket(self, request: Request) -> dict[str, bytes]:
        bucket = self._buckets.get(request.parts["bucket"])
        if bucket is None:
            raise _refused(404, "NoSuchBucket", "The specified bucket does not exist")
        return bucket

    def _get(self, request: Request) -> Reply:
        content = self._bucket(request).get(request.parts["key"])
        if content is None:
            raise _refused(404, "NoSuchKey", "The specified key does not exist.")
        headers = {"ETag": _etag(content), "Content-Length": str(len(content))}
        return Reply(200, content, headers)

    def _head(self, request: Request) -> Reply:
        return self._get(request)

    def _put(self, request: Request) -> Reply:
        bucket, content = self._bucket(request), _payload(request)
        if "uploadId" in request.query:
            parts = self._upload(request)
            parts[int(request.query["partNumber"])] = content
        else:
            bucket[request.parts["key"]] = content
        return Reply(200, headers={"ETag": _etag(content)})

    def _multipart(self, request: Request) -> Reply:
        bucket, key = self._bucket(request), request.parts["key"]
        if "uploads" in request.query:
            identity = secrets.token_hex(16)
            self._uploads[identity] = {}
            return _xml("InitiateMultipartUploadResult", request, UploadId=identity)
        parts = self._upload(request)
        bucket[key] = b"".join(parts[number] for number in sorted(parts))
        del self._uploads[request.query["uploadId"]]
        return _xml("CompleteMultipartUploadResult", request, ETag=_etag(bucket[key]))

    def _abort(self, request: Request) -> Reply:
        self._uploads.pop(request.query.get("uploadId", ""), None)
        return Reply(204)

    def _upload(self, request: Request) -> dict[int, bytes]:
        found = self._uploads.get(request.query.get("uploadId", ""))
        if found is None:
            raise _refused(404, "NoSuchUpload", "The specified upload does not exist.")
        return found


def _refused(status: int, code: str, message: str) -> Refused:
    return Refused(error_xml(status, code, message))


def _payload(request: Request) -> bytes:
    """The body, less the framing of `aws-chunked`."""
    if not request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        return request.body
    content, rest = bytearray(), request.body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.partition(b";")[0] or b"0", 16)
        if not size:
            break
        content += rest[:size]
        rest = rest[size + 2 :]
    return bytes(content)


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _xml(name: str, request: Request, **values: Any) -> Reply:
    values = {"Bucket": request.parts["bucket"], "Key": request.parts["key"], **values}
    inner = "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in values.items())
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    return Reply(200, f'<{name} xmlns="{space}">{inner}</{name}>'.encode(), _XML)
