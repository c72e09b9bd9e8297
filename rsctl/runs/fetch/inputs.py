"""The locations of a job's inputs: an object, all objects below a prefix, a local file or folder,
or shards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import StoredObject
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.node import shards
from rsctl.runs.fetch.locations import ResultLocation, open_location
from rsctl.runs.fetch.sources import DownloadSource, FolderSource

_FEW = 16
"""Files that are looked up by name, because their folder may have many others."""


def input_location(name: str, location: str, endpoints: Endpoints) -> ResultLocation:
    """The source of an input, and its destination folder. Raises RsctlError, also if it is empty.

    An input has the last part of its location as its name there; shards keep their names.
    """
    if shards.has_range(location):
        folder, pattern = shards.split_folder(location)
        is_local = "://" not in folder
        source = _NamedFiles(Path(folder)) if is_local else open_location(folder, endpoints)
        return ResultLocation("inputs", name, ShardSource(source, shards.expand(pattern)))
    source, own_folder = _whole(location, endpoints)
    return ResultLocation("inputs", f"{name}/{own_folder}" if own_folder else name, source)


def _whole(location: str, endpoints: Endpoints) -> tuple[DownloadSource, str]:
    """The files of a location, and their destination folder: none for a single file."""
    if "://" not in location:
        path = Path(location)
        if path.is_dir():
            return FolderSource(path), path.name
        return ShardSource(_NamedFiles(path.parent), [path.name]), ""
    parent, _, last = location.rstrip("/").rpartition("/")
    files = open_location(location.rstrip("/"), endpoints)
    first = next(files.files(), None)
    if first is not None:
        return files, last
    if location.count("/") > 2 and not location.endswith("/"):
        single = ShardSource(open_location(parent, endpoints), [last])
        if single.find(last) is not None:
            return single, ""
    finding = error("input", f"{location} does not exist", "correct inputs")
    raise RsctlError(ExitCode.REFUSED, finding)


class _NamedFiles(FolderSource):
    """See Source: files that the job names; they may be links to files elsewhere."""

    def _path(self, name: str) -> Path | None:
        return Path(os.path.realpath(self.folder / name))


class ShardSource:
    """See Source: some files of another source, by their names. One that is missing is an error."""

    def __init__(self, source: DownloadSource, names: list[str]) -> None:
        self.location, self.findings = source.location, list[Finding]()
        self.links: dict[str, str] = {}
        self._source, self._names = source, names

    def files(self) -> Iterator[StoredObject]:
        """See Source.files."""
        wanted = set(self._names)
        found = {each.name: each for each in self._listed() if each.name in wanted}
        missing = [name for name in self._names if name not in found]
        if missing:
            shown = ", ".join(repr(name[:80]) for name in missing[:3])
            message = f"{len(missing):,} of {len(self._names):,} files do not exist: {shown}"
            finding = error("input", f"{self.location}: {message}", "correct inputs")
            raise RsctlError(ExitCode.REFUSED, finding)
        yield from found.values()

    def _listed(self) -> Iterator[StoredObject]:
        """The source's files, or only the named ones."""
        if len(self._names) > _FEW and not isinstance(self._source, _NamedFiles):
            return self._source.files()
        return chain.from_iterable([found] if (found := self.find(n)) else [] for n in self._names)

    def find(self, name: str) -> StoredObject | None:
        """See Source.find."""
        return self._source.find(name)

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """See Source.digests."""
        return self._source.digests(found)

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See Source.stream."""
        return self._source.stream(found, offset)
