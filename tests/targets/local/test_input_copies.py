"""Copies of inputs that the supervisor makes on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.home import private_folder
from rsctl.targets.local.input_copies import copied_to, copy_inputs


def test_containers_of_any_user_can_read_the_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an umask that lets only the user read new files, and an image that has a user."""
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "home"))
    (tmp_path / "data/sub").mkdir(parents=True)
    (tmp_path / "data/sub/f").touch(0o600)
    private_folder(RunFolder("r").path)
    RunFolder("r").log("worker-0").parent.mkdir(parents=True)
    recorder: Any = SimpleNamespace(metrics=list)
    description = RunDescription(
        run="r", target="compose", request={}, replicas=[], copies={"d": str(tmp_path / "data")}
    )
    before = os.umask(0o077)
    try:
        copy_inputs(description, recorder, lambda: None)
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    found = {path.name: path.stat().st_mode & 0o777 for path in copied_to("r").glob("d/**/*")}
    assert found == {"data": 0o755, "sub": 0o755, "f": 0o644}
    assert copied_to("r").stat().st_mode & 0o777 == 0o755
    assert RunFolder("r").path.stat().st_mode & 0o777 == 0o700
