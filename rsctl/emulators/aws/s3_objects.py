"""Where the emulated S3 keeps objects: in memory, or as files of a folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Optional, Protocol

from rsctl.emulators.bucket_folders import BucketFolders

_FOR_ALL = 0o666


class Facts(NamedTuple):
    """What is known of an object; `modified` in seconds since 1970, `etag` with its quotes."""

    size: int
    modified: float
    etag: str


class Objects(Protocol):
    """Buckets and what is in them."""

    def all(self) -> list[str]:
        """The names of all buckets."""

    def has(self, bucket: str) -> bool:
        """Whether a bucket is there."""

    def make(self, bucket: str) -> None:
        """Have a bucket."""

    def names(self, bucket: str) -> list[str]:
        """The keys of a bucket, in order."""

    def facts(self, bucket: str, key: str) -> Optional[Facts]:
        """What is known of an object, or None if it is not there."""

    def content(self, bucket: str, key: str) -> Optional[bytes]:
        """An object's bytes, or None if it is not there."""

    def put(self, bucket: str, key: str, content: bytes) -> bool:
        """Have an object; whether that is possible."""

    def delete(self, bucket: str, key: str) -> None:
        """Have it no more; harmless if it is not there."""


class MemoryObjects:
    """Buckets that go with the process."""

    def __init__(self) -> None:
        self._buckets: dict[str, dict[str, tuple[float, bytes]]] = {}

    def all(self) -> list[str]:
        """See Objects."""
        return sorted(self._buckets)

    def has(self, bucket: str) -> bool:
        """See Objects."""
        return bucket in self._buckets

    def make(self, bucket: str) -> None:
        """See Objects."""
        self._buckets.setdefault(bucket, {})

    def names(self, bucket: str) -> list[str]:
        """See Objects."""
        return sorted(self._buckets[bucket])

    def facts(self, bucket: str, key: str) -> Facts | None:
        """See Objects."""
        found = self._buckets.get(bucket, {}).get(key)
        if found is None:
            return None
        modified, content = found
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return Facts(len(content), modified, f'"{digest}"')

    def content(self, bucket: str, key: str) -> bytes | None:
        """See Objects."""
        found = self._buckets.get(bucket, {}).get(key)
        return found[1] if found else None

    def put(self, bucket: str, key: str, content: bytes) -> bool:
        """See Objects."""
        self._buckets[bucket][key] = (time.time(), content)
        return True

    def delete(self, bucket: str, key: str) -> None:
        """See Objects."""
        self._buckets.get(bucket, {}).pop(key, None)


class FolderObjects(BucketFolders):
    """Buckets that are folders, objects that are files: who has the folder needs no S3.

    A key that ends with a slash is a folder. What cannot be a file is not taken.
    """

    def facts(self, bucket: str, key: str) -> Facts | None:
        """See Objects. The tag is of size and time, as of an object that came in parts."""
        path = self.path(bucket, key)
        if path is None:
            return None
        found = path.stat()
        return Facts(found.st_size, found.st_mtime, f'"{found.st_mtime_ns:032x}-1"')

    def content(self, bucket: str, key: str) -> bytes | None:
        """See Objects."""
        path = self.path(bucket, key)
        return path.read_bytes() if path else None

    def put(self, bucket: str, key: str, content: bytes) -> bool:
        """See Objects."""
        if key.endswith("/") and not content:
            return self._make_folder(bucket, key)
        try:
            return self.write(bucket, key, content) is not None
        except OSError:  # a file is where a folder would have to be, or the name is too long
            return False

    def delete(self, bucket: str, key: str) -> None:
        """See Objects. Folders that this leaves empty go too, as they do in S3."""
        path = self.path(bucket, key)
        if path is None:
            return
        path.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in path.parents:
                if folder == (self.folder / bucket).resolve():
                    return
                folder.rmdir()

    def path(self, bucket: str, key: str) -> Path | None:
        """The file that is an object, or None if it is not there."""
        try:
            file = self._file(bucket, key)
            return file.resolve() if file is not None and file.is_file() else None
        except OSError:
            return None

    def take(self, bucket: str, key: str, source: BinaryIO) -> bool:
        """Have an object of a file's content, at once or not at all; whether that is possible."""
        file = self._file(bucket, key)
        if file is None or file.is_dir():
            return False
        handle, new = tempfile.mkstemp(dir=self.folder, prefix=".")
        try:
            with open(handle, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
            os.chmod(new, _FOR_ALL)
            file.parent.mkdir(parents=True, exist_ok=True)
            os.replace(new, file)
        except OSError:
            os.unlink(new)
            return False
        return True

    def _make_folder(self, bucket: str, key: str) -> bool:
        file = self._file(bucket, key.rstrip("/"))
        try:
            if file is not None:
                file.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return file is not None
