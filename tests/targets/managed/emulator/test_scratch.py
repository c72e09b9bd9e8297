"""Temporary folders of emulators: none is left by one that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rsctl.targets.managed.emulator.scratch import ScratchFolder, sweep

HOLD = """\
from rsctl.targets.managed.emulator.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "key.json").write_text("secret")
print(folder.path, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def test_what_a_killed_emulator_left_goes_at_the_next_start(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        assert left.stat().st_mode & 0o077 == 0
        sweep()
        assert (left / "key.json").exists()  # its owner lives
        os.kill(other.pid, signal.SIGKILL)
    mine = ScratchFolder()
    assert list(temporary.iterdir()) == [mine.path]
    mine.close()
    mine.close()
    assert list(temporary.iterdir()) == []


def test_what_only_bears_the_name_is_left(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (temporary / "rsctl-emulated-link").symlink_to(tmp_path / "elsewhere")
    (temporary / "rsctl-emulated-file").touch()
    sweep()
    assert len(list(temporary.iterdir())) == 2
    assert (tmp_path / "elsewhere").is_dir()
