"""Unpacks an untrusted `.tar.gz`: only regular files are extracted, all below one folder.

It is read twice: first the headers of all members, to check the limits, then the selected files. A
link to a file of the archive becomes a copy of that file. A symbolic link to a folder of it is
returned to the caller, who makes it after all files are written. Other links, devices and pipes are
left out and shown. No link is made here, and no member's mode or owner is kept.
"""

from __future__ import annotations

import gzip
import os
import posixpath
import tarfile
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple, Optional

from rsctl.findings import ExitCode, Finding, RsctlError, error, first_of, warning
from rsctl.job.units import Size
from rsctl.runs.fetch.directory import explained, write_all
from rsctl.runs.fetch.downloads import DownloadContext, Stopped
from rsctl.runs.fetch.index import IndexEntry
from rsctl.runs.fetch.links import FolderLinks
from rsctl.runs.fetch.names import assign_paths, folder_path

_BLOCK = 1 << 20
_HEADERS = 1 << 20  # bytes that may come between the contents of two members
_MOST_MEMBERS = 1_000_000
_MOST_LINKS = 40
_LONGEST_NAME, _DEEPEST = 4096, 100  # Linux has no longer path, in bytes
_MOST_NAMES, _MOST_FOLDERS = 256 << 20, 64 << 20  # bytes of all members' names and folders' paths
_LEAST_LIMIT, _LIMIT_FACTOR = Size(10 << 30), 100
_CORRUPT = (
    *(tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError),
    *(LookupError, RecursionError, MemoryError),  # exceptions of tarfile for some broken headers
)


class Content(NamedTuple):
    """The content of an archive, by the members' names: sizes of files, and targets of links."""

    sizes: dict[str, int]
    links: dict[str, str]
    folders: dict[str, str]
    """The targets of links to folders."""
    findings: list[Finding]


class Unpacking(NamedTuple):
    """The members to unpack and the destination: below `folder`, members whose path is `wanted`.

    `most` is the maximum number of bytes; None for a hundred times its size, at least 10 GiB.
    """

    name: str
    folder: str
    wanted: Callable[[str], bool]
    most: Optional[int] = None


def unpack(
    archive: IO[bytes], unpacking: Unpacking, version: str, context: DownloadContext
) -> tuple[list[IndexEntry], dict[str, str], list[Finding]]:
    """Write the selected files, each atomically; returns the existing paths, the links to folders
    that contain some of them, with the folder of each, and the skipped entries.

    Raises RsctlError if the archive is damaged, exceeds a limit, or cannot be written, and Stopped.
    """
    size = os.fstat(archive.fileno()).st_size
    most = unpacking.most or max(_LEAST_LIMIT, _LIMIT_FACTOR * size)
    source = _Archive(archive, unpacking.name, most, context)
    with explained(unpacking.name), _whole(unpacking.name):
        content = _read_content(source)
        paths, links = _chosen(content, unpacking, context)
        needed = sum(content.sizes[_target(content, name)] for name in paths)
        what = f"{unpacking.name} unpacks to {needed:,} bytes"
        context.directory.require_space(needed, what, "--include")
        entries = _write_files(source, content, paths, version)
    return entries, links, content.findings


class _Archive(NamedTuple):
    """An archive: its displayed name, and the maximum number of unpacked bytes."""

    file: IO[bytes]
    name: str
    most: int
    context: DownloadContext


def _chosen(
    content: Content, unpacking: Unpacking, context: DownloadContext
) -> tuple[dict[str, str], dict[str, str]]:
    """The paths of the members that are wanted, by their names, and of links to their folders."""
    names = [*content.sizes, *content.links, *content.folders]
    assigned = assign_paths(names, context.directory.folds_case())
    folders = {assigned.pop(link): folder_path(to) for link, to in content.folders.items()}
    links = FolderLinks(unpacking.folder, folders)
    paths = {name: f"{unpacking.folder}/{path}" for name, path in assigned.items()}
    wanted = {name: path for name, path in paths.items() if links.chooses(unpacking.wanted, path)}
    return wanted, links.to(wanted.values())


