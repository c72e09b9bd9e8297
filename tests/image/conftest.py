"""Jobs whose image is the test's subject."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.spec.document import read
from rsctl.spec.job import Job

ReadJob = Callable[..., Job]


@pytest.fixture
def job(tmp_path: Path) -> ReadJob:
    """A job whose `image:` is this YAML, below two spaces; its source is the test's folder."""
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "requirements.txt").write_text("numpy==2.0\n")

    def reader(image: str = "base: base", *settings: str) -> Job:
        text = f"name: job\nrun: {{script: train.py}}\nimage:\n  {image}\n"
        (tmp_path / "job.yaml").write_text(text)
        return read(str(tmp_path / "job.yaml"), settings).require_job()

    return reader
