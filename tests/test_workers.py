"""The workers of the tests: what differs from pytest's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BROKEN = "def test_before(): pass\nraise RuntimeError('not imported')\n"


def test_a_file_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_broken.py"
    file.write_text(BROKEN)
    options = ["-n1", "-pno:cacheprovider", "-ptests.conftest", f"--rootdir={tmp_path}", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTEST_ADDOPTS": "--import-mode=importlib"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "RuntimeError: not imported" in done.stdout
