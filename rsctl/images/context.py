"""The build context: the runtime's files and the source, their hash, and the tar that is built."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec

from rsctl.findings import ExitCode, RsctlError, error, first_of
from rsctl.images.content_hashes import LARGE, keep_hash, kept_hash, save_hashes
from rsctl.images.dockerignore import NAMED, Dockerignore
from rsctl.images.exclusions import content_exclusion
from rsctl.images.gitignore import Gitignore
from rsctl.images.submodules import REASON as EMPTY_SUBMODULE
from rsctl.images.submodules import EmptySubmodules

if TYPE_CHECKING:
    import tarfile

_TAG_LENGTH = 16
_BLOCK = 1 << 20
_SHOWN = 5
_RESULTS = "results of the job's runs"
SOURCE = "source/"
"""Where the files of `image.source` are in an image's context and in a package."""


class ContextEntry(msgspec.Struct, frozen=True, dict=True):
    """One file of the context: its content, the file on disk with its content, or the target of a
    link.

    With none of them it is a folder. `made_from` stands for a compiler's output in the hash:
    machines with different compilers must get the same hash.
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

    @cached_property
    def content_hash(self) -> str:
        """The SHA-256 of the content at its first reading. Raises OSError."""
        return _hash_content(self)

    @property
    def kind(self) -> str:
        """The type of the entry, beyond its name and content."""
        if self.link is not None:
            return f"link {self.link}"
        is_folder = self.content is None and self.path is None
        return "folder" if is_folder else f"file {self.executable:d}"


class LeftOut(NamedTuple):
    """A path of the source that is not in the image, and why."""

    path: str
    reason: str


class BuildContext(msgspec.Struct, dict=True):
    """The files of a build beside its Dockerfile, and the omitted parts of the source."""

    entries: list[ContextEntry] = []
    left_out: list[LeftOut] = []

    @cached_property
    def hashes(self) -> dict[str, str]:
        """A hash of each entry's mode and content, by name. Raises OSError."""
        found = {entry.name: f"{entry.kind}\0{self._hash(entry)}" for entry in self.entries}
        save_hashes()
        return found

    @property
    def content_hashes(self) -> dict[str, str]:
        """The SHA-256 of each entry's content, by name, at its first reading. Raises OSError."""
        return {entry.name: entry.content_hash for entry in self.entries}

    def digest(self, inputs: str = "") -> str:
        """A hash of `inputs`, names, modes and contents: the same on every machine."""
        total = hashlib.sha256(inputs.encode())
        for name, hashed in sorted(self.hashes.items()):
            total.update(os.fsencode(f"{name}\0{hashed}\n"))
        return total.hexdigest()[:_TAG_LENGTH]

    def write_tar(
        self, out: IO[bytes], *more: ContextEntry, time: int | None = None
    ) -> dict[str, str]:
        """Write `more` and the context as docker reads them, without an owner.

        Without `time`, the time of an entry follows from its content: the base can have bytecode
        of the file before a change, and Python compares times and sizes only.
        Returns the SHA-256 of each entry's written content. Raises OSError.
        """
        import tarfile  # a plan writes none

        written: dict[str, str] = {}
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for entry in (*more, *self.entries):
                with entry.open() as file:
                    hashed = _HashedFile(file, entry)
                    tar.addfile(_tar_info(entry, file, time), hashed)  # type: ignore[arg-type]
                    written[entry.name] = hashed.hash.hexdigest()
                    vars(entry).setdefault("content_hash", written[entry.name])
        return written

    def write_unchanged_tar(
        self,
        out: IO[bytes],
        *more: ContextEntry,
        time: int | None = None,
        key: str = "image.source",
        work: str = "the image was being built",
    ) -> None:
        """`write_tar`, which requires that no file has changed since its first reading.

        Raises OSError, and RsctlError (`changed`) that names the changed files, the key of the spec
        that they belong to, and the work during which they changed.
        """
        expected = self.content_hashes
        try:
            written = self.write_tar(out, *more, time=time)
        except OSError as problem:
            # Only a file of the context has a name here, and all of them could be read before.
            changed = [
                e.name for e in self.entries if e.path and str(e.path) == str(problem.filename)
            ]
            if not changed:
                raise
        else:
            changed = [name for name, hashed in expected.items() if written[name] != hashed]
        if changed:
            raise changed_error(changed, key, work)

    def _hash(self, entry: ContextEntry) -> str:
        if entry.made_from is not None:
            return hashlib.sha256(entry.made_from).hexdigest()
        return entry.content_hash


