"""The record of what a run was made from."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rsctl.api import prepare
from rsctl.runs.origin import origin_of
from rsctl.targets.local.target import LocalTarget

from .conftest import Write

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def test_a_file_that_the_job_writes_immediately_is_no_change(
    write_job: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source counts as it was before the job was sent."""
    path = write_job("true")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*GIT, *words], check=True)
    submit = LocalTarget.submit

    def submit_and_write(self: LocalTarget, *arguments: Any) -> None:
        submit(self, *arguments)
        Path("src/output.py").touch()

    monkeypatch.setattr(LocalTarget, "submit", submit_and_write)
    run = prepare(path).submit()
    run.wait()
    origin = origin_of(run.id)
    assert origin is not None
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert origin.commit == head.stdout.strip()
    assert [name for name in origin.content if name.startswith("file")] == ["file train.py"]
