"""The files that git tracks, read from a repository's index without git.

The configuration of a repository names programs that git would start, so git is not asked. Format:
https://git-scm.com/docs/index-format, versions 2 to 4.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

_LARGEST = 1 << 28
_STAT_BYTES = 40
_EXTENDED = 0x4000
_MODE_AT, _SUBMODULE = 24, 0o160000


def tracked_files(work_tree: Path) -> frozenset[str]:
    """The paths in a work tree's index; none where there is no index that can be read."""
    return frozenset(os.fsdecode(path) for path, _ in _entries_of(work_tree))


def submodules(work_tree: Path) -> frozenset[str]:
    """The paths of the submodules in a work tree's index, initialized or not."""
    found = (os.fsdecode(path) for path, mode in _entries_of(work_tree) if mode == _SUBMODULE)
    return frozenset(found)


def _entries_of(work_tree: Path) -> list[tuple[bytes, int]]:
    try:
        return _paths(_read(_git_folder(work_tree) / "index"))
    except (OSError, ValueError, IndexError, struct.error):
        return []


def _git_folder(work_tree: Path) -> Path:
    """Where the index is: `.git`, or the folder that the file `.git` names."""
    git = work_tree / ".git"
    if git.is_dir():
        return git
    text = os.fsdecode(_read(git)).strip()
    return work_tree / text.removeprefix("gitdir:").strip()


def _read(path: Path) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is not a regular file")
        return opened.read(_LARGEST)


def _paths(data: bytes) -> list[tuple[bytes, int]]:
    signature, version, count = struct.unpack(">4sII", data[:12])
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index")
    # Names of hashes differ in length: SHA-1 has 20 bytes, SHA-256 has 32.
    for hash_bytes in (20, 32):
        try:
            return _entries(data, version, count, hash_bytes)
        except (ValueError, IndexError, struct.error):
            continue
    raise ValueError("not an index")


def _entries(data: bytes, version: int, count: int, hash_bytes: int) -> list[tuple[bytes, int]]:
    """The paths and modes."""
    paths: list[tuple[bytes, int]] = []
    at, previous = 12, b""
    for _ in range(count):
        start = at
        at += _STAT_BYTES + hash_bytes
        (flags,) = struct.unpack(">H", data[at : at + 2])
        at += 4 if flags & _EXTENDED else 2
        kept = b""
        if version == 4:
            strip, at = _varint(data, at)
            kept = previous[: len(previous) - strip]
        end = data.index(b"\0", at)
        path = kept + data[at:end]
        length = flags & 0xFFF
        if length != min(len(path), 0xFFF) or (path <= previous and path != previous):
            raise ValueError("not an entry")
        at = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
        previous = path
        (mode,) = struct.unpack_from(">I", data, start + _MODE_AT)
        paths.append((path, mode))
    return paths


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1
