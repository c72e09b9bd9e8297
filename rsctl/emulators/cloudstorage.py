"""Cloud Storage, as far as builds need it: resumable uploads and reading, by the JSON API."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rsctl.emulators.http import Emulator, Reply, Request, Route, route

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_STEP = 256 << 10


@dataclass
class _Upload:
    bucket: str
    name: str
    content: bytearray = field(default_factory=bytearray)


class CloudStorage:
    """Buckets in memory. An object is bytes, or something that gives them as they grow."""

    def __init__(self, emulator: Emulator, buckets: tuple[str, ...]) -> None:
        self._emulator = emulator
        self._buckets: dict[str, dict[str, tuple[int, Callable[[], bytes]]]] = {
            bucket: {} for bucket in buckets
        }
        self._uploads: dict[str, _Upload] = {}
        self._generations = itertools.count(1_700_000_000_000_001)

    def routes(self) -> list[Route]:
        """What it answers."""
        upload = "/upload/storage/v1/b/{bucket}/o"
        return [
            route("storage.objects.insert", "POST", upload, self._open),
            route("storage.upload", "PUT", upload, self._take),
            route("storage.objects.get", "GET", "/storage/v1/b/{bucket}/o/{name*}", self._get),
        ]

    def put(self, bucket: str, name: str, content: Callable[[], bytes]) -> int:
        """Have an object; its generation."""
        generation = next(self._generations)
        self._buckets[bucket][name] = (generation, content)
        return generation

    def has_bucket(self, bucket: str) -> bool:
        """Whether a bucket is there."""
        return bucket in self._buckets

    def names(self, bucket: str) -> list[str]:
        """The objects of a bucket."""
        return sorted(self._buckets[bucket])

    def content(self, bucket: str, name: str, generation: int | None = None) -> bytes | None:
        """An object's bytes, or None if it is not there in that generation."""
        found = self._buckets.get(bucket, {}).get(name)
        if found is None or generation not in (None, found[0]):
            return None
        return found[1]()

    def _bucket(self, request: Request) -> dict[str, tuple[int, Callable[[], bytes]]]:
        bucket = self._buckets.get(request.parts["bucket"])
        if bucket is None:
            raise self._emulator.refuse(404, "notFound", "The specified bucket does not exist.")
        return bucket

    def _open(self, request: Request) -> Reply:
        bucket, name = self._bucket(request), request.query.get("name", "")
        if request.query.get("uploadType") != "resumable" or not name:
            raise self._emulator.refuse(400, "required", "Required parameter: name, uploadType")
        if request.query.get("ifGenerationMatch") == "0" and name in bucket:
            message = "At least one of the pre-conditions you specified did not hold."
            raise self._emulator.refuse(412, "conditionNotMet", message)
        identity = secrets.token_hex(16)
        self._uploads[identity] = _Upload(request.parts["bucket"], name)
        where = f"{self._emulator.url}{request.path}?uploadType=resumable&upload_id={identity}"
        return Reply(200, headers={"Location": where})

    def _take(self, request: Request) -> Reply:
        upload = self._uploads.get(request.query.get("upload_id", ""))
        found = _CONTENT_RANGE.fullmatch(request.headers.get("content-range", ""))
        if upload is None or found is None:
            raise self._emulator.refuse(404 if found else 400, "notFound", "No such upload.")
        total = int(found[3])
        if found[1] is not None:
            self._append(upload, int(found[1]), int(found[2]), total, request.body)
        if len(upload.content) < total:
            kept = len(upload.content)
            return Reply(308, headers={"Range": f"bytes=0-{kept - 1}"} if kept else {})
        del self._uploads[request.query["upload_id"]]
        content = bytes(upload.content)
        generation = self.put(upload.bucket, upload.name, lambda: content)
        return Reply.of(_metadata(upload.bucket, upload.name, generation, len(content)))

    def _append(self, upload: _Upload, first: int, last: int, total: int, body: bytes) -> None:
        fits = len(body) == last - first + 1 and first <= len(upload.content)
        if not fits or (last + 1 < total and len(body) % _STEP):
            message = "Invalid request. The number of bytes uploaded is required to be equal or "
            raise self._emulator.refuse(400, "badRequest", message + "a multiple of 262144.")
        upload.content[first:] = body

    def _get(self, request: Request) -> Reply:
        bucket, name = self._bucket(request), request.parts["name"]
        if name not in bucket:
            message = f"No such object: {request.parts['bucket']}/{name}"
            raise self._emulator.refuse(404, "notFound", message)
        generation, read = bucket[name]
        content = read()
        if request.query.get("alt") != "media":
            return Reply.of(_metadata(request.parts["bucket"], name, generation, len(content)))
        return self._ranged(content, request.headers.get("range"))

    def _ranged(self, content: bytes, wanted: str | None) -> Reply:
        found = _RANGE.fullmatch(wanted or "")
        if not found:
            return Reply(200, content, {"Content-Type": "text/plain"})
        first, last = int(found[1]), int(found[2] or len(content))
        if first >= len(content):
            raise self._emulator.refuse(416, "requestedRangeNotSatisfiable", "Request range not "
                                        "satisfiable")  # fmt: skip
        part = content[first : last + 1]
        where = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        return Reply(206, part, {"Content-Range": where, "Content-Type": "text/plain"})


def _metadata(bucket: str, name: str, generation: int, size: int) -> dict[str, Any]:
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": name,
        "generation": str(generation),
        "size": str(size),
    }
