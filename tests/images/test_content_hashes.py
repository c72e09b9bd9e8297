"""Hashes of large files are kept between plans, and of changed files are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rsctl.images import content_hashes, context
from rsctl.images.context import BuildContext, source_entries


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a large and a small file, of long ago as far as their hashes are concerned."""
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(content_hashes, "_SETTLED_NANOSECONDS", 0)
    monkeypatch.setattr(content_hashes, "_kept", {})
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "large.bin").write_bytes(b"a" * content_hashes.LARGE)
    (folder / "small.py").write_text("pass")
    return folder


def digest(folder: Path) -> str:
    content_hashes._kept.clear()  # as another process has it
    return BuildContext(source_entries(folder, "")[0]).digest()


def test_a_large_file_is_read_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = digest(source)
    read: list[int] = []
    monkeypatch.setattr(context, "keep_hash", lambda *facts: read.append(1))
    assert digest(source) == first
    assert read == []
    (source / "large.bin").write_bytes(b"c" * content_hashes.LARGE)
    assert digest(source) != first
    assert read == [1]


def test_a_file_of_the_same_size_and_time_that_was_written_again_is_read_again(
    source: Path,
) -> None:
    first = digest(source)
    file = source / "large.bin"
    facts = file.stat()
    file.write_bytes(b"b" * content_hashes.LARGE)
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert digest(source) != first


def test_what_was_kept_and_is_damaged_counts_for_nothing(source: Path) -> None:
    first = digest(source)
    kept = Path(os.environ["RSCTL_HOME"]) / "content-hashes.json"
    assert b"large.bin" in kept.read_bytes()
    assert b"small.py" not in kept.read_bytes()
    kept.write_bytes(b"[" * 10000)
    assert digest(source) == first
    kept.unlink()
    kept.mkdir()
    assert digest(source) == first
