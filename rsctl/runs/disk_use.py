"""Disk use of folders."""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK = 512  # bytes; the unit of st_blocks


def disk_use(path: Path, skip: tuple[str, ...] = ()) -> int:
    """Bytes on disk of a file or folder, less the entries of it that are named.

    Links are counted and not followed. Files that no longer exist or that this user cannot read
    count as 0.
    """
    try:
        total = path.lstat().st_blocks * _BLOCK
        entries = list(os.scandir(path)) if path.is_dir() and not path.is_symlink() else []
    except OSError:
        return 0
    return total + sum(_tree(entry) for entry in entries if entry.name not in skip)


def _tree(entry: os.DirEntry[str]) -> int:
    total, waiting = 0, [entry]
    while waiting:
        try:
            next_entry = waiting.pop()
            total += next_entry.stat(follow_symlinks=False).st_blocks * _BLOCK
            if next_entry.is_dir(follow_symlinks=False):
                with os.scandir(next_entry.path) as entries:
                    waiting.extend(entries)
        except OSError:
            continue
    return total
