"""Jobs whose image is the test's subject."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.images.context import BuildContext, source_entries
from rsctl.job.document import read
from rsctl.job.job import Job

from .engines import PROGRAM, Install

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


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts programs on the PATH, alone, that answer as told and note their calls.

    An answer is the start of the arguments, standard output, standard error and exit code.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)

    def put(**programs: list[tuple[str, str, str, int]]) -> Path:
        for name, answers in programs.items():
            (folder / name).write_text(PROGRAM)
            (folder / name).chmod(0o755)
            (folder / f"{name}.json").write_text(json.dumps(answers))
        return folder

    return put


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with modules, a shell script, a link and an empty folder."""
    folder = tmp_path / "source"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text("print()\n")
    (folder / "pkg" / "a.py").write_text("A = 1\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("pkg/a.py")
    (folder / "empty").mkdir()
    return folder


def context(source: Path) -> BuildContext:
    """What a build gets of a source."""
    entries, left_out = source_entries(source, "source/")
    return BuildContext(entries, left_out)
