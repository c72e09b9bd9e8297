"""A small disk of its own, which a test can fill, and folders that are deep."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SIZE = 4 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB; mounted, so that only root may."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Fill a small disk but for so many bytes; the file to remove to have space again."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    os.truncate(filler, max(0, filler.stat().st_size - left))
    return filler


@contextmanager
def deep_folder(folder: Path, levels: int = 300) -> Iterator[Path]:
    """The innermost of nested folders, more than code in the context can walk by recursion."""
    deepest = folder.joinpath(*["a"] * levels)
    deepest.mkdir(parents=True)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(levels)
    try:
        yield deepest
    finally:
        sys.setrecursionlimit(limit)
