"""Commits in folders of their own: the baselines of paired gates, and the commits of a bisection.

    RSCTL_HOME/checkouts/COMMIT          the files of a commit
    RSCTL_HOME/checkouts/COMMIT.part     the same, not complete yet
    RSCTL_HOME/checkouts/COMMIT.file     a file of it, not complete yet
    RSCTL_HOME/checkouts/COMMIT.lock     held by the process that writes or checks them
    RSCTL_HOME/checkouts/packed-DIGEST   the sources of both sides, for the image of a packed job

A commit has one folder, so that a bench that is continued reads the same files, and several
benches share it. Its runs may write beside the files; files of the commit that a run has changed
are written again before the next bench.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import NamedTuple

from rsctl.bench.git_files import commit_name, fetch_remedy
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.context import BuildContext, copy_entries, source_entries
from rsctl.images.git_checkout import CheckoutError, entries_of, make_repository, write_entries
from rsctl.images.git_repository import Git, GitRepository, find_repository, open_git
from rsctl.job.git_location import REF
from rsctl.runs.home import home, private_folder
from rsctl.runs.locks import try_lock

_POLL_SECONDS = 0.1
_LOCK, _PART, _FILE = ".lock", ".part", ".file"


class Checkout(NamedTuple):
    """A commit, the folder with its files, and the top of the working tree of its repository.

    `is_new` is whether this call has made the folder; `used` is when it was checked out last,
    by the modification time of its lock in nanoseconds.
    """

    commit: str
    folder: Path
    top: Path
    is_new: bool = False
    used: int = 0

    def place_of(self, path: Path) -> Path:
        """The place of a file of the working tree in the folder."""
        return self.folder / path.relative_to(self.top)


def checkouts_folder() -> Path:
    """The folder of all checkouts."""
    return home() / "checkouts"


def check_out(ref: str, folder: str, use: str = "use --against") -> Checkout:
    """The files of a ref of the repository that `folder` is in, to `use` them. Raises RsctlError.

    Waits while another process writes them.
    """
    if not REF.fullmatch(ref):
        remedy = "give a branch, tag or commit such as origin/main, or the path of a job file"
        raise _refused(use, ref, "it is neither a git ref nor a job file", remedy)
    with _explained(use, ref):
        repository = find_repository(Path(folder).resolve())
        if repository is None:
            remedy = "run it in a clone, or give the job file of the baseline: --against FILE"
            raise _refused(use, ref, f"{folder} is not in a git working tree", remedy)
        with open_git(repository) as git:
            commit = _commit_of(git, repository, ref, use)
            place = checkouts_folder() / commit
            private_folder(place.parent)
            with _locked(_lock_of(place, commit)):
                is_new = not place.is_dir()
                _write(git, repository, commit, place)
                os.utime(place)  # `rsctl prune` removes what was not used for long
                used = _touch(_lock_of(place, commit))
    return Checkout(commit, place, repository.top, is_new, used)


def keep_together(sources: Sequence[Path]) -> Path:
    """A folder with copies of source folders, each in a folder by its number: the source of one
    image for all. Raises OSError, and RsctlError for a wrong `.dockerignore`.
    """
    numbered = enumerate(sources)
    entries = [entry for n, source in numbered for entry in source_entries(source, f"{n}/")[0]]
    place = checkouts_folder() / f"packed-{BuildContext(entries).digest()}"
    private_folder(place.parent)
    with _locked(_lock_of(place, place.name)):
        if not place.is_dir():
            part = place.with_name(f"{place.name}{_PART}")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(mode=0o700)
            copy_entries(entries, part)
            (part / ".dockerignore").touch()  # the rules of a repository around it do not apply
            part.rename(place)
        os.utime(place)
        _touch(_lock_of(place, place.name))
    return place


def checkouts() -> list[Path]:
    """The folders of all checkouts, complete or not."""
    return sorted(path for path in checkouts_folder().glob("*") if path.is_dir())


def remove_checkout(name: str, used: int | None = None) -> bool:
    """Remove a checkout by the name of its folder; False if a process writes it, or has checked it
    out again since `used`. Raises OSError.
    """
    place = checkouts_folder() / name
    commit = name.removesuffix(_PART)
    lock = try_lock(_lock_of(place, commit))
    if lock is None:
        return False
    try:
        if used is not None and _lock_of(place, commit).stat().st_mtime_ns != used:
            return False
        shutil.rmtree(place)
    finally:
        os.close(lock)
    return True


def _lock_of(place: Path, commit: str) -> Path:
    return place.with_name(f"{commit}{_LOCK}")


def _touch(path: Path) -> int:
    os.utime(path)
    return path.stat().st_mtime_ns


def _commit_of(git: Git, repository: GitRepository, ref: str, use: str) -> str:
    try:
        return commit_name(git, repository, ref)
    except subprocess.CalledProcessError:
        why = f"{repository.top} has no such branch, tag or commit"
        raise _refused(use, ref, why, fetch_remedy(ref)) from None


def _write(git: Git, repository: GitRepository, commit: str, place: Path) -> None:
    entries = entries_of(git, commit)
    spare = place.with_name(f"{commit}{_FILE}")
    if place.is_dir():
        write_entries(git, repository, entries, place, spare, only_changed=True)
        return
    part = place.with_name(f"{commit}{_PART}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    write_entries(git, repository, entries, part, spare)
    make_repository(git, repository, commit, part)
    part.rename(place)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = try_lock(path)
    while lock is None:
        sleep(_POLL_SECONDS)
        lock = try_lock(path)
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def _explained(use: str, ref: str) -> Iterator[None]:
    """Raise RsctlError for what git, a broken repository and a full disk raise."""
    try:
        yield
    except subprocess.CalledProcessError as problem:
        lines = (problem.stderr or b"").decode(errors="replace").strip().splitlines()
        raise _refused(use, ref, lines[-1] if lines else "git failed", None) from None
    except CheckoutError as problem:
        raise _refused(use, ref, str(problem), problem.remedy) from None
    except FileNotFoundError as problem:
        if problem.filename != "git":
            raise _refused(
                use, ref, str(problem), "repair the repository, or clone it again"
            ) from None
        finding = error("against", f"cannot check out {ref}: git is not installed", "install git")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except subprocess.TimeoutExpired as problem:
        message = f"git did not answer within {problem.timeout:.0f} s for {ref}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("against", message)) from None
    except OSError as problem:
        message = f"cannot check out {ref} in {checkouts_folder()}: {problem.strerror or problem}"
        remedy = "set RSCTL_HOME to a folder with free space that this user can write"
        raise RsctlError(ExitCode.ENVIRONMENT, error("against", message, remedy)) from None
    except ValueError as problem:
        raise _refused(use, ref, str(problem), "repair the repository, or clone it again") from None


def _refused(use: str, ref: str, why: str, remedy: str | None) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("against", f"cannot {use} {ref}: {why}", remedy))