def _read_content(archive: _Archive) -> Content:
    """The members that the archive lists. Raises RsctlError if it exceeds a limit."""
    content = Content({}, {}, {}, [])
    left_out: list[str] = []
    too_long: list[str] = []
    names = _Names(archive.name)
    size = 0
    for count, (_, member) in enumerate(_members(archive), start=1):
        if count > _MOST_MEMBERS:
            raise _too_big(archive.name, f"more than {_MOST_MEMBERS:,} members", None)
        size += max(member.size, 0)
        _require_size(archive, size)
        if not names.take(member):
            too_long.append(member.name[:100])
        elif not _add_member(content, member):
            left_out.append(_plain(member.name))
    left_out += _settle_links(content)
    _require_size(archive, size + sum(content.sizes[_target(content, n)] for n in content.links))
    if left_out:
        what = "neither files nor links within the archive"
        content.findings.append(skipped(archive.name, left_out, what))
    if too_long:
        what = f"longer than {_LONGEST_NAME:,} bytes, or deeper than {_DEEPEST} folders"
        content.findings.append(skipped(archive.name, too_long, what))
    return content


def _require_size(archive: _Archive, size: int) -> None:
    if size > archive.most:
        raise _too_big(archive.name, f"more than {archive.most:,} bytes when unpacked")


def _add_member(content: Content, member: tarfile.TarInfo) -> bool:
    """Add a file or a link; False for a device or another special file, which is left out."""
    name = _plain(member.name)
    if not name or member.isdir():
        return True
    content.sizes.pop(name, None)  # of several members of one name the last counts
    content.links.pop(name, None)
    if member.isreg():
        content.sizes[name] = member.size
    elif member.issym():
        content.links[name] = _plain(posixpath.join(posixpath.dirname(name), member.linkname))
    elif member.islnk():
        content.links[name] = _plain(member.linkname)
    else:
        return False
    return True


def _settle_links(content: Content) -> list[str]:
    """Keep links to files, and move those to folders; returns the others, which are dropped.

    Only now are all members known, to which links may lead.
    """
    dropped = []
    ordered = sorted(content.sizes)
    targets = {link: _target(content, link) for link in content.links}
    for link, target in targets.items():
        if target in content.sizes:
            continue
        del content.links[link]
        if _is_folder(target, ordered):
            content.folders[link] = target
        else:
            dropped.append(link)
    return dropped


def _is_folder(name: str, ordered: Sequence[str]) -> bool:
    """Whether one of the files, in their order, is below a folder of this name."""
    at = bisect_left(ordered, f"{name}/")
    return bool(name) and at < len(ordered) and ordered[at].startswith(f"{name}/")


def _target(content: Content, name: str) -> str:
    """The member that a name stands for, through links; it may not be a file."""
    for _ in range(_MOST_LINKS):
        if name in content.sizes or name not in content.links:
            return name
        name = content.links[name]
    return ""


def _write_files(
    archive: _Archive, content: Content, paths: Mapping[str, str], version: str
) -> list[IndexEntry]:
    """Write each file under its path, and under the paths of the links to it."""
    context = archive.context
    names: dict[str, list[str]] = {}
    for chosen in paths:
        names.setdefault(_target(content, chosen), []).append(chosen)
    written: dict[str, IndexEntry] = {}
    for packed, member in _members(archive):
        known = _plain(member.name) if _is_usable(member) else ""
        source = packed.extractfile(member) if member.isreg() and known in names else None
        if source is None:
            continue
        first, *others = (paths[chosen] for chosen in names[known])
        with source:
            written[first] = _write(source, first, member.size, version, context)
        for other in others:
            with open(context.directory.open(first), "rb") as copied:
                written[other] = _write(copied, other, member.size, version, context)
    return list(written.values())


