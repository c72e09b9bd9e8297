"""What target vertex looks for before it builds anything: credentials, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rsctl.spec.document import read
from rsctl.spec.job import Job
from rsctl.targets.vertex.target import TARGET


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "job.yaml").write_text("{name: job, image: {uri: i}, run: {command: [a]}}")
    return read(str(tmp_path / "job.yaml"), (), {}).require_job()


def test_credentials_that_are_there(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    user = {"client_id": "i", "client_secret": "s", "refresh_token": "t"}
    (tmp_path / "user.json").write_text(json.dumps({"type": "authorized_user", **user}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "user.json"))
    assert TARGET.preflight(job) == []
    assert not recwarn.list


def test_credentials_that_are_not(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    (finding,) = TARGET.preflight(job)
    assert (finding.severity, finding.code) == ("error", "credentials-missing")
    assert "none.json" in finding.message
    assert "gcloud auth application-default login" in (finding.remedy or "")
