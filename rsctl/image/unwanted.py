"""What is known by its content rather than by its name to have no place in an image."""

from __future__ import annotations

import os
from pathlib import Path

from rsctl.runs.home import home

_KEY_BYTES = 1 << 14  # of a service account's key file, which has about 2,400
_KEY_MARKS = (b'"service_account"', b'"private_key"')


def unwanted(item: os.DirEntry[str]) -> str | None:
    """Why a file or folder is to be left out; None if it is not. Raises OSError."""
    if item.is_dir(follow_symlinks=False):
        return _unwanted_folder(Path(item.path))
    if item.name.endswith(".json") and item.is_file(follow_symlinks=False) and _is_key(item):
        return "the key of a service account"
    return None


def _unwanted_folder(path: Path) -> str | None:
    if (path / "pyvenv.cfg").is_file():
        return "a virtual environment"
    return "where rsctl keeps its runs" if path == home() else None


def _is_key(item: os.DirEntry[str]) -> bool:
    if item.stat(follow_symlinks=False).st_size > _KEY_BYTES:
        return False
    content = Path(item.path).read_bytes()
    return all(mark in content for mark in _KEY_MARKS)
