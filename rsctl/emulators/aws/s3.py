"""S3, as far as builds and jobs need it: objects, uploads in parts, lists, path-style addresses."""

from __future__ import annotations

import base64
import re
import secrets
import time
import zlib
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape, unescape

from rsctl.emulators.aws.emulator import error_xml
from rsctl.emulators.aws.s3_listing import listing, stamp
from rsctl.emulators.aws.s3_objects import Facts, MemoryObjects, Objects
from rsctl.emulators.http import Refused, Reply, Request, Route, route

_XML = {"Content-Type": "application/xml"}
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_MOST_PARTS = 10_000
_SUBRESOURCES = frozenset(
    {
        *("accelerate", "acl", "analytics", "attributes", "cors", "encryption", "inventory"),
        *("legal-hold", "lifecycle", "logging", "metrics", "notification", "object-lock"),
        *("ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication"),
        *("requestPayment", "restore", "retention", "select", "tagging", "torrent", "uploads"),
        *("versionId", "versioning", "versions", "website"),
    }
)
"""What a query can ask of a bucket or an object beside its content; taken for a plain request, it
would be answered with something else."""

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})(?:;.*)?")
_DELETED = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)


class S3:
    """Buckets in memory, unless `objects` are elsewhere."""

    def __init__(self, buckets: tuple[str, ...], objects: Objects | None = None) -> None:
        self._objects: Objects = objects if objects is not None else MemoryObjects()
        for bucket in buckets:
            self._objects.make(bucket)
        self._uploads: dict[str, dict[int, bytes]] = {}

    def routes(self) -> list[Route]:
        """What it answers."""
        bucket, key = "/{bucket}/?", "/{bucket}/{key*}"
        return [
            route("s3.ListBuckets", "GET", "/", self._list_buckets),
            route("s3.HeadBucket", "HEAD", bucket, self._head_bucket),
            route("s3.ListObjects", "GET", bucket, self._list),
            route("s3.CreateBucket", "PUT", bucket, self._create),
            route("s3.DeleteObjects", "POST", bucket, self._delete_many),
            route("s3.HeadObject", "HEAD", key, self._get),
            route("s3.GetObject", "GET", key, self._get),
            route("s3.PutObject", "PUT", key, self._put),
            route("s3.CreateMultipartUpload", "POST", key, self._multipart),
            route("s3.DeleteObject", "DELETE", key, self._delete),
        ]

    def names(self, bucket: str) -> list[str]:
        """The keys of a bucket."""
        return self._objects.names(bucket)

    def content(self, bucket: str, key: str) -> bytes | None:
        """An object's bytes, or None."""
        return self._objects.content(bucket, key)

    def _bucket(self, request: Request) -> str:
        _require_plain(request)
        bucket = request.parts["bucket"]
        if not self._objects.has(bucket):
            raise _refused(404, "NoSuchBucket", "The specified bucket does not exist")
        return bucket

    def _list_buckets(self, request: Request) -> Reply:
        del request
        names = "".join(
            f"<Bucket><Name>{escape(name)}</Name><CreationDate>{stamp(0)}</CreationDate></Bucket>"
            for name in self._objects.all()
        )
        return _xml("ListAllMyBucketsResult", f"<Buckets>{names}</Buckets>")

    def _head_bucket(self, request: Request) -> Reply:
        self._bucket(request)
        return Reply(200)

    def _create(self, request: Request) -> Reply:
        _require_plain(request)
        bucket = request.parts["bucket"]
        if not _BUCKET.fullmatch(bucket):
            raise _refused(400, "InvalidBucketName", "The specified bucket is not valid.")
        self._objects.make(bucket)
        return Reply(200, headers={"Location": f"/{bucket}"})

    def _list(self, request: Request) -> Reply:
        bucket = self._bucket(request)
        if "location" in request.query:
            return _xml("LocationConstraint", "")
        try:
            return _xml("ListBucketResult", listing(self._objects, bucket, request.query))
        except ValueError:
            raise _refused(400, "InvalidArgument", "max-keys is no number") from None

    def _get(self, request: Request) -> Reply:
        bucket, key = self._bucket(request), request.parts["key"]
        facts = self._objects.facts(bucket, key)
        content = self._objects.content(bucket, key) if facts else None
        if facts is None or content is None:
            raise _refused(404, "NoSuchKey", "The specified key does not exist.")
        headers = {
            "ETag": facts.etag,
            "Last-Modified": formatdate(facts.modified, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if request.headers.get("if-match", facts.etag) not in (facts.etag, "*"):
            message = "At least one of the pre-conditions you specified did not hold"
            raise _refused(412, "PreconditionFailed", message)
        if "range" in request.headers:
            return _part(content, request.headers["range"], headers)
        if request.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
            headers |= {"x-amz-checksum-crc32": _crc32(content)}
            headers |= {"x-amz-checksum-type": "FULL_OBJECT"}
        return Reply(200, content, {**headers, "Content-Length": str(len(content))})

    def _put(self, request: Request) -> Reply:
        bucket, key, content = self._bucket(request), request.parts["key"], _payload(request)
        if "uploadId" in request.query:
            return self._put_part(request, content)
        if "x-amz-copy-source" in request.headers:
            content = self._source(request.headers["x-amz-copy-source"])
        facts = self._store(bucket, key, content)
        if "x-amz-copy-source" in request.headers:
            return _fields("CopyObjectResult", ETag=facts.etag, LastModified=stamp(facts.modified))
        return Reply(200, headers={"ETag": facts.etag})

    def _put_part(self, request: Request, content: bytes) -> Reply:
        """A part of an upload: what is sent, or what is copied from an object or a range of it."""
        parts, number = self._upload(request), request.query.get("partNumber", "")
        if not (number.isascii() and number.isdigit() and 0 < int(number) <= _MOST_PARTS):
            message = f"Part number must be an integer between 1 and {_MOST_PARTS}, inclusive"
            raise _refused(400, "InvalidArgument", message)
        etag, source = f'"{number}"', request.headers.get("x-amz-copy-source")
        if source is None:
            parts[int(number)] = content
            return Reply(200, headers={"ETag": etag})
        parts[int(number)] = _ranged(
            self._source(source), request.headers.get("x-amz-copy-source-range")
        )
        return _fields("CopyPartResult", ETag=etag, LastModified=stamp(time.time()))

    def _source(self, location: str) -> bytes:
        bucket, _, key = unquote(location).lstrip("/").partition("/")
        content = self._objects.content(bucket, key) if self._objects.has(bucket) else None
        if content is None:
            raise _refused(404, "NoSuchKey", "The specified key does not exist.")
        return content

    def _store(self, bucket: str, key: str, content: bytes) -> Facts:
        if not self._objects.put(bucket, key, content):
            message = "This emulator keeps objects as files, and this key cannot be one"
            raise _refused(400, "InvalidRequest", message)
        return self._objects.facts(bucket, key) or Facts(0, 0.0, '""')

    def _multipart(self, request: Request) -> Reply:
        bucket, key = self._bucket(request), request.parts["key"]
        names = {"Bucket": bucket, "Key": key}
        if "uploads" in request.query:
            identity = secrets.token_hex(16)
            self._uploads[identity] = {}
            return _fields("InitiateMultipartUploadResult", **names, UploadId=identity)
        parts = self._upload(request)
        facts = self._store(bucket, key, b"".join(parts[number] for number in sorted(parts)))
        del self._uploads[request.query["uploadId"]]
        return _fields("CompleteMultipartUploadResult", **names, ETag=facts.etag)

    def _delete(self, request: Request) -> Reply:
        if "uploadId" in request.query:
            self._uploads.pop(request.query["uploadId"], None)
        else:
            self._objects.delete(self._bucket(request), request.parts["key"])
        return Reply(204)

    def _delete_many(self, request: Request) -> Reply:
        bucket = self._bucket(request)
        text = _payload(request).decode(errors="replace")
        if "\0" in text:
            raise _refused(400, "MalformedXML", "The XML you provided was not well-formed")
        keys = [unescape(key, {"&quot;": '"'}) for key in _DELETED.findall(text)]
        for key in keys:
            self._objects.delete(bucket, key)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return _xml("DeleteResult", deleted)

    def _upload(self, request: Request) -> dict[int, bytes]:
        found = self._uploads.get(request.query.get("uploadId", ""))
        if found is None:
            raise _refused(404, "NoSuchUpload", "The specified upload does not exist.")
        return found


def _require_plain(request: Request) -> None:
    """Raise Refused for what is asked beside the content and is not emulated."""
    asked = set(_SUBRESOURCES.intersection(request.query))
    if request.method == "POST":
        asked.discard("uploads")  # CreateMultipartUpload
    if request.method == "GET" and "uploadId" in request.query:  # ListParts
        asked.add("uploadId")
    if asked:
        message = f"{request.method} ?{min(asked)} is not emulated"
        raise _refused(501, "NotImplemented", message)


def _ranged(content: bytes, wanted: str | None) -> bytes:
    """The part of an object that is copied; other than for GET, a range must be one within it."""
    if wanted is None:
        return content
    found = _RANGE.fullmatch(wanted.strip())
    if not found or not (found[1] and found[2]) or int(found[1]) > int(found[2]):
        raise _refused(
            400,
            "InvalidArgument",
            "The x-amz-copy-source-range value must be of the form bytes=first-last",
        )
    if int(found[2]) >= len(content):
        raise _refused(400, "InvalidArgument", "Range specified is not valid for source object")
    return content[int(found[1]) : int(found[2]) + 1]


def _part(content: bytes, wanted: str, headers: dict[str, str]) -> Reply:
    """What a range asks for; one that makes no sense gets everything."""
    found, size = _RANGE.fullmatch(wanted.strip()), len(content)
    if not found or not (found[1] or found[2]):
        return Reply(200, content, {**headers, "Content-Length": str(size)})
    if found[1]:
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
    else:
        first, last = max(size - int(found[2]), 0), size - 1
    if first >= size:
        raise _refused(416, "InvalidRange", "The requested range is not satisfiable")
    part = content[first : last + 1]
    more = {"Content-Range": f"bytes {first}-{last}/{size}", "Content-Length": str(len(part))}
    return Reply(206, part, {**headers, **more})


def _crc32(content: bytes) -> str:
    """The checksum that today's SDKs send with an object, and S3 keeps."""
    return base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()


def _refused(status: int, code: str, message: str) -> Refused:
    return Refused(error_xml(status, code, message))


def _payload(request: Request) -> bytes:
    """The body, less the framing of `aws-chunked`. Raises Refused where that is broken."""
    if not request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        return request.body
    content, rest = bytearray(), request.body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        found = _CHUNK.fullmatch(head)
        if not found or int(found[1], 16) > len(rest):
            message = "The request body terminated unexpectedly"
            raise _refused(400, "IncompleteBody", message)
        size = int(found[1], 16)
        if not size:
            break
        content += rest[:size]
        rest = rest[size + 2 :]
    return bytes(content)


def _fields(name: str, **values: Any) -> Reply:
    return _xml(name, "".join(f"<{key}>{escape(str(v))}</{key}>" for key, v in values.items()))


def _xml(name: str, inner: str) -> Reply:
    return Reply(200, f'<{name} xmlns="{_SPACE}">{inner}</{name}>'.encode(), _XML)
