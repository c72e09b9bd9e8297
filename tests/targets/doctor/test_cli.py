"""`rsctl doctor` as a user sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def doctor(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rsctl", "doctor", *arguments],
        env={**os.environ, **env},
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def nothing(tmp_path: Path) -> str:
    """A PATH with no program at all."""
    (tmp_path / "bin").mkdir()
    return str(tmp_path / "bin")


def test_this_machine_without_docker(tmp_path: Path, nothing: str) -> None:
    done = doctor(tmp_path, "-o", "json", PATH=nothing)
    assert done.returncode == 0, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["docker"] == {
        "name": "docker",
        "verdict": "warning",
        "message": "the docker command is not installed",
        "remedy": "install Docker, or use --target process",
        "path": None,
    }
    assert checks["store"]["message"] == f"0 runs in {tmp_path}/runs/runs.db"
    assert [checks[name]["verdict"] for name in ("google cloud", "aws")] == ["skipped", "skipped"]


def test_what_a_target_needs_is_an_error(tmp_path: Path, nothing: str) -> None:
    done = doctor(tmp_path, "-t", "compose", "--no-color", PATH=nothing)
    assert done.returncode == 3
    assert (
        "error   docker: the docker command is not installed\n    -> install Docker"
    ) in done.stdout


def test_a_job_that_is_wrong_is_told_first(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: t\n")
    done = doctor(tmp_path, "job.yaml")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_local_job(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: t\nrun: {command: [ls], launcher: once}\n")
    done = doctor(tmp_path, "job.yaml", "-t", "process")
    assert done.returncode == 0
    assert done.stdout.startswith("ok      rsctl: ")
    assert "google" not in done.stdout.replace("google-cloud-aiplatform", "")
