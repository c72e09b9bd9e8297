"""What target vertex looks for before it builds anything: credentials, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets.base import Submission
from rsctl.targets.vertex.target import TARGET


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    (tmp_path / "job.yaml").write_text(
        "{name: job, image: {uri: i}, run: {command: [a], launcher: none}, "
        "targets: {vertex: {project: my-project, region: us-central1}}}"
    )
    return make_plan(read(str(tmp_path / "job.yaml"), (), {}), TARGET, "job-aaaaaa")


def test_credentials_that_are_there(
    submission: Submission,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    user = {"client_id": "i", "client_secret": "s", "refresh_token": "t"}
    (tmp_path / "user.json").write_text(json.dumps({"type": "authorized_user", **user}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "user.json"))
    assert TARGET.preflight(submission) == []
    assert not recwarn.list


def test_credentials_that_are_not(
    submission: Submission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    (finding,) = TARGET.preflight(submission)
    assert (finding.severity, finding.code) == ("error", "credentials-missing")
    assert "none.json" in finding.message
    assert "gcloud auth application-default login" in (finding.remedy or "")