def _write(
    source: IO[bytes], path: str, size: int, version: str, context: DownloadContext
) -> IndexEntry:
    context.directory.drop_part(path)
    with open(context.directory.open_part(path), "wb", buffering=0) as file:
        left = size
        while left > 0:
            if context.stop.is_set():
                raise Stopped
            block = source.read(min(left, _BLOCK))
            if not block:
                raise EOFError("a member ends early")
            write_all(file.fileno(), block, path)
            left -= len(block)
    found = context.directory.finish(path)
    return context.index.entry(path, version, found, None)


class _Names:
    """Limits the total length of the names in an archive, before paths are made of them."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._names = self._paths = 0
        self._folders: set[str] = set()

    def take(self, member: tarfile.TarInfo) -> bool:
        """Whether the member has a usable name. Raises RsctlError if the total is too large."""
        if not _is_usable(member):
            return False
        self._names += len(member.name) + len(member.linkname)
        folder = member.name.rpartition("/")[0]
        while folder and folder not in self._folders:
            self._folders.add(folder)
            self._paths += len(folder)
            folder = folder.rpartition("/")[0]
        if self._names > _MOST_NAMES or self._paths > _MOST_FOLDERS:
            raise _too_big(self._archive, "too many long names of members", None)
        return True


def _is_usable(member: tarfile.TarInfo) -> bool:
    """Whether the names of a member form a valid path."""
    return all(
        len(name) <= _LONGEST_NAME and name.count("/") <= _DEEPEST
        for name in (member.name, member.linkname)
    )


class _Metered:
    """An unpacked stream with a limit on the bytes beyond those that were granted.

    tarfile reads a member's header into memory as a whole, however long it claims to be.
    """

    def __init__(self, source: IO[bytes], name: str) -> None:
        self._source, self._name = source, name
        self._left = _HEADERS

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Raises RsctlError."""
        block = self._source.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise _too_big(self._name, "a member description that cannot be read", None)
        return block

    def grant(self, content: int) -> None:
        """Grant the bytes of a member's content, which comes next."""
        self._left = _HEADERS + content + tarfile.RECORDSIZE


def _members(archive: _Archive) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members one by one, up to the limit; earlier ones are not kept in memory."""
    archive.file.seek(0)
    with gzip.GzipFile(fileobj=archive.file, mode="rb") as stream:
        metered = _Metered(stream, archive.name)  # type: ignore[arg-type]
        with tarfile.open(fileobj=metered, mode="r|") as packed:  # type: ignore[call-overload]
            while (member := packed.next()) is not None:
                if archive.context.stop.is_set():
                    raise Stopped
                packed.members.clear()
                if member.size < 0 or member.size > archive.most:
                    raise _too_big(archive.name, f"a member of {member.size:,} bytes")
                metered.grant(member.size)
                yield packed, member
        metered.grant(0)
        while metered.read(_BLOCK):  # to its end, where gzip has a checksum
            pass


def _plain(name: str) -> str:
    """A member's name in its shortest form; a `..` that leads above the top stays in it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    kept: list[str] = []
    for part in parts:
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        else:
            kept.append(part)
    return "/".join(kept)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """Raise RsctlError for an archive that is damaged."""
    try:
        yield
    except _CORRUPT as problem:
        message = f"{name} cannot be unpacked: {str(problem)[:200] or 'it ends early'}"
        remedy = "if the job succeeded, it has written a damaged archive"
        raise RsctlError(ExitCode.ENVIRONMENT, error("archive", message, remedy)) from None


_MORE = "if you trust the job: rsctl get --max-unpacked SIZE, such as 500GB"


def _too_big(name: str, what: str, remedy: str | None = _MORE) -> RsctlError:
    message = f"{name} has {what}"
    return RsctlError(ExitCode.ENVIRONMENT, error("archive", message, remedy))


def skipped(location: str, names: list[str], why: str) -> Finding:
    """The warning that some files or links of a location are left out."""
    shown = first_of([repr(name[:100]) for name in names], 3)
    return warning("left-out", f"{location}: {shown} skipped: {why}")
