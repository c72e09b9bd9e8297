"""Cloud Storage by the JSON API: buckets, and objects that are written, read, listed and deleted.

Objects are uploaded in one piece (`media`, `multipart`) or in several (`resumable`), with what a
client says of them, with preconditions and with hashes that are checked. What else the API has,
such as versions, access lists and encryption, is refused as not emulated.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rsctl.targets.managed.emulator.bucket_folders import BucketFolders
from rsctl.targets.managed.emulator.http import Emulator, Refused, Reply, Request, Route, route
from rsctl.targets.vertex.emulator.multipart import multipart_related
from rsctl.targets.vertex.emulator.preconditions import CONDITIONS, failed_condition
from rsctl.targets.vertex.emulator.storage_objects import (
    Attributes,
    listed,
    md5,
    metadata,
    patched,
    ranged_reply,
    writable,
    wrong_hash,
)

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_STEP = 256 << 10
_COMMON_QUERY = frozenset({"alt", "prettyPrint", "projection", "fields", "key", "userProject"})
_UPLOAD_QUERY = frozenset({"name", "uploadType", "upload_id"}) | CONDITIONS
_OBJECT_QUERY = frozenset({"generation"}) | CONDITIONS
_LIST_QUERY = frozenset({"prefix", "delimiter", "maxResults", "pageToken"})


@dataclass
class _ResumableUpload:
    bucket: str
    name: str
    query: dict[str, str]
    fields: dict[str, Any] = field(default_factory=dict)
    hashes: list[tuple[str, Any]] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)


class CloudStorage(BucketFolders):
    """The service, on buckets that are folders."""

    def __init__(self, emulator: Emulator, buckets: tuple[str, ...], folder: Path) -> None:
        super().__init__(folder)
        self._emulator = emulator
        for bucket in buckets:
            self.make(bucket)
        self._uploads: dict[str, _ResumableUpload] = {}
        self._attributes: dict[tuple[str, str], Attributes] = {}

    def routes(self) -> list[Route]:
        """The routes of the service."""
        upload, name = "/upload/storage/v1/b/{bucket}/o", "/storage/v1/b/{bucket}/o/{name*}"
        return [
            route("storage.objects.insert", "POST", upload, self._open),
            route("storage.upload", "PUT", upload, self._take),
            route("storage.objects.get", "GET", name, self._get),
            route("storage.objects.download", "GET", "/download" + name, self._download),
            route("storage.objects.patch", "PATCH", name, self._patch),
            route("storage.objects.delete", "DELETE", name, self._delete),
            route("storage.objects.list", "GET", "/storage/v1/b/{bucket}/o", self._list),
            route("storage.buckets.list", "GET", "/storage/v1/b", self._list_buckets),
            route("storage.buckets.get", "GET", "/storage/v1/b/{bucket}", self._get_bucket),
        ]

    def folders(self) -> dict[str, Path]:
        """The folders of the buckets, by their names."""
        return {bucket: self.folder / bucket for bucket in self.all()}

    def _about(self, bucket: str, name: str, generation: int) -> Attributes:
        """The properties that a client has set on this generation of an object."""
        kept = self._attributes.get((bucket, name))
        return kept if kept and kept.generation == generation else Attributes(generation, 1, {})

    def _require(self, request: Request, query: dict[str, str], bucket: str, name: str) -> None:
        """Raise Refused unless the preconditions hold for an object as it is now."""
        found = self.read(bucket, name)
        about = self._about(bucket, name, found[0]) if found else None
        generations = (about.generation, about.metageneration) if about else (None, None)
        try:
            failed = failed_condition(query, *generations)
        except ValueError as problem:
            raise self._emulator.refuse(400, "invalid", str(problem)) from None
        if failed and failed.endswith("NotMatch") and request.method == "GET":
            raise Refused(Reply(304))
        if failed:
            message = "At least one of the pre-conditions you specified did not hold."
            raise self._emulator.refuse(412, "conditionNotMet", message)

    def _keep(self, upload: _ResumableUpload) -> int:
        """Have what was uploaded; its generation."""
        content = bytes(upload.content)
        if wrong := wrong_hash(content, upload.hashes):
            raise self._emulator.refuse(400, "invalid", wrong)
        generation = self.write(upload.bucket, upload.name, content)
        if generation is None:
            message = f"the emulator cannot have a file of this name: {upload.name}"
            raise self._emulator.refuse(400, "invalid", message)
        return generation

    def _bucket(self, request: Request) -> str:
        bucket = request.parts["bucket"]
        if not self.has(bucket):
            raise self._emulator.refuse(404, "notFound", "The specified bucket does not exist.")
        return bucket

    def _open(self, request: Request) -> Reply:
        """An upload in one piece, or the begin of a resumable one."""
        bucket, kind = self._bucket(request), request.query.get("uploadType")
        self._refuse_others(request, _UPLOAD_QUERY)
        about: dict[str, Any] = {}
        content, kind_of_content = request.body, request.headers.get("content-type")
        try:
            if kind == "multipart":
                about, content, kind_of_content = multipart_related(request)
            elif kind == "resumable":
                about = dict(request.json())
                kind_of_content = request.headers.get("x-upload-content-type")
        except (ValueError, TypeError) as problem:
            raise self._emulator.refuse(400, "parseError", f"Parse Error: {problem}") from None
        name = about.get("name") or request.query.get("name", "")
        if kind not in ("media", "multipart", "resumable") or not isinstance(name, str) or not name:
            raise self._emulator.refuse(400, "required", "Required parameter: name, uploadType")
        fields = {"contentType": kind_of_content} if kind_of_content else {}
        fields |= self._writable(about)
        hashes = [("MD5", about.get("md5Hash")), ("CRC32C", about.get("crc32c"))]
        hashes += _hashes(request)
        upload = _ResumableUpload(bucket, name, request.query, fields, hashes)
        self._require(request, upload.query, bucket, name)
        if kind != "resumable":
            upload.content[:] = content
            return self._kept(request, upload)
        identity = secrets.token_hex(16)
        self._uploads[identity] = upload
        where = f"{self._emulator.url}{request.path}?uploadType=resumable&upload_id={identity}"
        return Reply(200, headers={"Location": where})

    def _writable(self, about: dict[str, Any]) -> dict[str, Any]:
        try:
            return writable(about)
        except KeyError as name:
            message = f"the field {name} of objects is not emulated by rsctl's emulator"
            raise self._emulator.refuse(501, "notImplemented", message) from None
        except ValueError as problem:
            raise self._emulator.refuse(400, "invalid", str(problem)) from None

    def _kept(self, request: Request, upload: _ResumableUpload) -> Reply:
        """The conditions hold as the upload ends, too."""
        self._require(request, upload.query, upload.bucket, upload.name)
        upload.hashes += _hashes(request)
        about = Attributes(self._keep(upload), 1, upload.fields)
        self._attributes[upload.bucket, upload.name] = about
        return Reply.of(metadata(upload.bucket, upload.name, about, bytes(upload.content)))

    def _take(self, request: Request) -> Reply:
        """A part of a resumable upload, the end of which may come to light only with the last."""
        upload = self._uploads.get(request.query.get("upload_id", ""))
        found = _CONTENT_RANGE.fullmatch(request.headers.get("content-range", "bytes */*"))
        if upload is not None and "content-range" not in request.headers:
            upload.content[:] = request.body
            del self._uploads[request.query["upload_id"]]
            return self._kept(request, upload)
        if upload is None or found is None:
            raise self._emulator.refuse(404 if found else 400, "notFound", "No such upload.")
        total = None if found[3] == "*" else int(found[3])
        if found[1] is not None:
            self._append(upload, int(found[1]), int(found[2]), total, request.body)
        if total is None or len(upload.content) < total:
            kept = len(upload.content)
            return Reply(308, headers={"Range": f"bytes=0-{kept - 1}"} if kept else {})
        del self._uploads[request.query["upload_id"]]
        return self._kept(request, upload)

    def _append(
        self, upload: _ResumableUpload, first: int, last: int, total: int | None, body: bytes
    ) -> None:
        fits = len(body) == last - first + 1 and first <= len(upload.content)
        is_last = total is not None and last + 1 >= total
        if not fits or (not is_last and len(body) % _STEP):
            message = "Invalid request. The number of bytes uploaded is required to be equal or "
            raise self._emulator.refuse(400, "badRequest", message + "a multiple of 262144.")
        upload.content[first:] = body

    def _refuse_others(self, request: Request, known: frozenset[str]) -> None:
        """Raise Refused for a parameter that would change the answer, were it supported."""
        for name in sorted(set(request.query) - known - _COMMON_QUERY):
            message = f"the parameter {name} is not emulated by rsctl's emulator"
            raise self._emulator.refuse(501, "notImplemented", message)

    def _get(self, request: Request) -> Reply:
        if request.query.get("alt") == "media":
            return self._download(request)
        bucket, name, found = self._found(request)
        return Reply.of(self._shown(bucket, name, found))

    def _patch(self, request: Request) -> Reply:
        """Change what is said of an object; its bytes stay."""
        bucket, name, (generation, content) = self._found(request)
        try:
            changes = self._writable(dict(request.json()))
        except (ValueError, TypeError) as problem:
            raise self._emulator.refuse(400, "parseError", f"Parse Error: {problem}") from None
        kept = self._about(bucket, name, generation)
        fields = patched(kept.fields, changes)
        about = Attributes(generation, kept.metageneration + 1, fields)
        self._attributes[bucket, name] = about
        return Reply.of(metadata(bucket, name, about, content))

    def _download(self, request: Request) -> Reply:
        bucket, name, (generation, content) = self._found(request)
        shown = self._shown(bucket, name, (generation, content))
        reply = ranged_reply(content, request.headers.get("range"), shown["contentType"])
        if reply is None:
            message = "Request range not satisfiable"
            raise self._emulator.refuse(416, "requestedRangeNotSatisfiable", message)
        checksum = f"crc32c={shown['crc32c']}," if "crc32c" in shown else ""
        about = {
            "X-Goog-Generation": str(generation),
            "X-Goog-Metageneration": shown["metageneration"],
            "X-Goog-Hash": f"{checksum}md5={md5(content)}",
            "ETag": shown["etag"],
        }
        return Reply(reply.status, reply.body, {**reply.headers, **about})

    def _delete(self, request: Request) -> Reply:
        bucket, name, _ = self._found(request)
        self.remove(bucket, name)
        return Reply(204)

    def _found(self, request: Request) -> tuple[str, str, tuple[int, bytes]]:
        """Bucket and name of an object that is asked for, and the last version's generation and
        bytes.
        """
        bucket, name = self._bucket(request), request.parts["name"]
        self._refuse_others(request, _OBJECT_QUERY)
        found = self.read(bucket, name)
        if found is None or request.query.get("generation", str(found[0])) != str(found[0]):
            message = f"No such object: {bucket}/{name}"
            raise self._emulator.refuse(404, "notFound", message)
        self._require(request, request.query, bucket, name)
        return bucket, name, found

    def _shown(self, bucket: str, name: str, found: tuple[int, bytes]) -> dict[str, Any]:
        return metadata(bucket, name, self._about(bucket, name, found[0]), found[1])

    def _list(self, request: Request) -> Reply:
        bucket, query = self._bucket(request), request.query
        self._refuse_others(request, _LIST_QUERY)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = query.get("maxResults", "1000")
        if not most.isdigit() or int(most) < 1:
            raise self._emulator.refuse(400, "invalid", f"Invalid value for maxResults: {most}")
        names, folders = listed(self.names(bucket), prefix, delimiter)
        later = sorted(each for each in [*names, *folders] if each > query.get("pageToken", ""))
        page, rest = later[: int(most)], later[int(most) :]
        answer: dict[str, Any] = {"kind": "storage#objects"}
        found = ((name, self.read(bucket, name)) for name in page if name in names)
        if items := [self._shown(bucket, name, version) for name, version in found if version]:
            answer["items"] = items
        if shown := [name for name in page if name in folders]:
            answer["prefixes"] = shown
        if rest:
            answer["nextPageToken"] = page[-1]
        return Reply.of(answer)

    def _list_buckets(self, request: Request) -> Reply:
        self._refuse_others(request, frozenset({"project", "prefix", "maxResults"}))
        items = [
            {"kind": "storage#bucket", "id": name, "name": name}
            for name in self.all()
            if name.startswith(request.query.get("prefix", ""))
        ]
        return Reply.of({"kind": "storage#buckets", **({"items": items} if items else {})})

    def _get_bucket(self, request: Request) -> Reply:
        bucket = self._bucket(request)
        return Reply.of({"kind": "storage#bucket", "id": bucket, "name": bucket})


def _hashes(request: Request) -> list[tuple[str, Any]]:
    """The hashes of the header X-Goog-Hash: `crc32c=...,md5=...`."""
    pairs = (
        part.strip().partition("=") for part in request.headers.get("x-goog-hash", "").split(",")
    )
    return [(name.upper(), value) for name, _, value in pairs if name in ("crc32c", "md5")]
