"""Which repository a folder is in, by its files alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rsctl.images.git_commit import commit_of
from rsctl.images.git_repository import GitRepository, find_repository
from tests.kit.disks import deep_folder

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path.resolve() / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").touch()
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one")
    return top


def test_a_folder_below_the_top(top: Path) -> None:
    own = top / ".git"
    for folder in (top, top / "a" / "b"):
        assert find_repository(folder) == GitRepository(top, own, own)
    assert find_repository(top.parent) is None


def test_another_working_tree_shares_the_repository(top: Path) -> None:
    other = top.parent / "other"
    git(top, "worktree", "add", "-q", str(other))
    expected = GitRepository(other, top / ".git" / "worktrees" / "other", top / ".git")
    assert find_repository(other / "a") == expected


def test_a_submodule_has_its_git_folder_elsewhere(top: Path) -> None:
    module = top.parent / "module"
    git(top.parent, "clone", "-q", str(top), "module")
    git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "sub")
    own = top / ".git" / "modules" / "sub"
    assert find_repository(top / "sub" / "a") == GitRepository(top / "sub", own, own)


@pytest.mark.parametrize("content", ["gitdir: nowhere", "gitdir:", "odd"])
def test_a_link_that_leads_nowhere_is_passed_over(top: Path, content: str) -> None:
    (top / "a" / ".git").write_text(content)
    found = find_repository(top / "a" / "b")
    expected = top / "a" if content == "gitdir:" else top
    assert found is not None
    assert found.top == expected


def test_a_folder_of_another_kind_is_passed_over(top: Path) -> None:
    own = top / ".git"
    (own / "commondir").write_text("../.git\n")
    assert find_repository(top / "a") == GitRepository(top, own, own)


def test_a_repository_can_have_any_number_of_levels(top: Path) -> None:
    with deep_folder(top / ".git" / "refs") as deepest:
        (deepest / "ref").write_text("x")
        assert commit_of(top) is not None
        os.mkfifo(deepest / "pipe")
        assert commit_of(top) is None
