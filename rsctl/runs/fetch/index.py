"""The index of a run's files in a folder: `.rsctl-get`, one JSON object per line, the last one
counts.

{run}                                      the run of these results {path, version, size, modified,
checksum}  a file that is complete {path, part: version}                      the version of the
part beside it {archive, version, files: [{path, …}], links: {path: folder}}     an archive that was
unpacked
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from threading import Lock
from typing import Any, Optional

import msgspec

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.fetch.directory import INDEX, Directory, explained, write_all


class IndexEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A file that is complete. `modified` is its time in nanoseconds, `checksum` an algorithm."""

    path: str
    version: str
    size: int
    modified: int
    checksum: Optional[str] = None


class Unpacked(msgspec.Struct, kw_only=True):
    """An unpacked archive: the version, the selection, and its existing files."""

    archive: str
    version: str
    include: list[str]
    files: list[IndexEntry]
    links: dict[str, str] = {}


class Index:
    """The index of one folder; threads can share it. One process at a time has it."""

    def __init__(self, directory: Directory, run: str) -> None:
        self._directory = directory
        self._files: dict[str, IndexEntry] = {}
        self._parts: dict[str, str] = {}
        self._unpacked: dict[str, Unpacked] = {}
        self._lock = Lock()
        self._file = directory.open_index()
        try:
            self._claim(run)
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Release it for other processes."""
        os.close(self._file)

    def part(self, path: str) -> str | None:
        """The version that the part beside a file is of."""
        return self._parts.get(path)

    def begin(self, path: str, version: str) -> None:
        """Record that from now on the part next to a file is of this version; it does not exist
        yet.
        """
        self._parts[path] = version
        self._write({"path": path, "part": version})

    def add(
        self, path: str, version: str, found: os.stat_result, checksum: str | None
    ) -> IndexEntry:
        """Record a complete file."""
        entry = self.entry(path, version, found, checksum)
        self._files[path] = entry
        self._write(entry)
        return entry

    @staticmethod
    def entry(path: str, version: str, found: os.stat_result, checksum: str | None) -> IndexEntry:
        """The record of a file."""
        return IndexEntry(
            path=path,
            version=version,
            size=found.st_size,
            modified=found.st_mtime_ns,
            checksum=checksum,
        )

    def find(self, path: str, version: str) -> IndexEntry | None:
        """The facts of a file, if this version of it exists unchanged."""
        entry = self._files.get(path)
        return entry if entry and entry.version == version and self._is_there(entry) else None

    def add_unpacked(self, unpacked: Unpacked) -> None:
        """Record an unpacked archive."""
        self._unpacked[unpacked.archive] = unpacked
        self._write(unpacked)

    def find_unpacked(self, archive: str, version: str, include: Iterable[str]) -> Unpacked | None:
        """The existing files of an archive, if this version was unpacked with this selection and
        all exist.
        """
        known = self._unpacked.get(archive)
        if known is None or known.version != version or known.include != list(include):
            return None
        return known if all(map(self._is_there, known.files)) else None

    def _is_there(self, entry: IndexEntry) -> bool:
        found = self._directory.stat(entry.path)
        return found is not None and (found.st_size, found.st_mtime_ns) == (
            entry.size,
            entry.modified,
        )

    def _claim(self, run: str) -> None:
        """Claim the folder for a run, and read the index. Raises RsctlError."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another rsctl get is writing to {self._directory.path}"
            finding = error("destination", message, "wait until it ends, or use another folder")
            raise RsctlError(ExitCode.USAGE, finding) from None
        with explained(INDEX), open(os.dup(self._file), "rb") as file:
            file.seek(0)
            lines = file.read().splitlines(keepends=True)
        owner = None
        for line in lines:
            owner = self._read(line) or owner
        if owner not in (None, run):
            message = f"{self._directory.path} already has the results of {owner}"
            finding = error("destination", message, "use another folder")
            raise RsctlError(ExitCode.USAGE, finding)
        if lines and not lines[-1].endswith(b"\n"):  # it was killed while it wrote
            os.write(self._file, b"\n")
        if owner is None:
            self._write({"run": run})

    def _read(self, line: bytes) -> str | None:
        """Take a line; returns its run, if it names one. A damaged line is skipped."""
        try:
            value = msgspec.json.decode(line)
            if "run" in value:
                return str(value["run"])
            if "archive" in value:
                unpacked = msgspec.convert(value, Unpacked)
                self._unpacked[unpacked.archive] = unpacked
            elif "part" in value:
                self._parts[str(value["path"])] = str(value["part"])
            else:
                entry = msgspec.convert(value, IndexEntry)
                self._files[entry.path] = entry
        except (ValueError, RecursionError, TypeError, KeyError):
            pass
        return None

    def _write(self, value: Any) -> None:
        with self._lock:
            write_all(self._file, msgspec.json.encode(value) + b"\n", INDEX)
