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


@dataclass(frozen=True)
class Entry:
    """One file of the context: its content, or the file or link on disk that has it."""

    name: str
    executable: bool = False
    content: bytes | None = None
    path: Path | None = None
    link: str | None = None

    def read(self) -> bytes:
        """The file's content. Raises OSError."""
        if self.content is not None:
            return self.content
        return self.path.read_bytes() if self.path else b""


@dataclass
class Context:
    """The files of a build, and how many were left out of the source."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def digest(self) -> str:
        """A hash of names, modes and contents: the same inputs give it on every machine."""
        total = hashlib.sha256()
        for entry in sorted(self.entries, key=lambda e: e.name):
            kind = f"link {entry.link}" if entry.link else f"file {entry.executable:d}"
            content = hashlib.sha256(b"" if entry.link else entry.read()).hexdigest()
            total.update(f"{entry.name}\0{kind}\0{content}\n".encode())
        return total.hexdigest()[:_TAG_LENGTH]

    def write_tar(self, out: IO[bytes]) -> None:
        """The context as docker reads it from standard input; times and owners are not in it."""
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for entry in self.entries:
                info = tarfile.TarInfo(entry.name)
                info.mode = 0o755 if entry.executable else 0o644
                if entry.link:
                    info.type, info.linkname = tarfile.SYMTYPE, entry.link
                    tar.addfile(info)
                else:
                    content = entry.read()
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))


def source_entries(source: Path, prefix: str) -> tuple[list[Entry], list[str]]:
    """The files of a source folder below `prefix`, and the paths that were left out.

    Links are kept as links; sockets and devices are left out.
    """
    ignore = Ignore.of(source)
    entries: list[Entry] = []
    left_out: list[str] = []
    for path, relative in _walk(source, "", ignore, left_out):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            entries.append(Entry(prefix + relative, path=path, link=os.readlink(path)))
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
            left_out.append(name)
        if item.is_dir(follow_symlinks=False):
            if not out or ignore.can_return:
                yield from _walk(Path(item.path), name, ignore, [] if out else left_out)
        elif not out:
            yield Path(item.path), name


def runtime_entries(prefix: str) -> list[Entry]:
    """The runtime, from the very code that is running."""
    import rsctl

    package = Path(rsctl.__file__).parent
    entries = [Entry(f"{prefix}rsctl/__init__.py", path=package / "__init__.py")]
    for path in sorted((package / "runtime").glob("*.py")):
        entries.append(Entry(f"{prefix}rsctl/runtime/{path.name}", path=path))
    return entries
