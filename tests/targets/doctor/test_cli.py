"""`rsctl doctor` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..conftest import Rsctl


@pytest.fixture
def nothing(tmp_path: Path) -> str:
    """A PATH with no program at all."""
    (tmp_path / "bin").mkdir()
    return str(tmp_path / "bin")


def test_this_machine_without_docker(rsctl: Rsctl, nothing: str) -> None:
    done = rsctl("doctor", "-o", "json", PATH=nothing)
    assert done.exit_code == 0, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["docker"] == {
        "name": "docker",
        "verdict": "warning",
        "message": "the docker command is not installed",
        "remedy": "install Docker, or use --target process",
        "path": None,
    }
    assert checks["store"]["message"] == f"0 runs in {rsctl.home}/runs.db"
    assert [checks[name]["verdict"] for name in ("google cloud", "aws")] == ["skipped", "skipped"]


def test_what_a_target_needs_is_an_error(rsctl: Rsctl, nothing: str) -> None:
    done = rsctl("doctor", "-t", "compose", "--no-color", PATH=nothing)
    assert done.exit_code == 3
    assert (
        "error   docker: the docker command is not installed\n    -> install Docker"
    ) in done.stdout


def test_a_job_that_is_wrong_is_told_first(rsctl: Rsctl) -> None:
    (rsctl.folder / "job.yaml").write_text("name: t\n")
    done = rsctl("doctor", "job.yaml")
    assert (done.exit_code, done.stdout) == (2, "")


def test_a_local_job(rsctl: Rsctl) -> None:
    (rsctl.folder / "job.yaml").write_text("name: t\nrun: {command: [ls], launcher: once}\n")
    done = rsctl("doctor", "job.yaml", "-t", "process")
    assert done.exit_code == 0
    assert done.stdout.startswith("ok      rsctl: ")
    assert "google" not in done.stdout.replace("google-cloud-aiplatform", "")
