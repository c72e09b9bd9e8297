"""The git commit of a folder, read without the configuration of its repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from rsctl.images.git_repository import Git, find_repository, open_git


class Commit(NamedTuple):
    """The commit that is checked out, its committer's time in seconds, and where it is from.

    `is_changed`: files of the folder differ from it. `origin` is empty if none is known.
    """

    revision: str
    seconds: int
    is_changed: bool
    origin: str

    @property
    def label(self) -> str:
        """The revision, with `-dirty` behind it if files differ from it."""
        return self.revision + "-dirty" * self.is_changed


def commit_of(folder: Path) -> Commit | None:
    """The commit of a folder; None without git, a repository, or a commit, or if it is broken."""
    try:
        return _commit_of(folder)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _commit_of(folder: Path) -> Commit | None:
    repository = find_repository(folder.resolve())
    if repository is None:
        return None
    with open_git(repository) as git:
        revision = git("rev-parse", "--verify", "HEAD^{commit}").strip()
        head = git("cat-file", "commit", revision).partition("\n\n")[0]
        seconds = int(head.partition("\ncommitter ")[2].partition("\n")[0].split()[-2])
        changed = _is_changed(git, repository.top, folder.resolve())
        origin = _origin(git, repository.shared / "config")
    return Commit(revision, seconds, changed, origin)


def _origin(git: Git, config: Path) -> str:
    if not config.is_file():
        return ""
    try:
        found = git("config", "--file", str(config), "--no-includes", "--get", "remote.origin.url")
    except subprocess.CalledProcessError:
        return ""
    return found.partition("\n")[0]


def _is_changed(git: Git, top: Path, folder: Path) -> bool:
    """Whether something in a folder differs from the commit, in its submodules too."""
    within = os.path.relpath(folder, top)
    # By default git reads submodules with the configuration that those have.
    if git("status", "--porcelain", "--ignore-submodules=dirty", "--", within):
        return True
    for line in git("ls-files", "--stage", "-z", "--", within).split("\0"):
        about, _, name = line.partition("\t")
        if about.startswith("160000 ") and _differs(top / name):
            return True
    return False


def _differs(submodule: Path) -> bool:
    """Whether a submodule has changes; one that is not checked out has none."""
    found = find_repository(submodule) if (submodule / ".git").exists() else None
    if found is None:
        return False
    with open_git(found) as git:
        return _is_changed(git, found.top, submodule)