def changed_error(
    names: list[str], key: str = "image.source", work: str = "the image was being built"
) -> RsctlError:
    """The error for files of the context that have changed since their first reading."""
    prefix = SOURCE if key == "image.source" else ""
    shown = [name.removeprefix(prefix).encode(errors="backslashreplace").decode() for name in names]
    message = f"files changed while {work}: {first_of(shown, _SHOWN)}"
    remedy = "run the command again; list files that other programs write in .dockerignore"
    return RsctlError(ExitCode.ENVIRONMENT, error("changed", message, remedy, key))


def unreadable(problem: OSError, key: str = "image.source") -> RsctlError:
    """The error for a file that cannot be read, or was removed meanwhile; `key` is the spec's."""
    message = f"cannot read {problem.filename}: {problem.strerror}"
    remedy = "check that it exists and is readable"
    if key == "image.source":
        remedy += ", or list it in .dockerignore; start the job when no other program writes there"
    return RsctlError(ExitCode.USAGE, error("file", message, remedy, key))


class _HashedFile:
    """A file, hashed while it is read. Raises OSError if it is shorter than requested."""

    def __init__(self, file: IO[bytes], entry: ContextEntry) -> None:
        self.hash = hashlib.sha256()
        self._file, self._path = file, entry.path

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        block = self._file.read(size)
        if len(block) < size:
            raise OSError(errno.ESTALE, "it has become shorter", str(self._path or ""))
        self.hash.update(block)
        return block


def _tar_info(entry: ContextEntry, file: IO[bytes], time: int | None) -> tarfile.TarInfo:
    import tarfile

    info = tarfile.TarInfo(entry.name)
    info.mtime = int(entry.content_hash[:6], 16) if time is None else time
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


def _hash_content(entry: ContextEntry) -> str:
    hashed = hashlib.sha256()
    with entry.open() as file:
        facts = os.fstat(file.fileno()) if entry.path else None
        is_large = facts is not None and facts.st_size >= LARGE
        if entry.path and facts and is_large and (kept := kept_hash(entry.path, facts)):
            return kept
        while block := file.read(_BLOCK):
            hashed.update(block)
    if entry.path and facts and is_large:
        keep_hash(entry.path, facts, hashed.hexdigest())
    return hashed.hexdigest()


def source_entries(
    source: Path,
    prefix: str,
    ignore: Dockerignore | None = None,
    wanted: Callable[[str], bool] | None = None,
    results: frozenset[str] = frozenset(),
) -> tuple[list[ContextEntry], list[LeftOut]]:
    """The files and folders of a source folder below `prefix`, and the omitted ones.

    Links are kept as links; sockets and devices are left out. Without `ignore` it is the folder's
    own `.dockerignore` that counts, or `.gitignore` where there is none. `wanted` chooses files by
    their names, relative to the folder; other files are neither read nor in the result. `results`
    are absolute paths that runs write to, which are left out. Raises OSError, and RsctlError for a
    pattern that docker would not take.
    """
    is_gits = ignore is None and not (source / ".dockerignore").exists()
    git = Gitignore(source) if is_gits else None
    ignore = ignore or Dockerignore.of(source)
    entries = [ContextEntry(prefix.rstrip("/"))]
    left_out: list[LeftOut] = []
    empty_submodules = EmptySubmodules()
    for item, relative in _walk(source, ignore, git, left_out, wanted, results):
        name, mode = prefix + relative, item.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            entries.append(ContextEntry(name, link=os.readlink(item)))
        elif stat.S_ISDIR(mode):
            entries.append(ContextEntry(name))
            if reason := empty_submodules.reason(Path(item)):
                left_out.append(LeftOut(relative, reason))
        elif stat.S_ISREG(mode):
            entries.append(ContextEntry(name, executable=bool(mode & 0o100), path=Path(item)))
        else:
            left_out.append(LeftOut(relative, "it is not a regular file"))
    return _without_emptied(entries, left_out, prefix), left_out


