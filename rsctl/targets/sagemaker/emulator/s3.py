"""S3, as far as builds and jobs need it: objects, uploads in parts, lists, path-style addresses."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, NamedTuple, Optional
from urllib.parse import unquote
from xml.sax.saxutils import escape, unescape

from rsctl.targets.managed.emulator.http import Reply, Request, Route, route
from rsctl.targets.sagemaker.emulator.s3_conditions import (
    encryption_of,
    kept_headers,
    require_read,
    require_write,
)
from rsctl.targets.sagemaker.emulator.s3_listing import listing, stamp
from rsctl.targets.sagemaker.emulator.s3_objects import Facts, FolderObjects, Known
from rsctl.targets.sagemaker.emulator.s3_payload import crc32, md5, payload, refused

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
"""Query parameters that select something other than the content of a bucket or an object; treated
as plain requests, they would get a wrong answer.
"""

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_COMPLETED = re.compile(r"<Part>(.*?)</Part>", re.DOTALL)
_CHECKSUM = "x-amz-checksum-"
_OVERRIDES = ("type", "language", "encoding", "disposition")

_DELETED = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)


class _MultipartUpload(NamedTuple):
    """An upload in parts, by their numbers, and what is known of the object that they become."""

    headers: dict[str, str]
    parts: dict[int, bytes]


class S3:
    """The service, on the objects of a folder; `buckets` are there from the start."""

    def __init__(self, buckets: tuple[str, ...], objects: FolderObjects) -> None:
        self._objects = objects
        for bucket in buckets:
            self._objects.make(bucket)
        self._uploads: dict[str, _MultipartUpload] = {}
        self._writing = threading.RLock()

    def routes(self) -> list[Route]:
        """The routes of the service."""
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

    def _bucket(self, request: Request) -> str:
        _require_plain(request)
        bucket = request.parts["bucket"]
        if not self._objects.has(bucket):
            raise refused(404, "NoSuchBucket", "The specified bucket does not exist")
        return bucket

    def _list_buckets(self, request: Request) -> Reply:
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
            raise refused(400, "InvalidBucketName", "The specified bucket is not valid.")
        self._objects.make(bucket)
        return Reply(200, headers={"Location": f"/{bucket}"})

    def _list(self, request: Request) -> Reply:
        bucket = self._bucket(request)
        if "location" in request.query:
            return _xml("LocationConstraint", "")
        try:
            return _xml("ListBucketResult", listing(self._objects, bucket, request.query))
        except ValueError:
            raise refused(400, "InvalidArgument", "max-keys is not a number") from None

    def _get(self, request: Request) -> Reply:
        content, facts = self._found(self._bucket(request), request.parts["key"])
        require_read(request.headers, facts)
        headers = {
            **_shown(facts.headers),
            "ETag": facts.etag,
            "Last-Modified": formatdate(facts.modified, usegmt=True),
            "Accept-Ranges": "bytes",
            **_overridden(request),
        }
        if "range" in request.headers:
            return _part(content, request.headers["range"], headers)
        if request.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
            sums = {n: v for n, v in facts.headers.items() if n.startswith(_CHECKSUM)}
            headers |= sums or {"x-amz-checksum-crc32": crc32(content)}
            headers |= {"x-amz-checksum-type": "FULL_OBJECT"}
        return Reply(200, content, {**headers, "Content-Length": str(len(content))})

    def _put(self, request: Request) -> Reply:
        self._bucket(request)
        content, checksums = payload(request)
        if "uploadId" in request.query:
            return self._put_part(request, content, checksums)
        headers = {**kept_headers(request.headers), **checksums}
        source = request.headers.get("x-amz-copy-source")
        if source is not None:
            content, facts = self._source(source, request)
            if request.headers.get("x-amz-metadata-directive", "COPY").upper() == "COPY":
                own = encryption_of(request.headers)
                headers = {**facts.headers, **own}
        stored = self._store(request, content, Known(f'"{md5(content)}"', headers))
        answered = encryption_of(headers)
        if source is not None:
            times = {"ETag": stored.etag, "LastModified": stamp(stored.modified)}
            return _fields("CopyObjectResult", answered, **times)
        return Reply(200, headers={"ETag": stored.etag, **answered, **checksums})

    def _put_part(self, request: Request, content: bytes, checksums: dict[str, str]) -> Reply:
        """A part of an upload: what is sent, or what is copied from an object or a range of it."""
        parts, number = self._upload(request).parts, request.query.get("partNumber", "")
        if not (number.isascii() and number.isdigit() and 0 < int(number) <= _MOST_PARTS):
            message = f"Part number must be an integer between 1 and {_MOST_PARTS}, inclusive"
            raise refused(400, "InvalidArgument", message)
        source = request.headers.get("x-amz-copy-source")
        if source is not None:
            whole, _ = self._source(source, request)
            content = _ranged(whole, request.headers.get("x-amz-copy-source-range"))
        parts[int(number)] = content
        etag = f'"{md5(content)}"'
        if source is None:
            return Reply(200, headers={"ETag": etag, **checksums})
        return _fields("CopyPartResult", ETag=etag, LastModified=stamp(time.time()))

    def _source(self, location: str, request: Request) -> tuple[bytes, Facts]:
        """The source of a copy, if the conditions for it hold."""
        bucket, _, key = unquote(location).lstrip("/").partition("/")
        content, facts = self._found(bucket, key)
        require_read(request.headers, facts, "x-amz-copy-source-")
        return content, facts

    def _found(self, bucket: str, key: str) -> tuple[bytes, Facts]:
        is_there = self._objects.has(bucket)
        facts = self._objects.facts(bucket, key) if is_there else None
        content = self._objects.content(bucket, key) if facts else None
        if facts is None or content is None:
            raise refused(404, "NoSuchKey", "The specified key does not exist.")
        return content, facts

    def _store(self, request: Request, content: bytes, known: Known) -> Facts:
        bucket, key = request.parts["bucket"], request.parts["key"]
        with self._writing:
            require_write(request.headers, self._objects.facts(bucket, key))
            if not self._objects.put(bucket, key, content, known):
                message = (
                    "This emulator stores objects as files, and this key is not a valid path of a "
                    "file"
                )
                raise refused(400, "InvalidRequest", message)
            return self._objects.facts(bucket, key) or Facts(0, 0.0, '""')

    def _multipart(self, request: Request) -> Reply:
        bucket, key = self._bucket(request), request.parts["key"]
        names = {"Bucket": bucket, "Key": key}
        if "uploads" in request.query:
            identity, headers = secrets.token_hex(16), kept_headers(request.headers)
            self._uploads[identity] = _MultipartUpload(headers, {})
            own = encryption_of(headers)
            return _fields("InitiateMultipartUploadResult", own, **names, UploadId=identity)
        upload = self._upload(request)
        parts = [upload.parts[number] for number in _completed(request, upload)]
        digests = b"".join(bytes.fromhex(md5(part)) for part in parts)
        etag = f'"{md5(digests)}-{len(parts)}"'
        facts = self._store(request, b"".join(parts), Known(etag, upload.headers))
        del self._uploads[request.query["uploadId"]]
        own = encryption_of(upload.headers)
        return _fields("CompleteMultipartUploadResult", own, **names, ETag=facts.etag)

    def _delete(self, request: Request) -> Reply:
        bucket, key = self._bucket(request), request.parts["key"]
        if "uploadId" in request.query:
            self._uploads.pop(request.query["uploadId"], None)
            return Reply(204)
        with self._writing:
            if "if-match" in request.headers:
                require_write(request.headers, self._objects.facts(bucket, key))
            self._objects.delete(bucket, key)
        return Reply(204)

    def _delete_many(self, request: Request) -> Reply:
        bucket = self._bucket(request)
        if "delete" not in request.query:
            raise refused(501, "NotImplemented", "an upload by a form is not emulated")
        text = payload(request)[0].decode(errors="replace")
        if "\0" in text:
            raise refused(400, "MalformedXML", "The XML you provided was not well-formed")
        keys = [unescape(key, {"&quot;": '"'}) for key in _DELETED.findall(text)]
        for key in keys:
            self._objects.delete(bucket, key)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return _xml("DeleteResult", deleted)

    def _upload(self, request: Request) -> _MultipartUpload:
        found = self._uploads.get(request.query.get("uploadId", ""))
        if found is None:
            raise refused(404, "NoSuchUpload", "The specified upload does not exist.")
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
        raise refused(501, "NotImplemented", message)


def _ranged(content: bytes, wanted: str | None) -> bytes:
    """The part of an object that is copied; other than for GET, a range must be one within it."""
    if wanted is None:
        return content
    found = _RANGE.fullmatch(wanted.strip())
    if not found or not (found[1] and found[2]) or int(found[1]) > int(found[2]):
        raise refused(
            400,
            "InvalidArgument",
            "The x-amz-copy-source-range value must be of the form bytes=first-last",
        )
    if int(found[2]) >= len(content):
        raise refused(400, "InvalidArgument", "Range specified is not valid for source object")
    return content[int(found[1]) : int(found[2]) + 1]


def _part(content: bytes, wanted: str, headers: dict[str, str]) -> Reply:
    """The requested range; an invalid one gets everything."""
    found, size = _RANGE.fullmatch(wanted.strip()), len(content)
    if not found or not (found[1] or found[2]):
        return Reply(200, content, {**headers, "Content-Length": str(size)})
    if found[1]:
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
    else:
        first, last = max(size - int(found[2]), 0), size - 1
    if first >= size:
        raise refused(416, "InvalidRange", "The requested range is not satisfiable")
    part = content[first : last + 1]
    more = {"Content-Range": f"bytes {first}-{last}/{size}", "Content-Length": str(len(part))}
    return Reply(206, part, {**headers, **more})


def _completed(request: Request, upload: _MultipartUpload) -> list[int]:
    """The parts that an upload is made of. Raises Refused where they are not those that came."""
    text, numbers = payload(request)[0].decode(errors="replace"), []
    for part in _COMPLETED.findall(text):
        number = re.search(r"<PartNumber>\s*(\d{1,9})\s*</PartNumber>", part)
        etag = re.search(r"<ETag>(.*?)</ETag>", part)
        content = upload.parts.get(int(number[1])) if number else None
        is_same = (
            content is not None
            and etag
            and unescape(etag[1], {"&quot;": '"', "&#34;": '"'}).strip('"') == md5(content)
        )
        if number is None or not is_same:
            message = "One or more of the specified parts could not be found."
            raise refused(400, "InvalidPart", message)
        numbers.append(int(number[1]))
    if not numbers:
        raise refused(400, "MalformedXML", "The XML you provided was not well-formed")
    if numbers != sorted(set(numbers)):
        message = "The list of parts was not in ascending order."
        raise refused(400, "InvalidPartOrder", message)
    return numbers


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    return {n: v for n, v in headers.items() if not n.startswith(_CHECKSUM)}


def _overridden(request: Request) -> dict[str, str]:
    """The headers of the answer that a query has in place of the object's."""
    names = [*(f"content-{name}" for name in _OVERRIDES), "cache-control", "expires"]
    asked = {name: request.query.get(f"response-{name}", "") for name in names}
    return {n: v for n, v in asked.items() if v and v.isascii() and v.isprintable()}


def _fields(name: str, headers: Optional[Mapping[str, str]] = None, /, **values: Any) -> Reply:
    inner = "".join(f"<{key}>{escape(str(v))}</{key}>" for key, v in values.items())
    reply = _xml(name, inner)
    return Reply(reply.status, reply.body, {**reply.headers, **(headers or {})})


def _xml(name: str, inner: str) -> Reply:
    return Reply(200, f'<{name} xmlns="{_SPACE}">{inner}</{name}>'.encode(), _XML)
