"""What goes into an image besides its base: the recipe, the runtime, the source; and their hash."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rsctl.image.ignore import Ignore

_TAG_LENGTH = 16
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One file of the context: its content, or the file on disk that has it, or what it links to.

    With none of them it is a folder.
    """

    name: str
    executable: bool = False
    content: bytes | None = None
    path: Path | None = None
    link: str | None = None

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


@dataclass
class Context:
    """The files of a build, and how many were left out of the source."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def digest(self) -> str:
        """A hash of names, modes and contents: the same inputs give it on every machine."""
        total = hashlib.sha256()
        for entry in sorted(self.entries, key=lambda e: e.name):
            total.update(os.fsencode(f"{entry.name}\0{entry.kind}\0{_hash(entry)}\n"))
        return total.hexdigest()[:_TAG_LENGTH]

    def write_tar(self, out: IO[bytes]) -> None:
        """The context as docker reads it from standard input; times and owners are not in it."""
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for entry in self.entries:
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
    hashed = hashlib.sha256()
    with entry.open() as file:
        while block := file.read(_BLOCK):
            hashed.update(block)
    return hashed.hexdigest()


def source_entries(source: Path, prefix: str) -> tuple[list[Entry], list[str]]:
    """The files and folders of a source folder below `prefix`, and the paths that were left out.

    Links are kept as links; sockets and devices are left out. Raises OSError, and RsctlError for
    a `.dockerignore` that docker would not take.
    """
    ignore = Ignore.of(source)
    entries = [Entry(prefix.rstrip("/"))]
    left_out: list[str] = []
    for path, relative in _walk(source, "", ignore, left_out):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            entries.append(Entry(prefix + relative, link=os.readlink(path)))
        elif stat.S_ISDIR(mode):
            entries.append(Entry(prefix + relative))
        elif stat.S_ISREG(mode):
            entries.append(Entry(prefix + relative, executable=bool(mode & 0o100), path=path))
    return entries, left_out


def _walk(
    folder: Path, relative: str, ignore: Ignore, left_out: list[str]
) -> Iterator[tuple[Path, str]]:
    for item in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = f"{relative}/{item.name}" if relative else item.name
        out = ignore.leaves_out(name)
        if out:
            left_out.append(name.encode(errors="backslashreplace").decode())
        else:
            yield Path(item.path), name
        if item.is_dir(follow_symlinks=False) and (ignore.can_return or not out):
            yield from _walk(Path(item.path), name, ignore, [] if out else left_out)


def runtime_entries(prefix: str) -> list[Entry]:
    """The runtime, from the very code that is running."""
    import rsctl

    package = Path(rsctl.__file__).parent
    entries = [Entry(f"{prefix}rsctl/__init__.py", path=package / "__init__.py")]
    for path in sorted((package / "runtime").glob("*.py")):
        entries.append(Entry(f"{prefix}rsctl/runtime/{path.name}", path=path))
    return entries
