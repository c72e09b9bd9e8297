"""What goes into an image besides its base: the recipe, the runtime, the source; and their hash."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, NamedTuple

from rsctl.image.dockerignore import Dockerignore
from rsctl.image.exclusions import content_exclusion

_TAG_LENGTH = 16
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One file of the context: its content, or the file on disk that has it, or what it links to.

    With none of them it is a folder. `made_from` stands for a file that a compiler made: machines
    whose compilers differ are to have the same hash.
    """

    name: str
    executable: bool = False
    content: bytes | None = None
    path: Path | None = None
    link: str | None = None
    made_from: bytes | None = None

    def open(self) -> IO[bytes]:
        """The content, to be read; links and folders have none. Raises OSError."""
        return self.path.open("rb") if self.path else io.BytesIO(self.content or b"")

    @property
    def kind(self) -> str:
        """What it is, beyond its name and content."""
        if self.link is not None:
            return f"link {self.link}"
        is_folder = self.content is None and self.path is None
        return "folder" if is_folder else f"file {self.executable:d}"


class LeftOut(NamedTuple):
    """A path of the source that is not in the image, and why."""

    path: str
    reason: str


@dataclass
class Context:
    """The files of a build beside its Dockerfile, and what was left out of the source."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """A hash of each entry's mode and content, by name. Raises OSError."""
        return {entry.name: f"{entry.kind}\0{_hash(entry)}" for entry in self.entries}

    def digest(self, inputs: str = "") -> str:
        """A hash of `inputs`, names, modes and contents: the same on every machine."""
        total = hashlib.sha256(inputs.encode())
        for name, hashed in sorted(self.hashes.items()):
            total.update(os.fsencode(f"{name}\0{hashed}\n"))
        return total.hexdigest()[:_TAG_LENGTH]

    def write_tar(self, out: IO[bytes], *more: Entry) -> None:
        """`more` and the context as docker reads them; times and owners are not in it."""
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for entry in (*more, *self.entries):
                with entry.open() as file:
                    tar.addfile(_tar_info(entry, file), file)


def _tar_info(entry: Entry, file: IO[bytes]) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o644
    info.size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    elif entry.kind == "folder":
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    elif entry.executable:
        info.mode = 0o755
    return info


def _hash(entry: Entry) -> str:
    hashed = hashlib.sha256(entry.made_from or b"")
    if entry.made_from is not None:
        return hashed.hexdigest()
    with entry.open() as file:
        while block := file.read(_BLOCK):
            hashed.update(block)
    return hashed.hexdigest()


def source_entries(source: Path, prefix: str) -> tuple[list[Entry], list[LeftOut]]:
    """The files and folders of a source folder below `prefix`, and what was left out.

    Links are kept as links; sockets and devices are left out. Raises OSError, and RsctlError for
    a `.dockerignore` that docker would not take.
    """
    ignore = Dockerignore.of(source)
    entries = [Entry(prefix.rstrip("/"))]
    left_out: list[LeftOut] = []
    for path, relative in _walk(source, "", ignore, left_out):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            entries.append(Entry(prefix + relative, link=os.readlink(path)))
        elif stat.S_ISDIR(mode):
            entries.append(Entry(prefix + relative))
        elif stat.S_ISREG(mode):
            entries.append(Entry(prefix + relative, executable=bool(mode & 0o100), path=path))
        else:
            left_out.append(LeftOut(relative, "no regular file"))
    return entries, left_out


def _walk(
    folder: Path, relative: str, ignore: Dockerignore, left_out: list[LeftOut]
) -> Iterator[tuple[Path, str]]:
    for item in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = f"{relative}/{item.name}" if relative else item.name
        reason = ignore.exclusion(name)
        if reason is None and not ignore.is_included(name):
            reason = content_exclusion(item)
        if reason:
            left_out.append(LeftOut(name.encode(errors="backslashreplace").decode(), reason))
        else:
            yield Path(item.path), name
        if item.is_dir(follow_symlinks=False) and (ignore.can_return or not reason):
            yield from _walk(Path(item.path), name, ignore, [] if reason else left_out)
