"""Baselines of git:REF:PATH: a file of a commit, and its place in the working tree.

The repository may come from an attacker: its configuration has no effect, nothing is fetched, and
no link is followed.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.git_repository import Git, GitRepository, find_repository, open_git
from rsctl.job.git_location import EXAMPLE, GitLocation, parse_git_location

_EARLIER = re.compile(r".*[~^].*|[0-9a-f]{7,64}")
_BRANCHES = "a shallow clone does not have other branches: git fetch origin BRANCH"
SHALLOW = "a shallow clone does not have all commits: git fetch --unshallow"
_NO_FILE = (
    "correct the path, which starts at the top of the repository, or commit a baseline there: "
    "rsctl gate BENCH --baseline FILE --update-baseline"
)

_TRACKING = r"^(branch\..*\.(remote|merge)|remote\..*\.fetch)$"


def fetch_remedy(ref: str) -> str:
    """The command by which a shallow clone gets a ref that it does not have."""
    return SHALLOW if _EARLIER.fullmatch(ref) else _BRANCHES


def read_committed(location: str, folder: str, most: int) -> bytes:
    """The file of a commit of the repository that `folder` is in. Raises RsctlError.

    It has at most `most` bytes.
    """
    ref, path = _parts(location)
    with _explained(location):
        repository = _repository(location, folder)
        with open_git(repository) as git:
            return _read(git, repository, ref, path, location, most)


def working_file(location: str, folder: str) -> Path:
    """The file in the working tree that `folder` is in. Raises RsctlError if it is behind a link.

    The working tree is where the repository's `.git` is; `core.worktree` has no effect.
    """
    path = _parts(location)[1]
    try:
        top = _repository(location, folder).top
    except (OSError, ValueError) as problem:
        raise _not_written(location, str(problem)) from None
    place = top
    for part in path.split("/"):
        place = place / part
        if place.is_symlink():
            shown = os.path.relpath(place, top)
            raise _not_written(location, f"{shown} of the working tree is a link")
    return place


def _read(
    git: Git, repository: GitRepository, ref: str, path: str, location: str, most: int
) -> bytes:
    commit = commit_name(git, repository, ref)
    try:
        name = resolve(git, repository, commit, f":{path}")
    except subprocess.CalledProcessError:
        raise _not_read(location, f"{ref} has no file {path}", _NO_FILE) from None
    try:
        size = int(git("cat-file", "-s", name))
    except subprocess.CalledProcessError:
        why = "the repository does not have the file's content, and rsctl does not fetch it"
        remedy = "fetch it first: a full clone has it, a partial clone (--filter) may not"
        raise _not_read(location, why, remedy) from None
    if size > most:
        raise _not_read(location, f"it is larger than {most} bytes", None)
    return git.read("cat-file", "blob", name)


def resolve(git: Git, repository: GitRepository, ref: str, rest: str) -> str:
    """The name of the object that a ref with `:PATH` or `^{commit}` means. Raises
    CalledProcessError.
    """
    tracking = _tracking(git, repository) if "@{" in ref else []
    return git(*tracking, "rev-parse", "--verify", "--end-of-options", f"{ref}{rest}").strip()


def commit_name(git: Git, repository: GitRepository, ref: str) -> str:
    """The full name of the commit that a ref means. Raises CalledProcessError."""
    return resolve(git, repository, ref, "^{commit}")


def _tracking(git: Git, repository: GitRepository) -> list[str]:
    """Options of git with which `@{upstream}` resolves: names of branches, and no programs."""
    config = repository.shared / "config"
    if not config.is_file():
        return []
    try:
        listing = git(
            *("config", "--file", str(config), "--no-includes", "--null", "--get-regexp", _TRACKING)
        )
    except subprocess.CalledProcessError:
        return []
    pairs = [entry.partition("\n") for entry in listing.split("\0") if entry]
    return [word for key, _, value in pairs for word in ("-c", f"{key}={value}")]


def _repository(location: str, folder: str) -> GitRepository:
    repository = find_repository(Path(folder).resolve())
    if repository is None:
        message = f"cannot use {location}: {folder} is not in a git working tree"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, "give --baseline FILE"))
    return repository


def _parts(location: str) -> GitLocation:
    """The commit and the path of git:REF:PATH. Raises RsctlError."""
    try:
        return parse_git_location(location)
    except ValueError as problem:
        raise RsctlError(ExitCode.USAGE, error("baseline", str(problem), EXAMPLE)) from None


@contextmanager
def _explained(location: str) -> Iterator[None]:
    """Raise RsctlError for what git and a broken repository raise."""
    try:
        yield
    except subprocess.CalledProcessError as problem:
        lines = problem.stderr.decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else "git failed"
        remedy = fetch_remedy(_parts(location)[0])
        remedy += ", then git:origin/BRANCH:…" if remedy == _BRANCHES else ""
        raise _not_read(location, why, remedy) from None
    except FileNotFoundError:
        finding = error("baseline", f"cannot use {location}: git is not installed", "install git")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except subprocess.TimeoutExpired as problem:
        message = f"git did not answer within {problem.timeout:.0f} s for {location}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("baseline", message)) from None
    except (OSError, ValueError) as problem:
        raise _not_read(
            location, str(problem), "repair the repository, or clone it again"
        ) from None


def _not_read(location: str, why: str, remedy: str | None) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("baseline", f"cannot read {location}: {why}", remedy))


def _not_written(location: str, why: str) -> RsctlError:
    message = f"cannot write {location}: {why}"
    return RsctlError(ExitCode.USAGE, error("baseline", message, "give --baseline FILE"))
