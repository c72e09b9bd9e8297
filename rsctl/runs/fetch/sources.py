"""The sources of results: a prefix of a bucket, or a folder on this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from rsctl.clients.storage import Bucket, ObjectChanged, StoredObject
from rsctl.findings import ExitCode, Finding, RsctlError, error, warning

_BLOCK = 1 << 20


class DownloadSource(Protocol):
    """Some files, whose names are relative. All methods raise RsctlError.

    `location` is for display, `findings` name the entries that the list omits. After listing,
    `links` has the links to folders in it: the folder of each by the link's name, empty for the
    whole source.
    """

    location: str
    findings: list[Finding]
    links: dict[str, str]

    def files(self) -> Iterator[StoredObject]:
        """All of them."""

    def find(self, name: str) -> StoredObject | None:
        """The present state of a file; None if it does not exist."""

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """The known checksums of a file's content, in hexadecimal by algorithm."""

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See rsctl.clients.storage.Bucket.stream."""


class BucketSource:
    """See Source: the objects below a prefix that ends with a slash, or is empty."""

    def __init__(self, bucket: Bucket, location: str, prefix: str) -> None:
        self.location, self.findings = location, list[Finding]()
        self.links: dict[str, str] = {}
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
    """See Source: the files below a folder, and the targets of links to files in it.

    Links to folders in it are in `links`. Links that lead elsewhere, and entries that are not
    files, are left out and shown.
    """

    def __init__(self, folder: Path) -> None:
        self.location, self.findings = printable(str(folder)), list[Finding]()
        self.links: dict[str, str] = {}
        self.folder = folder
        self._real: dict[str, Path] = {}  # of links

    def files(self) -> Iterator[StoredObject]:
        """See Source.files."""
        pending = [""]
        while pending:
            prefix = pending.pop()
            for entry in self._entries(prefix):
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{name}/")
                elif (found := self._listed(entry, name)) is not None:
                    yield found
                elif (target := self._linked_folder(entry, name)) is not None:
                    self.links[name] = target
                else:
                    self._leave_out(name)

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(os.path.join(self.folder, prefix)) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as problem:
            self._unreadable(problem)
            return []

    def _listed(self, entry: os.DirEntry[str], name: str) -> StoredObject | None:
        if entry.is_symlink():
            return self.find(name)
        try:
            facts = entry.stat(follow_symlinks=False)
        except OSError:
            return None
        if not stat.S_ISREG(facts.st_mode):
            return None
        return StoredObject(name, facts.st_size, _version(facts))

    def _linked_folder(self, entry: os.DirEntry[str], name: str) -> str | None:
        """The folder in here that a link leads to."""
        path = self._path(name) if entry.is_symlink() else None
        if path is None or not path.is_dir():
            return None
        return path.relative_to(os.path.realpath(self.folder)).as_posix().removeprefix(".")

    def find(self, name: str) -> StoredObject | None:
        """See Source.find."""
        try:
            path = self._path(name)
            facts = path.stat() if path else None
        except (OSError, ValueError):
            return None
        if path is None or facts is None or not stat.S_ISREG(facts.st_mode):
            return None
        self._real[name] = path
        return StoredObject(name, facts.st_size, _version(facts))

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """See Source.digests."""
        return {}

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See Source.stream."""
        path = self._real.get(found.name, self.folder / found.name)
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
        path = Path(os.path.realpath(self.folder / name))
        return path if path.is_relative_to(os.path.realpath(self.folder)) else None

    def _leave_out(self, name: str) -> None:
        message = (
            f"{name[:200]!r} is skipped: it is neither a file nor a link to a file in this folder"
        )
        self.findings.append(warning("left-out", message, f"see {self.location}"))

    def _unreadable(self, problem: OSError) -> None:
        if not isinstance(problem, (FileNotFoundError, NotADirectoryError)):
            self.findings.extend(_unreadable(str(problem.filename), problem).findings)


class FileSource(FolderSource):
    """See Source: named files of one folder, each read up to its size at the start.

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
            with open(self.folder / self._names[found.name], "rb") as file:
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


def printable(text: str) -> str:
    """A path as text: bytes that are not UTF-8 as `\\udcff`."""
    return text.encode(errors="backslashreplace").decode()


def _unreadable(path: str, problem: OSError) -> RsctlError:
    message = f"cannot read {printable(path[:300])}: {problem.strerror}"
    remedy = "run the command as a user with read permission"
    return RsctlError(ExitCode.ENVIRONMENT, error("source", message, remedy))
