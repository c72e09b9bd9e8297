"""Commits to measure: which one is checked out, those between two, and their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.bench.commits import clean_commit, commits_between, resolve_commit
from rsctl.findings import ExitCode, RsctlError, error
from tests.bench.test_git_files import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of three commits on main."""
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for number in range(3):
        (folder / "src" / "train.py").write_text(f"print({number})\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"change {number}")
    return folder


def test_the_commit_that_is_checked_out(repository: Path) -> None:
    found = clean_commit(str(repository / "src"))
    assert (found.commit, found.subject) == (git(repository, "rev-parse", "HEAD"), "change 2")
    assert found.seconds == int(git(repository, "log", "-1", "--format=%ct"))


def test_files_that_differ_from_the_commit(repository: Path) -> None:
    (repository / "src" / "train.py").write_text("print(9)\n")
    with pytest.raises(RsctlError, match=r"files differ from the commit \w{10}: src/train\.py"):
        clean_commit(str(repository / "src"))
    other = repository / "docs"
    other.mkdir()
    assert clean_commit(str(other)).subject == "change 2"
    (repository / "src" / "notes.txt").write_text("not tracked")
    git(repository, "checkout", "-q", "--", "src/train.py")
    assert clean_commit(str(repository)).subject == "change 2"


def test_the_history_itself_may_differ(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    Path("h.jsonl").write_text("")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "history")
    Path("h.jsonl").write_text("{}\n")
    assert clean_commit(".", "h.jsonl").subject == "history"
    with pytest.raises(RsctlError, match="files differ"):
        clean_commit(".")


def test_outside_of_a_repository(tmp_path: Path) -> None:
    with pytest.raises(RsctlError, match="is not in a git working tree") as caught:
        clean_commit(str(tmp_path))
    assert [finding.code for finding in caught.value.findings] == ["commit"]


@pytest.mark.parametrize("ref", ["none", "--output=x", "a b", "", "HEAD:src", "main\nx"])
def test_refs_that_are_not_commits(repository: Path, ref: str) -> None:
    with pytest.raises(RsctlError) as caught:
        resolve_commit(str(repository), ref)
    assert [finding.code for finding in caught.value.findings] == ["commit"]


def test_commits_along_first_parents(repository: Path) -> None:
    git(repository, "switch", "-qc", "side", "HEAD~1")
    (repository / "side.txt").write_text("side")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "side change")
    git(repository, "switch", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "-m", "merge side", "side")
    found = commits_between(str(repository), "HEAD~2", "HEAD")
    assert [each.subject for each in found] == ["change 1", "change 2", "merge side"]
    with pytest.raises(RsctlError, match=r"main is not an ancestor of side\s.*that side contains"):
        commits_between(str(repository), "main", "side")


def test_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RsctlError) as caught:
        clean_commit(str(repository))
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.findings == (error("commit", "git is not installed", "install git"),)
