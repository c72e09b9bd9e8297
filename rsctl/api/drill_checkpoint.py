"""The files of a job's checkpoints, as they are when a fault has struck."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

_HEAD = 8
_MOST_JSON = 16 << 20
_UNFINISHED = (".partial", ".tmp", ".temp", ".incomplete", ".draft")


class CheckpointFiles(msgspec.Struct, kw_only=True, frozen=True):
    """The checkpoints of a run: how many files and bytes, and which files are damaged.

    `checked` is the number of files whose format rsctl knows: archives of torch.save and NumPy,
    safetensors, JSON. `newest` is the time of the last change, in seconds since 1970. Files with a
    name of unfinished ones, such as last.partial, do not count.
    """

    files: int = 0
    bytes: int = 0
    checked: int = 0
    damaged: list[str] = []
    newest: float = 0.0


def has_files(folder: str) -> bool:
    """Whether there is a finished checkpoint in a folder."""
    return next(_finished(folder), None) is not None


def checkpoint_files(folder: str) -> CheckpointFiles:
    """Look at all files below a folder; those that disappear meanwhile are left out."""
    count = size = checked = 0
    newest, damaged = 0.0, []
    for path in _finished(folder):
        try:
            found = path.stat()
            is_whole = _is_whole(path, found.st_size)
        except OSError:
            continue
        count, size = count + 1, size + found.st_size
        newest = max(newest, found.st_mtime)
        checked += is_whole is not None
        if is_whole is False:
            damaged.append(str(path.relative_to(folder)))
    return CheckpointFiles(
        files=count, bytes=size, checked=checked, damaged=sorted(damaged), newest=newest
    )


def _finished(folder: str) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(_UNFINISHED) and not name.startswith("."):
                yield Path(parent, name)


def _is_whole(path: Path, size: int) -> bool | None:
    """Whether a file is whole; None if rsctl does not know its format."""
    if size == 0:
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK"):  # its directory is at its end, which a half-written file lacks
        return zipfile.is_zipfile(path)
    if path.suffix == ".safetensors":
        return _is_whole_safetensors(path, head, size)
    if path.suffix == ".json" and size <= _MOST_JSON:
        try:
            msgspec.json.decode(path.read_bytes())
        except (ValueError, RecursionError):
            return False
        return True
    return None


def _is_whole_safetensors(path: Path, head: bytes, size: int) -> bool:
    """Whether the file is as long as its header says."""
    if len(head) < _HEAD:
        return False
    (length,) = struct.unpack("<Q", head)
    if length > size - _HEAD or length > _MOST_JSON:
        return False
    with path.open("rb") as file:
        file.seek(_HEAD)
        text = file.read(length)
    try:
        header = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
        ends = [int(t["data_offsets"][1]) for n, t in header.items() if n != "__metadata__"]
        return bool(_HEAD + length + max(ends, default=0) == size)
    except (LookupError, TypeError, ValueError, RecursionError):
        return False
