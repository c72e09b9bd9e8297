"""Where results are: below a prefix of a bucket, or in a folder of this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from rsctl.clients.storage import Bucket, ObjectChanged, StoredObject
from rsctl.findings import ExitCode, Finding, RsctlError, error, warning

_BLOCK = 1 << 20


class Source(Protocol):
    """Some files, whose names are relative. All methods raise RsctlError.

    `location` is for people, `findings` what was left out of the list.
    """

    location: str
    findings: list[Finding]

    def files(self) -> Iterator[StoredObject]:
        """All of them."""

    def find(self, name: str) -> StoredObject | None:
        """One of them as it is now; None if it is gone."""

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """What is known of a file's content, in hexadecimal by algorithm."""

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See rsctl.clients.storage.Bucket.stream."""


class BucketSource:
    """See Source: the objects below a prefix that ends with a slash, or is empty."""

    def __init__(self, bucket: Bucket, location: str, prefix: str) -> None:
        self.location, self.findings = location, list[Finding]()
        self._bucket, self._prefix = bucket, prefix

    def files(self) -> Iterator[StoredObject]:
        """See Source.files. Names that end with a slash and have no content stand for folders."""
        for found in self._bucket.objects(self._prefix):
            name = found.name[len(self._prefix) :]
            if name and not (name.endswith("/") and not found.size):
                yield found._replace(name=name)

    def find(self, name: str) -> StoredObject | None:
        """See Source.find."""
        full = self._prefix + name
        first = next(self._bucket.objects(full), None)
        return first._replace(name=name) if first and first.name == full else None

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """See Source.digests."""
        return self._bucket.digests(self._full(found))

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See Source.stream."""
        return self._bucket.stream(self._full(found), offset)

    def _full(self, found: StoredObject) -> StoredObject:
        return found._replace(name=self._prefix + found.name)


class FolderSource:
    """See Source: the files below a folder, with what links to files in it lead to.

    Links that lead elsewhere or to folders, and what is no file, are left out and shown.
    """

    def __init__(self, folder: Path) -> None:
        self.location, self.findings = str(folder), list[Finding]()
        self._folder = folder

    def files(self) -> Iterator[StoredObject]:
        """See Source.files."""
        for root, folders, names in os.walk(self._folder, onerror=self._unreadable):
            for name in sorted(names) + [name for name in folders if _is_link(root, name)]:
                relative = Path(root, name).relative_to(self._folder).as_posix()
                found = self.find(relative)
                if found is not None:
                    yield found
                else:
                    self._leave_out(relative)

    def find(self, name: str) -> StoredObject | None:
        """See Source.find."""
        try:
            path = self._path(name)
            facts = path.stat() if path else None
        except (OSError, ValueError):
            return None
        if facts is None or not stat.S_ISREG(facts.st_mode):
            return None
        return StoredObject(name, facts.st_size, _version(facts))

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """See Source.digests."""
        return {}

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See Source.stream."""
        path = self._path(found.name)
        if path is None:
            raise ObjectChanged(found.name)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb", buffering=0) as file:
                if _version(os.fstat(handle)) != found.version:
                    raise ObjectChanged(found.name)
                file.seek(offset)
                while block := file.read(_BLOCK):
                    yield block
                if _version(os.fstat(handle)) != found.version:
                    raise ObjectChanged(found.name)
        except FileNotFoundError:
            raise ObjectChanged(found.name) from None
        except OSError as problem:
            raise _unreadable(str(path), problem) from None

    def _path(self, name: str) -> Path | None:
        """The file of a name; None if it is not in this folder."""
        path = Path(os.path.realpath(self._folder / name))
        return path if path.is_relative_to(os.path.realpath(self._folder)) else None

    def _leave_out(self, name: str) -> None:
        message = f"{name[:200]!r} is left out: it is no file, nor a link to one of these files"
        self.findings.append(warning("left-out", message, f"see {self._folder}"))

    def _unreadable(self, problem: OSError) -> None:
        if not isinstance(problem, (FileNotFoundError, NotADirectoryError)):
            self.findings.extend(_unreadable(str(problem.filename), problem).findings)


class FileSource(FolderSource):
    """See Source: files of one folder by their names, each read up to the size that it had.

    They may grow meanwhile, as logs do.
    """

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._names = names

    def files(self) -> Iterator[StoredObject]:
        """See Source.files."""
        yield from filter(None, map(self.find, self._names))

    def find(self, name: str) -> StoredObject | None:
        """See Source.find."""
        found = super().find(self._names[name])
        return found and found._replace(name=name)

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See Source.stream."""
        try:
            with open(self._folder / self._names[found.name], "rb") as file:
                file.seek(offset)
                left = found.size - offset
                while left > 0 and (block := file.read(min(left, _BLOCK))):
                    left -= len(block)
                    yield block
        except OSError as problem:
            raise _unreadable(found.name, problem) from None
        if left:
            raise ObjectChanged(found.name)


def _version(facts: os.stat_result) -> str:
    return f"{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}"


def _is_link(root: str, name: str) -> bool:
    return os.path.islink(os.path.join(root, name))


def _unreadable(path: str, problem: OSError) -> RsctlError:
    message = f"cannot read {path[:300]}: {problem.strerror}"
    remedy = "run the command as a user that may read it"
    return RsctlError(ExitCode.ENVIRONMENT, error("source", message, remedy))
