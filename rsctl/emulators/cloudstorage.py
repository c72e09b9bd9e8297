"""Cloud Storage, as far as builds need it: resumable uploads and reading, by the JSON API."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rsctl.emulators.cloudstorage_folder import Buckets
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
    """Buckets in memory, or in a folder. An object is bytes, or gives them as they grow.

    What grows is in memory only, also where there is a folder.
    """

    def __init__(
        self, emulator: Emulator, buckets: tuple[str, ...], folder: Path | None = None
    ) -> None:
        self._emulator = emulator
        self._buckets: dict[str, dict[str, tuple[int, Callable[[], bytes]]]] = {}
        self._files = Buckets(folder) if folder else None
        for bucket in buckets:
            self.make_bucket(bucket)
        self._uploads: dict[str, _Upload] = {}
        self._generations = itertools.count(1_700_000_000_000_001)

    def routes(self) -> list[Route]:
        """What it answers."""
        upload = "/upload/storage/v1/b/{bucket}/o"
        return [
            route("storage.objects.insert", "POST", upload, self._open),
            route("storage.upload", "PUT", upload, self._take),
            route("storage.objects.get", "GET", "/storage/v1/b/{bucket}/o/{name*}", self._get),
            route("storage.objects.list", "GET", "/storage/v1/b/{bucket}/o", self._list),
            route("storage.buckets.get", "GET", "/storage/v1/b/{bucket}", self._get_bucket),
        ]

    def make_bucket(self, bucket: str) -> None:
        """Have a bucket; one that is there stays as it is."""
        if self._files:
            self._files.make(bucket)
        self._buckets.setdefault(bucket, {})

    def put(self, bucket: str, name: str, content: Callable[[], bytes]) -> int:
        """Have an object; its generation."""
        generation = next(self._generations)
        self._buckets.setdefault(bucket, {})[name] = (generation, content)
        return generation

    def has_bucket(self, bucket: str) -> bool:
        """Whether a bucket is there."""
        return bucket in self._buckets or (self._files is not None and self._files.has(bucket))

    def folders(self) -> dict[str, Path]:
        """The buckets that are folders."""
        if self._files is None:
            return {}
        return {bucket: self._files.folder / bucket for bucket in self._files.all()}

    def names(self, bucket: str) -> list[str]:
        """The objects of a bucket."""
        in_files = self._files.names(bucket) if self._files else []
        return sorted({*self._buckets.get(bucket, {}), *in_files})

    def content(self, bucket: str, name: str, generation: int | None = None) -> bytes | None:
        """An object's bytes, or None if it is not there in that generation."""
        found = self._find(bucket, name)
        if found is None or generation not in (None, found[0]):
            return None
        return found[1]

    def _find(self, bucket: str, name: str) -> tuple[int, bytes] | None:
        """Generation and bytes of an object."""
        if found := self._buckets.get(bucket, {}).get(name):
            return found[0], found[1]()
        return self._files.read(bucket, name) if self._files else None

    def _keep(self, upload: _Upload) -> int:
        """Have what was uploaded; its generation."""
        content = bytes(upload.content)
        if self._files is None:
            return self.put(upload.bucket, upload.name, lambda: content)
        generation = self._files.write(upload.bucket, upload.name, content)
        if generation is None:
            message = f"the emulator cannot have a file of this name: {upload.name}"
            raise self._emulator.refuse(400, "invalid", message)
        return generation

    def _bucket(self, request: Request) -> str:
        bucket = request.parts["bucket"]
        if not self.has_bucket(bucket):
            raise self._emulator.refuse(404, "notFound", "The specified bucket does not exist.")
        return bucket

    def _open(self, request: Request) -> Reply:
        bucket, name = self._bucket(request), request.query.get("name", "")
        if request.query.get("uploadType") != "resumable" or not name:
            raise self._emulator.refuse(400, "required", "Required parameter: name, uploadType")
        if request.query.get("ifGenerationMatch") == "0" and self._find(bucket, name):
            message = "At least one of the pre-conditions you specified did not hold."
            raise self._emulator.refuse(412, "conditionNotMet", message)
        identity = secrets.token_hex(16)
        self._uploads[identity] = _Upload(bucket, name)
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
        generation, size = self._keep(upload), len(upload.content)
        return Reply.of(_metadata(upload.bucket, upload.name, generation, size))

    def _append(self, upload: _Upload, first: int, last: int, total: int, body: bytes) -> None:
        fits = len(body) == last - first + 1 and first <= len(upload.content)
        if not fits or (last + 1 < total and len(body) % _STEP):
            message = "Invalid request. The number of bytes uploaded is required to be equal or "
            raise self._emulator.refuse(400, "badRequest", message + "a multiple of 262144.")
        upload.content[first:] = body

    def _get(self, request: Request) -> Reply:
        bucket, name = self._bucket(request), request.parts["name"]
        found = self._find(bucket, name)
        if found is None:
            message = f"No such object: {bucket}/{name}"
            raise self._emulator.refuse(404, "notFound", message)
        if request.query.get("alt") != "media":
            return Reply.of(_metadata(bucket, name, found[0], len(found[1])))
        return self._ranged(found[1], request.headers.get("range"))

    def _list(self, request: Request) -> Reply:
        bucket, prefix = self._bucket(request), request.query.get("prefix", "")
        items = []
        for name in self.names(bucket):
            found = self._find(bucket, name) if name.startswith(prefix) else None
            if found:
                items.append(_metadata(bucket, name, found[0], len(found[1])))
        return Reply.of({"kind": "storage#objects", **({"items": items} if items else {})})

    def _get_bucket(self, request: Request) -> Reply:
        bucket = self._bucket(request)
        return Reply.of({"kind": "storage#bucket", "id": bucket, "name": bucket})

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
