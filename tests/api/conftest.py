"""A folder with a job, and runs that are ended when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import rsctl.api
from tests.kit.loopback import keep_google_auth_here

Write = Callable[..., str]


@pytest.fixture
def write_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a job whose command is a line of bash, once on each worker; returns its path."""
    keep_google_auth_here(monkeypatch)
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print('loss=0.5')\nprint('loss=0.25')\n")
    monkeypatch.chdir(folder)

    def write(script: str = "echo loss=0.5; echo loss=0.25", **keys: Any) -> str:
        job = {
            "name": "job",
            "image": {"source": "src"},
            "run": {"command": ["bash", "-c", script], "launcher": "once"},
            "metrics": {"loss": {"regex": r"loss=(\S+)", "goal": "min"}},
            **keys,
        }
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        return "job.yaml"

    yield write
    for run in rsctl.api.runs():
        if not run.state.is_final:
            run.cancel()
