"""Writes the files of a commit into a folder, as git has stored them.

No hook, filter or configuration of the repository has an effect, and nothing is fetched: git lists
and prints objects (`git_repository.open_git`), and this module writes them. `git archive` and `git
worktree` would run filters that the user's configuration names for attributes of the commit. What
a filter of Git LFS would fetch is copied from the repository's own store of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from rsctl.images.git_repository import Git, GitRepository, GitStreams, find_repository, open_git
from rsctl.images.lfs import LARGEST, is_pointer

MOST_FILES = 1_000_000
_MOST_PATH = 4096
_BLOCK = 1 << 20
# HFS+ ignores these characters in names: git's utf8.c, next_hfs_char().
_IGNORED = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
_LINK, _EXECUTABLE, _SUBMODULE = "120000", "100755", "160000"


class CheckoutError(Exception):
    """Why a commit cannot be written, and what to do."""

    def __init__(self, why: str, remedy: str | None = None) -> None:
        super().__init__(why)
        self.remedy = remedy


class TreeEntry(NamedTuple):
    """A file, link or submodule of a commit: its mode, the name of its object, and its path."""

    mode: str
    name: str
    path: bytes


def entries_of(git: Git, commit: str) -> list[TreeEntry]:
    """The entries of a commit, folders left out.

    Raises CheckoutError for a path that leaves the folder, and for too many files.
    """
    found: list[TreeEntry] = []
    with git.open("ls-tree", "-r", "-z", "--full-tree", commit) as streams:
        for line in _lines(streams.answers):
            about, _, path = line.partition(b"\t")
            mode, _, name = about.decode().split(" ")[:3]
            _require_inside(path)
            found.append(TreeEntry(mode, name, path))
            if len(found) > MOST_FILES:
                raise CheckoutError(f"the commit has more than {MOST_FILES} files")
    return found


def write_entries(
    git: Git,
    repository: GitRepository,
    entries: Iterable[TreeEntry],
    folder: Path,
    spare: Path,
    only_changed: bool = False,
) -> None:
    """Write entries into a folder, or with `only_changed` those that it does not have as they are.

    Links come after files, and submodules last. `spare` is the path of a temporary file beside the
    folder. Raises CheckoutError, OSError and CalledProcessError.
    """
    root = os.fsencode(folder)
    listed = [
        entry
        for entry in entries
        if not only_changed or entry.mode == _SUBMODULE or _differs(entry, root)
    ]
    part = os.fsencode(spare)
    with git.open("cat-file", "--batch") as streams:
        for entry in (e for e in listed if e.mode not in (_LINK, _SUBMODULE)):
            _write_file(streams, repository, entry, _place(root, entry.path), part)
        for entry in (e for e in listed if e.mode == _LINK):
            target = b"".join(_content(streams, entry))
            place = _place(root, entry.path)
            _remove(place)
            os.symlink(target or b".", place)
    for entry in (e for e in listed if e.mode == _SUBMODULE):
        _write_submodule(repository, entry, _place(root, entry.path), spare, only_changed)


def _differs(entry: TreeEntry, root: bytes) -> bool:
    """Whether the file or link of an entry is missing or has been changed. Raises OSError.

    A file of Git LFS always does: its object is only a pointer.
    """
    place = os.path.join(root, entry.path)
    if _is_behind_link(root, entry.path):
        return True
    if entry.mode == _LINK:
        if not os.path.islink(place):
            return True
        return _object_name(entry, iter([os.readlink(place)]), len(os.readlink(place))) is None
    if os.path.islink(place) or not os.path.isfile(place):
        return True
    if bool(os.stat(place).st_mode & 0o100) != (entry.mode == _EXECUTABLE):
        return True
    with open(place, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return _object_name(entry, iter(lambda: file.read(_BLOCK), b""), size) is None


def _is_behind_link(root: bytes, path: bytes) -> bool:
    """Whether a folder of a path is a link, so that its files are not in the root."""
    folder = root
    for part in path.split(b"/")[:-1]:
        folder = os.path.join(folder, part)
        if os.path.islink(folder):
            return True
    return False


def make_repository(git: Git, repository: GitRepository, commit: str, folder: Path) -> None:
    """Make `.git` in a folder that has a commit: HEAD, an index, and a link to the objects.

    With it the folder has a boundary, and rules by what git tracks hold there as in the working
    tree. It has no remote and no other ref. Raises OSError and CalledProcessError.
    """
    own = folder / ".git"
    (own / "objects" / "info").mkdir(parents=True)
    (own / "refs").mkdir()
    (own / "HEAD").write_text(f"{commit}\n")
    version = "[core]\n\trepositoryformatversion = {}\n\tbare = false\n"
    if len(commit) == 64:
        config = version.format(1) + "[extensions]\n\tobjectformat = sha256\n"
    else:
        config = version.format(0)
    (own / "config").write_text(config)
    objects = str((repository.shared / "objects").resolve())
    (own / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
    git(f"--git-dir={own}", "read-tree", commit)  # locks its own index, not the working tree's


def _write_file(
    streams: GitStreams, repository: GitRepository, entry: TreeEntry, place: bytes, part: bytes
) -> None:
    mode = 0o755 if entry.mode == _EXECUTABLE else 0o644
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    _remove(part)
    with os.fdopen(os.open(part, flags, mode), "wb") as file:
        head = b""
        for block in _content(streams, entry):
            head = head or block[:LARGEST]
            file.write(block)
        size = file.tell()
    if is_pointer(head, size):
        _write_large(repository, entry, head, part)
    if os.path.isdir(place) and not os.path.islink(place):
        _remove(place)
    os.replace(part, place)  # another process may be reading the file


def _write_large(repository: GitRepository, entry: TreeEntry, pointer: bytes, place: bytes) -> None:
    """Replace a pointer of Git LFS by its content: the specification is at git-lfs/docs/spec.md."""
    oid = pointer.partition(b"\noid sha256:")[2].partition(b"\n")[0].decode(errors="replace")
    if len(oid) != 64 or not set(oid) <= set("0123456789abcdef"):
        return
    source = repository.shared / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
    if not source.is_file():
        shown = entry.path.decode(errors="replace")
        raise CheckoutError(
            f"{shown} is stored by Git LFS, and its content is not in this clone",
            "git lfs fetch origin REF",
        )
    hashed = hashlib.sha256()
    with source.open("rb") as stored, open(place, "wb") as file:
        while block := stored.read(_BLOCK):
            hashed.update(block)
            file.write(block)
    if hashed.hexdigest() != oid:
        shown = entry.path.decode(errors="replace")
        raise CheckoutError(f"the content of {shown} in the store of Git LFS is damaged")


def _write_submodule(
    repository: GitRepository, entry: TreeEntry, place: bytes, spare: Path, only_changed: bool
) -> None:
    """The files of a submodule if the working tree has it; otherwise an empty folder, as in git.

    A link in its place is not followed, neither in the folder nor in the working tree.
    """
    if os.path.islink(place) or not os.path.isdir(place):
        _remove(place)
        os.mkdir(place)
    own = repository.top / os.fsdecode(entry.path)
    is_there = os.path.realpath(own) == str(own) and (own / ".git").exists()
    found = find_repository(own) if is_there else None
    if found is None:
        return
    with open_git(found) as git:
        try:
            git("cat-file", "-e", f"{entry.name}^{{commit}}")
        except subprocess.CalledProcessError:
            shown = os.fsdecode(entry.path)
            raise CheckoutError(
                f"the clone of submodule {shown} does not have its commit {entry.name[:12]}",
                f"git -C {shlex.quote(str(own))} fetch origin {entry.name}",
            ) from None
        inner = entries_of(git, entry.name)
        write_entries(git, found, inner, Path(os.fsdecode(place)), spare, only_changed)


def _content(streams: GitStreams, entry: TreeEntry) -> Iterator[bytes]:
    """The content of an object, from `git cat-file --batch`."""
    streams.requests.write(entry.name.encode() + b"\n")
    streams.requests.flush()
    head = streams.answers.readline().split()
    if len(head) != 3 or head[1] != b"blob":
        shown = entry.path.decode(errors="replace")
        why = f"the repository does not have the content of {shown}, and rsctl does not fetch it"
        raise CheckoutError(why, "a full clone has it; a partial clone (--filter) may not")
    left = int(head[2])
    while left > 0:
        block = streams.answers.read(min(left, _BLOCK))
        if not block:
            raise CheckoutError("git stopped while it printed the files")
        left -= len(block)
        yield block
    streams.answers.read(1)


def _object_name(entry: TreeEntry, blocks: Iterator[bytes], size: int) -> str | None:
    """The name of an entry's object if blocks of so many bytes are its content, otherwise None."""
    hashed = hashlib.new("sha256" if len(entry.name) == 64 else "sha1", usedforsecurity=False)
    hashed.update(b"blob %d\0" % size)
    for block in blocks:
        hashed.update(block)
    return entry.name if hashed.hexdigest() == entry.name else None


def _place(root: bytes, path: bytes) -> bytes:
    """The place of a path, whose folders are made; what is in their place is removed."""
    folder = root
    for part in path.split(b"/")[:-1]:
        folder = os.path.join(folder, part)
        if os.path.islink(folder) or (os.path.lexists(folder) and not os.path.isdir(folder)):
            os.unlink(folder)
        if not os.path.isdir(folder):
            os.mkdir(folder)
    return os.path.join(root, path)


def _remove(place: bytes) -> None:
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place)
    elif os.path.lexists(place):
        os.unlink(place)


def _require_inside(path: bytes) -> None:
    parts = _IGNORED.sub(b"", path.lower()).split(b"/")
    if len(path) > _MOST_PATH or {b"", b".", b"..", b".git"} & {*parts}:
        raise CheckoutError(f"the commit has a file with the path {os.fsdecode(path)[:80]!r}")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The parts of a file that end with a NUL."""
    rest = b""
    while block := file.read(1 << 16):
        *whole, rest = (rest + block).split(b"\0")
        yield from whole
