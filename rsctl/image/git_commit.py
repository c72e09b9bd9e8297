"""The git commit of a folder, read without the configuration of its repository.

A repository's configuration names programs that git runs even to read (`core.fsmonitor`,
`log.showSignature` with `gpg.program`, `filter.*.clean`, hooks), and it may come from somebody
else with the folder. So git is given a folder of ours instead, with a configuration of ours, that
links to the repository's refs, objects and index. The user's worktree configuration still holds.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_SECONDS = 60
# What working trees of one repository share; each has its HEAD and index.
_SHARED = ("objects", "refs", "packed-refs", "info/exclude")
# Git heeds these only for a repository that it trusts, or runs them beside reading.
_SAFE = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false")


class Commit(NamedTuple):
    """The commit that is checked out, its committer's time in seconds, and where it is from.

    `is_changed`: files of the folder differ from it. `origin` is empty where none is known.
    """

    revision: str
    seconds: int
    is_changed: bool
    origin: str


def commit_of(folder: Path) -> Commit | None:
    """The commit of a folder; None without git, a repository, or a commit, or if it is broken."""
    try:
        return _commit_of(folder)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _commit_of(folder: Path) -> Commit | None:
    found = _find(folder.resolve())
    if found is None:
        return None
    top, worktree, shared = found
    with _reading(top, worktree, shared) as git:
        revision = git("rev-parse", "--verify", "HEAD^{commit}").strip()
        head = git("cat-file", "commit", revision).partition("\n\n")[0]
        seconds = int(head.partition("\ncommitter ")[2].partition("\n")[0].split()[-2])
        changed = _is_changed(git, top, folder.resolve())
        try:
            config = str(shared / "config")
            origin = git("config", "--file", config, "--no-includes", "--get", "remote.origin.url")
        except subprocess.CalledProcessError:
            origin = ""
    return Commit(revision, seconds, changed, origin.partition("\n")[0])


class _Git:
    """Calls git with a folder of ours for its worktree."""

    def __init__(self, top: Path, directory: Path) -> None:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
        }
        ours = {"GIT_DIR": str(directory), "GIT_WORK_TREE": str(top), "GIT_OPTIONAL_LOCKS": "0"}
        self._env = {**inherited, **ours, "GIT_NO_REPLACE_OBJECTS": "1"}
        self._top = top

    def __call__(self, *arguments: str) -> str:
        """What git prints. Raises CalledProcessError and TimeoutExpired."""
        safe = [word for setting in _SAFE for word in ("-c", setting)]
        done = subprocess.run(
            ["git", "--no-pager", *safe, *arguments],
            cwd=self._top,
            env=self._env,
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
        return os.fsdecode(done.stdout)


@contextmanager
def _reading(top: Path, worktree: Path, shared: Path) -> Iterator[_Git]:
    """Git on a working tree, by way of a folder that has no configuration of the repository."""
    with tempfile.TemporaryDirectory(prefix="rsctl-git-") as name:
        directory = Path(name)
        (directory / "info").mkdir()
        splits = [path.name for path in worktree.glob("sharedindex.*")]
        for source, names in ((worktree, ("index", *splits)), (shared, _SHARED)):
            for item in names:
                if (source / item).is_file() or (source / item).is_dir():
                    (directory / item).symlink_to(source / item)
        if not (worktree / "HEAD").is_file():  # a pipe would be waited for
            raise ValueError("no HEAD")
        # Not as a link, which git would take for the name of a branch.
        (directory / "HEAD").write_bytes((worktree / "HEAD").read_bytes())
        (directory / "config").write_text(_configuration(shared), encoding="utf-8")
        yield _Git(top, directory)


def _configuration(shared: Path) -> str:
    """The least that git must know to read the repository: how its objects are named."""
    known = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
    is_sha256 = _has_setting(shared / "config", "objectformat", "sha256")
    return known + ("[extensions]\n\tobjectformat = sha256\n" if is_sha256 else "")


def _has_setting(config: Path, key: str, value: str) -> bool:
    """Whether a configuration, read as mere text, has a line that sets a key to a value."""
    if not config.is_file():
        return False
    lines = config.read_text(encoding="utf-8", errors="replace").lower().splitlines()
    return any([word.strip() for word in line.split("=")] == [key, value] for line in lines)


def _find(folder: Path) -> tuple[Path, Path, Path] | None:
    """The top of the working tree, its worktree folder of git, and the one that it shares."""
    for top in (folder, *folder.parents):
        git_folder = top / ".git"
        if git_folder.is_file():  # a submodule, or one of several working trees
            text = git_folder.read_text(encoding="utf-8", errors="surrogateescape")
            git_folder = top / text.removeprefix("gitdir:").strip()
        if not git_folder.is_dir():
            continue
        common = git_folder / "commondir"
        if common.is_file():
            text = common.read_text(encoding="utf-8", errors="surrogateescape")
            return top, git_folder.resolve(), (git_folder / text.strip()).resolve()
        return top, git_folder.resolve(), git_folder.resolve()
    return None


def _is_changed(git: _Git, top: Path, folder: Path) -> bool:
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
    found = _find(submodule) if (submodule / ".git").exists() else None
    if found is None:
        return False
    with _reading(*found) as git:
        return _is_changed(git, found[0], submodule)
