"""What a user should know of an image's files before it is built."""

from __future__ import annotations

import os
from pathlib import Path

from rsctl.image.findings import recipe_of

from .conftest import ReadJob


def test_large_files_of_the_source_are_noted(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, size in (("data/a.bin", 300_000_000), ("b.bin", 100_000_000), ("c.bin", 99_999_999)):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)
    [finding] = recipe_of(job("base: base"), "compose")[1]
    assert (finding.severity, finding.path) == ("note", "image.source")
    assert finding.message == (
        "large files are copied into the image: data/a.bin (300 MB), b.bin (100 MB)"
    )
