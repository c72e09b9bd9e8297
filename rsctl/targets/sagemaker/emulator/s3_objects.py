"""Where the emulated S3 keeps objects: as files of a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rsctl.targets.managed.emulator.bucket_folders import BucketFolders

_FACTS, _MARKER = ".facts", "folder-"


class Facts(NamedTuple):
    """The facts of an object; `modified` in seconds since 1970, `etag` with its quotes.

    `headers` are the headers of the write that a read returns, by names in lower case.
    """

    size: int
    modified: float
    etag: str
    headers: Mapping[str, str] = MappingProxyType({})


class Known(NamedTuple):
    """The properties of an object that a write sets, besides its bytes; see Facts."""

    etag: str
    headers: Mapping[str, str]


class FolderObjects(BucketFolders):
    """Buckets that are folders, objects that are files: who has the folder needs no S3.

    An object whose key ends with a slash is a folder, and is listed where it was made so. What
    cannot be a file is not taken. What was sent with an object is kept beside the buckets, and
    counts as long as the file is the one that was written.
    """

    def names(self, bucket: str) -> list[str]:
        """The keys of a bucket, in order."""
        return sorted([*super().names(bucket), *self._markers(bucket)])

    def facts(self, bucket: str, key: str) -> Facts | None:
        """The facts of an object, or None if it does not exist.

        The tag of a file that came otherwise is of its time, as if it had come in parts.
        """
        path = self._marker(bucket, key) or self.path(bucket, key)
        if path is None:
            return None
        found, known = path.stat(), _read(self._facts_file(bucket, key))
        size = 0 if key.endswith("/") else found.st_size
        if known and (key.endswith("/") or known["time"] == found.st_mtime_ns):
            return Facts(size, found.st_mtime, known["etag"], known["headers"])
        return Facts(size, found.st_mtime, f'"{found.st_mtime_ns:032x}-1"')

    def content(self, bucket: str, key: str) -> bytes | None:
        """An object's bytes, or None if it does not exist."""
        if self._marker(bucket, key):
            return b""
        path = self.path(bucket, key)
        return path.read_bytes() if path else None

    def put(self, bucket: str, key: str, content: bytes, known: Known) -> bool:
        """Have an object; whether that is possible."""
        try:
            if key.endswith("/"):
                is_there = not content and self._make_folder(bucket, key)
            else:
                is_there = self.write(bucket, key, content) is not None
            if is_there:
                self._keep(bucket, key, known)
        except OSError:  # a file is where a folder would have to be, or the name is too long
            return False
        return is_there

    def delete(self, bucket: str, key: str) -> None:
        """Remove an object. Folders that this leaves empty go too, as they do in S3."""
        is_marker, path = self._marker(bucket, key), self.path(bucket, key)
        self._facts_file(bucket, key).unlink(missing_ok=True)
        if path is not None:
            path.unlink(missing_ok=True)
        start = is_marker / "." if is_marker else path
        if start is None:
            return
        root = (self.folder / bucket).resolve()
        kept = {(root / name).resolve() for name in self._markers(bucket)}
        with suppress(OSError):
            for folder in [start] * bool(is_marker) + list(start.parents):
                if folder == root or folder in kept:
                    return
                folder.rmdir()

    def path(self, bucket: str, key: str) -> Path | None:
        """The file of an object, or None if it does not exist."""
        try:
            file = self._file(bucket, key)
            return file.resolve() if file is not None and file.is_file() else None
        except OSError:
            return None

    def _markers(self, bucket: str) -> list[str]:
        """The keys that end with a slash and were written as objects."""
        found = []
        for file in self._facts_file(bucket, "/").parent.glob(f"{_MARKER}*"):
            key = _read(file).get("key")
            if isinstance(key, str) and self._marker(bucket, key):
                found.append(key)
        return found

    def _marker(self, bucket: str, key: str) -> Path | None:
        """The folder that is an object."""
        if not key.endswith("/") or not self._facts_file(bucket, key).is_file():
            return None
        file = self._file(bucket, key.rstrip("/"))
        return file.resolve() if file is not None and file.is_dir() else None

    def _keep(self, bucket: str, key: str, known: Known) -> None:
        file = self._facts_file(bucket, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        path = self.path(bucket, key)
        time = path.stat().st_mtime_ns if path else 0
        kept = {"key": key, "time": time, "etag": known.etag, "headers": dict(known.headers)}
        file.write_text(json.dumps(kept), encoding="utf-8")

    def _facts_file(self, bucket: str, key: str) -> Path:
        """Beside the buckets, where no bucket can be and no container writes."""
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        prefix = _MARKER if key.endswith("/") else ""
        return self.folder / _FACTS / bucket / f"{prefix}{digest}"

    def _make_folder(self, bucket: str, key: str) -> bool:
        file = self._file(bucket, key.rstrip("/"))
        try:
            if file is not None:
                file.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return file is not None


def _read(file: Path) -> dict[str, Any]:
    """The stored properties of an object; empty if it does not exist."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
