"""Commits of the repository that a job file is in: which one is measured, and which are searched.

As everywhere, the repository's own configuration has no effect, and nothing is fetched.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rsctl.bench.git_files import SHALLOW, commit_name
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.git_repository import Git, GitRepository, find_repository, open_git
from rsctl.job.git_location import REF


class KnownCommit(NamedTuple):
    """A commit by its full ID, with its committer's time in seconds since 1970 and its subject."""

    commit: str
    seconds: int
    subject: str


def resolve_commit(folder: str, ref: str = "HEAD") -> KnownCommit:
    """The commit of a ref in the repository that `folder` is in. Raises RsctlError."""
    with _git(folder) as (git, repository):
        return _resolve(git, repository, ref)


def clean_commit(folder: str, besides: str | None = None) -> KnownCommit:
    """The commit that is checked out.

    `besides` is a file of the working tree that may differ, such as the history itself. Raises
    RsctlError if other tracked files of `folder` differ from the commit.
    """
    with _git(folder) as (git, repository):
        found = _resolve(git, repository, "HEAD")
        within = os.path.relpath(Path(folder).resolve(), repository.top)
        status = git(
            *("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no"),
            *("--ignore-submodules=dirty", "--", within),
        )
        changed = [entry[3:] for entry in status.split("\0") if entry]
        own = os.path.relpath(os.path.realpath(besides), repository.top) if besides else None
        changed = [name for name in changed if name != own]
    if changed:
        names = ", ".join(changed[:3]) + (" …" if changed[3:] else "")
        message = f"files differ from the commit {found.commit[:10]}: {names}"
        remedy = "commit or restore them first, so that the history has what the commit contains"
        raise RsctlError(ExitCode.USAGE, error("history", message, remedy))
    return found


def commits_between(folder: str, good: str, bad: str) -> list[KnownCommit]:
    """The commits after `good` up to `bad`, oldest first, along first parents.

    Begins with `good` itself. Raises RsctlError if `good` is not an ancestor of `bad`.
    """
    with _git(folder) as (git, repository):
        first, last = (_resolve(git, repository, ref) for ref in (good, bad))
        try:
            git("merge-base", "--is-ancestor", first.commit, last.commit)
        except subprocess.CalledProcessError:
            message = f"{good} is not an ancestor of {bad}"
            remedy = f"give a good commit that {bad} contains; {SHALLOW}"
            raise RsctlError(ExitCode.USAGE, error("commit", message, remedy)) from None
        listing = git(
            *("log", "--first-parent", "--reverse", "-z", "--no-show-signature"),
            *("--format=%H %ct %s", f"{first.commit}..{last.commit}", "--"),
        )
    lines = [entry.split(" ", 2) for entry in listing.split("\0") if entry]
    return [first, *(KnownCommit(line[0], int(line[1]), line[2]) for line in lines)]


def _resolve(git: Git, repository: GitRepository, ref: str) -> KnownCommit:
    if not REF.fullmatch(ref):
        raise RsctlError(ExitCode.USAGE, error("commit", f"{ref[:200]!r} is not a valid git ref"))
    try:
        name = commit_name(git, repository, ref)
    except subprocess.CalledProcessError:
        message = f"the repository has no commit {ref}"
        raise RsctlError(ExitCode.USAGE, error("commit", message, SHALLOW)) from None
    line = git("log", "-1", "--no-show-signature", "--format=%ct %s", name, "--").strip()
    seconds, _, subject = line.partition(" ")
    return KnownCommit(name, int(seconds), subject)


@contextmanager
def _git(folder: str) -> Iterator[tuple[Git, GitRepository]]:
    """Git on the repository that a folder is in; what it raises becomes RsctlError."""
    try:
        repository = find_repository(Path(folder).resolve())
        if repository is None:
            message = f"{folder} is not in a git working tree"
            remedy = "rsctl needs the commit that is measured: clone the repository with git"
            raise RsctlError(ExitCode.USAGE, error("commit", message, remedy))
        with open_git(repository) as git:
            yield git, repository
    except subprocess.CalledProcessError as problem:
        lines = problem.stderr.decode(errors="replace").strip().splitlines()
        message = f"git failed: {lines[-1] if lines else problem.returncode}"
        raise RsctlError(ExitCode.USAGE, error("commit", message, SHALLOW)) from None
    except subprocess.TimeoutExpired as problem:
        message = f"git did not answer within {problem.timeout:.0f} s"
        raise RsctlError(ExitCode.ENVIRONMENT, error("commit", message)) from None
    except FileNotFoundError as problem:
        if problem.filename != "git":
            raise
        finding = error("commit", "git is not installed", "install git")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except (OSError, ValueError) as problem:
        raise RsctlError(ExitCode.ENVIRONMENT, error("commit", str(problem))) from None
