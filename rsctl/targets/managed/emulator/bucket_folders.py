"""Buckets as folders, whose objects are files that containers and users find there too."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_FOR_ALL = 0o777
_BLOCK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class BucketFolders:
    """The buckets in a folder: each folder in it is one, regardless of its creator.

    All users can access a bucket, because containers write there as different users; `folder`
    itself is closed to other users of this machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)

    def all(self) -> list[str]:
        """The names of all buckets."""
        return sorted(path.name for path in self.folder.iterdir() if self.has(path.name))

    def make(self, bucket: str) -> None:
        """Have a bucket."""
        folder = self.folder / bucket
        folder.mkdir(exist_ok=True)
        folder.chmod(_FOR_ALL)

    def has(self, bucket: str) -> bool:
        """Whether a bucket is there."""
        return _NAME.fullmatch(bucket) is not None and (self.folder / bucket).is_dir()

    def names(self, bucket: str) -> list[str]:
        """The objects of a bucket."""
        folder = self.folder / bucket
        files = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
        return sorted(file.relative_to(folder).as_posix() for file in files)

    def read(self, bucket: str, name: str) -> tuple[int, bytes] | None:
        """An object's generation and bytes, or None if it does not exist."""
        try:
            file = self._file(bucket, name)
            if file is None or not file.is_file():
                return None
            return file.stat().st_mtime_ns // 1000, file.read_bytes()
        except OSError:  # such as a name that no file can have
            return None

    def write(self, bucket: str, name: str, content: bytes) -> int | None:
        """Have an object of some bytes; see `take`."""
        return self.take(bucket, name, io.BytesIO(content))

    def take(self, bucket: str, name: str, source: BinaryIO) -> int | None:
        """Have an object of a file's content, at once or not at all.

        Returns its generation, which is later than the one before, None if it cannot be a file.
        """
        try:
            file = self._file(bucket, name)
            if file is None or file.is_dir() or name.endswith("/"):
                return None
            file.parent.mkdir(parents=True, exist_ok=True)
            before = file.stat().st_mtime_ns if file.exists() else 0
            handle, new = tempfile.mkstemp(dir=self.folder, prefix=".")
            try:
                with open(handle, "wb") as out:
                    shutil.copyfileobj(source, out, _BLOCK)
                os.chmod(new, 0o666)  # noqa: S103 - for any user of a container
                time = max(os.stat(new).st_mtime_ns, before + 1000)  # of a coarse clock
                os.utime(new, ns=(time, time))
                os.replace(new, file)
            except BaseException:
                os.unlink(new)
                raise
            return file.stat().st_mtime_ns // 1000
        except OSError:
            return None

    def remove(self, bucket: str, name: str) -> None:
        """Have an object no more."""
        with suppress(OSError):
            file = self._file(bucket, name)
            if file is not None:
                file.unlink(missing_ok=True)

    def _file(self, bucket: str, name: str) -> Path | None:
        """Where an object is, unless a name or a link that a container made leads elsewhere."""
        parts = name.split("/")
        if "\0" in name or not self.has(bucket) or not {"", ".", ".."}.isdisjoint(parts):
            return None
        folder = (self.folder / bucket).resolve()
        file = folder.joinpath(*parts)
        return file if file.resolve().is_relative_to(folder) else None
