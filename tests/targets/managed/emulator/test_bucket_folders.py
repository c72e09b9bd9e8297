"""Objects as files: names that no file can have, and generations."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rsctl.targets.managed.emulator.bucket_folders import BucketFolders
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects

TOO_LONG = ["k" * 300, "a/" + "k" * 300, "/".join(["folder"] * 700), "k" * 300 + "/k"]


@pytest.mark.parametrize("name", TOO_LONG)
@pytest.mark.parametrize("kind", [BucketFolders, FolderObjects])
def test_a_name_that_is_too_long_for_a_file(
    tmp_path: Path, kind: type[BucketFolders], name: str
) -> None:
    objects = kind(tmp_path / "buckets")
    objects.make("bucket")
    assert objects.write("bucket", name, b"content") is None
    assert objects.read("bucket", name) is None
    objects.remove("bucket", name)
    files = [path for path in (tmp_path / "buckets").rglob("*") if not path.is_dir()]
    assert files == []


def test_a_name_has_one_spelling(tmp_path: Path) -> None:
    """`a/./b` is another object than `a/b`, and no file can have that name."""
    objects = BucketFolders(tmp_path / "buckets")
    objects.make("bucket")
    assert objects.write("bucket", "a/b", b"content") is not None
    for name in ("a/./b", "./a/b", "a//b", "/a/b", "a/b/", "a/c/../b", ".", "..", "", "a/b\0"):
        assert objects.write("bucket", name, b"other") is None, name
        assert objects.read("bucket", name) is None, name
        objects.remove("bucket", name)
    found = objects.read("bucket", "a/b")
    assert found is not None
    assert (objects.names("bucket"), found[1]) == (["a/b"], b"content")


def test_a_generation_is_later_than_the_one_before(tmp_path: Path) -> None:
    """Also if the clock of the file system has not moved since, or was set back."""
    objects = BucketFolders(tmp_path / "buckets")
    objects.make("bucket")
    assert objects.write("bucket", "a", b"1") is not None
    before = 2**62 // 1000 * 1000
    os.utime(tmp_path / "buckets" / "bucket" / "a", ns=(before, before))
    written = objects.write("bucket", "a", b"2")
    assert written == before // 1000 + 1
    assert objects.read("bucket", "a") == (written, b"2")