def _without_emptied(
    entries: list[ContextEntry], left_out: list[LeftOut], prefix: str
) -> list[ContextEntry]:
    """The entries without folders whose content is left out, such as one with logs that git
    ignores, or one of another branch, of which `__pycache__` remains: a new clone does not have
    them. Docker keeps those that `.dockerignore` empties.
    """
    kept_reasons = (NAMED, EMPTY_SUBMODULE)
    emptied = {
        (prefix + path).rpartition("/")[0] for path, why in left_out if why not in kept_reasons
    }
    filled, kept = {prefix.rstrip("/")}, list[ContextEntry]()
    for entry in reversed(entries):
        folder = entry.name.rpartition("/")[0]
        if entry.name in emptied and entry.name not in filled:
            emptied.add(folder)
        else:
            filled.add(folder)
            kept.append(entry)
    return kept[::-1]


def _walk(
    source: Path,
    ignore: Dockerignore,
    git: Gitignore | None,
    left_out: list[LeftOut],
    wanted: Callable[[str], bool] | None,
    results: frozenset[str],
) -> Iterator[tuple[os.DirEntry[str], str]]:
    waiting = _entries_of(source, "", None, left_out)
    while waiting:  # not by recursion, which a source of a thousand levels would exhaust
        item, name, above, left_out = waiting.pop()
        is_folder = item.is_dir(follow_symlinks=False)
        if wanted is not None and not is_folder and not wanted(name):
            continue
        reason = ignore.exclusion(name)
        if reason is None and git is not None:
            reason = git.exclusion(name, is_folder)
        inside = above  # why the folder is left out, other than by its name
        if reason is None and ignore.is_included(name):
            inside = None
        elif reason is None:
            found = _RESULTS if item.path in results else content_exclusion(item)
            reason = inside = above or found
        if reason:
            left_out.append(LeftOut(name.encode(errors="backslashreplace").decode(), reason))
        else:
            yield item, name
        if is_folder and (ignore.can_return or not reason):
            waiting += _entries_of(item, name, inside, [] if reason else left_out)


_Waiting = tuple["os.DirEntry[str]", str, "str | None", list[LeftOut]]


def _entries_of(
    folder: os.PathLike[str], relative: str, above: str | None, left_out: list[LeftOut]
) -> list[_Waiting]:
    """The entries of a folder, the first of them last."""
    prefix = f"{relative}/" if relative else ""
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name, reverse=True)
    return [(entry, prefix + entry.name, above, left_out) for entry in entries]


def leads_out(entry: ContextEntry, folder: str, prefix: str) -> bool:
    """Whether an entry is a link to a path outside `folder`, whose entries are below `prefix`."""
    if entry.link is None:
        return False
    root = os.path.realpath(folder)
    beside = os.path.dirname(entry.name.removeprefix(prefix))
    target = os.path.join(root, beside, entry.link)
    return os.path.isabs(entry.link) or not Path(os.path.realpath(target)).is_relative_to(root)


def copy_entries(entries: Iterable[ContextEntry], folder: Path) -> None:
    """Write the files and folders of a source below a folder. Raises OSError."""
    for entry in entries:
        path = folder / entry.name
        if entry.link is not None:
            path.symlink_to(entry.link)
        elif entry.path is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry.path, path)
            path.chmod(0o755 if entry.executable else 0o644)
