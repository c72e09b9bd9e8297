"""The labels of an image say where it comes from and nothing that is secret."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rsctl.image.labels import make_labels

from .conftest import ReadJob

OCI = "org.opencontainers.image."


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=e"]
        date = {
            "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
            "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
        }
        env = {**os.environ, **date}
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, env=env, check=True)

    (tmp_path / "README").touch()
    git("init", "-q", "-b", "main")
    git("add", "README")
    git("commit", "-q", "-m", "one")
    git("remote", "add", "origin", "https://me:s3cret@example.com/a/b.git")
    return tmp_path


def test_the_labels_of_a_commit(job: ReadJob, repository: Path) -> None:
    (repository / ".git" / "info" / "exclude").write_text("*\n")
    labels = make_labels(job("base: base"))
    revision = labels.pop(f"{OCI}revision")
    assert len(revision) == 40
    assert len(labels.pop("dev.rsctl.spec")) == 64
    assert labels == {
        f"{OCI}title": "job",
        f"{OCI}base.name": "base",
        f"{OCI}created": "2026-01-02T03:04:05Z",
        f"{OCI}source": "https://example.com/a/b.git",
    }


def test_changes_that_are_not_committed_show(job: ReadJob, repository: Path) -> None:
    assert make_labels(job("base: base"))[f"{OCI}revision"].endswith("-dirty")


def test_without_git_there_are_fewer(job: ReadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert make_labels(job("base: base")).keys() == {
        f"{OCI}title",
        f"{OCI}base.name",
        "dev.rsctl.spec",
    }


def test_the_spec_hash_follows_the_spec_and_not_the_secret(job: ReadJob) -> None:
    def spec(*settings: str) -> str:
        return make_labels(job("base: base", *settings))["dev.rsctl.spec"]

    assert spec("run.env.TOKEN=a") == spec("run.env.TOKEN=b") == spec()
    assert spec("workers.count=2") != spec()
