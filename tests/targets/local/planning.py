"""Fixtures: jobs planned for the local targets on a machine of our choice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.job.document import Document, read
from rsctl.plan import make_plan
from rsctl.targets.base import Target
from rsctl.targets.local.host import LocalMachine
from rsctl.targets.local.process import ProcessTarget

JOB = """\
name: job
image: {source: src}
run: {script: train.py, launcher: once}
"""

Render = Callable[..., dict[str, Any]]


def a_host(gpus: int = 0, cpus: int = 16) -> LocalMachine:
    return LocalMachine(
        cpus=cpus,
        gpus=gpus,
        python="/venv/bin/python",
        loopback="lo",
        may_lock_memory=True,
    )


@pytest.fixture
def document(tmp_path: Path) -> Callable[[str], Document]:
    """A job file beside a folder `src` with a script and a folder `data`."""
    (tmp_path / "src").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "src" / "train.py").touch()

    def write(text: str) -> Document:
        (tmp_path / "job.yaml").write_text(text)
        return read(str(tmp_path / "job.yaml"), (), {"TOKEN": "s3cret"})

    return write


@pytest.fixture
def plan(document: Callable[[str], Document], monkeypatch: pytest.MonkeyPatch) -> Render:
    """`plan(text, target)`: what `plan -o json` prints for run `job-1`, with home `/home`."""
    monkeypatch.setenv("RSCTL_HOME", "/home")

    def render(text: str, target: Target | None = None) -> dict[str, Any]:
        made = make_plan(document(text), target or ProcessTarget(a_host()), "job-1").plan
        shown: dict[str, Any] = msgspec.to_builtins(made)
        return shown

    return render
