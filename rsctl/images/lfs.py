"""Pointers of Git LFS: the small files that a clone has in place of contents it did not fetch."""

from __future__ import annotations

LARGEST = 1024
"""The maximum size of a pointer in bytes, by docs/spec.md of git-lfs/git-lfs."""

_BEGIN = b"version https://git-lfs.github.com/spec/v1\n"


def is_pointer(head: bytes, size: int) -> bool:
    """Whether a file of this size, which begins so, is a pointer."""
    return size <= LARGEST and head.startswith(_BEGIN)
