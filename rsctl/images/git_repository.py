"""Runs git on a repository without the configuration that the repository has.

A repository's configuration names programs that git runs even to read (`core.fsmonitor`,
`log.showSignature` with `gpg.program`, `filter.*.clean`, `remote.*.uploadpack` to fetch an object
that a partial clone lacks, hooks), and may come from an attacker with the folder. So git gets a
temporary folder instead, with a configuration of rsctl's, that links to the repository's refs,
objects and index. The user's own configuration still holds. Git also waits forever for a pipe in
place of a file: `open_git` refuses a repository that has one.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

_SECONDS = 60
_LARGEST_TEXT = 1 << 20  # of HEAD, the configuration and lists of alternates
_MOST_ALTERNATES = 100
# What working trees of one repository share; each has its HEAD, index and logs of HEAD.
_SHARED = ("objects", "refs", "reftable", "packed-refs", "shallow", "info/exclude")
_OWN = ("index", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD")
_TREES = ("refs", "reftable", "logs")
# Git heeds these only for a repository that it trusts, or runs them beside reading.
_SAFE = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false")
# Nothing is fetched, even if a promisor remote is configured.
_OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0"}


class GitRepository(NamedTuple):
    """Where a repository is: the top of the working tree, the worktree's folder of git (HEAD and
    index), and the folder that all worktrees share (objects and refs).
    """

    top: Path
    worktree: Path
    shared: Path


def find_repository(folder: Path) -> GitRepository | None:
    """The repository that a resolved folder is in, by its `.git` alone; `core.worktree` does not
    count. Raises OSError and ValueError.
    """
    for top in (folder, *folder.parents):
        git_folder = top / ".git"
        if git_folder.is_file():  # a submodule, or one of several working trees
            git_folder = top / read_text(git_folder).removeprefix("gitdir:").strip()
        if not git_folder.is_dir():
            continue
        common = git_folder / "commondir"
        if common.is_file():
            shared = (git_folder / read_text(common).strip()).resolve()
            return GitRepository(top, git_folder.resolve(), shared)
        return GitRepository(top, git_folder.resolve(), git_folder.resolve())
    return None


class GitStreams(NamedTuple):
    """The input of a git process, and its output."""

    requests: IO[bytes]
    answers: IO[bytes]


class Git:
    """Calls git on a working tree, with a temporary folder in place of its `.git`."""

    def __init__(self, repository: GitRepository, directory: Path) -> None:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
        }
        top = str(repository.top)
        ours = {"GIT_DIR": str(directory), "GIT_WORK_TREE": top, "GIT_OPTIONAL_LOCKS": "0"}
        self._env = {**inherited, **ours, **_OFFLINE, "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
        self._top = repository.top

    def __call__(self, *arguments: str) -> str:
        """The output of git. Raises CalledProcessError and TimeoutExpired."""
        return os.fsdecode(self.read(*arguments))

    def read(self, *arguments: str) -> bytes:
        """The bytes that git prints. Raises CalledProcessError and TimeoutExpired."""
        done = subprocess.run(
            self._command(arguments),
            cwd=self._top,
            env=self._env,
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
        return done.stdout

    @contextmanager
    def open(self, *arguments: str) -> Iterator[GitStreams]:
        """Git, to be read from and written to; it has ended afterwards.

        Raises CalledProcessError if it failed, unless its caller raised before.
        """
        import tempfile  # a plan of a file starts no git

        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                self._command(arguments),
                cwd=self._top,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            try:
                with process:
                    streams = GitStreams(*map(_require, (process.stdin, process.stdout)))
                    yield streams
                    streams.requests.close()
            except BaseException:
                process.kill()
                raise
            if process.returncode:
                errors.seek(0)
                text = errors.read(_LARGEST_TEXT)
                raise subprocess.CalledProcessError(process.returncode, process.args, stderr=text)

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        safe = [word for setting in _SAFE for word in ("-c", setting)]
        return ["git", "--no-pager", *safe, *arguments]


@contextmanager
def open_git(repository: GitRepository) -> Iterator[Git]:
    """Git on a repository, whose configuration has no effect.

    Raises OSError, and ValueError for a repository that has a pipe or a device among its files.
    """
    import tempfile

    worktree, shared = repository.worktree, repository.shared
    _require_files(shared)
    with tempfile.TemporaryDirectory(prefix="rsctl-git-") as name:
        directory = Path(name)
        (directory / "info").mkdir()
        splits = [path.name for path in worktree.glob("sharedindex.*")]
        for source, names in ((worktree, (*_OWN, *splits)), (shared, _SHARED)):
            for item in names:
                if (source / item).is_file() or (source / item).is_dir():
                    (directory / item).symlink_to(source / item)
        _link_logs(repository, directory)
        if not (worktree / "HEAD").is_file():  # a pipe would be waited for
            raise ValueError("the repository's HEAD is not a regular file")
        # Not as a link, which git would take for the name of a branch.
        head = read_text(worktree / "HEAD")
        (directory / "HEAD").write_text(head, encoding="utf-8", errors="surrogateescape")
        (directory / "config").write_text(_configuration(shared), encoding="utf-8")
        yield Git(repository, directory)


def _require(stream: IO[bytes] | None) -> IO[bytes]:
    """A stream that Popen has been asked for."""
    if stream is None:
        raise ValueError("no pipe")
    return stream


def read_text(path: Path) -> str:
    """A small file of a repository, at most its first MiB. Raises OSError."""
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_LARGEST_TEXT)


def _link_logs(repository: GitRepository, directory: Path) -> None:
    """Link the logs of the refs, and the log of the worktree's HEAD."""
    logs = directory / "logs"
    logs.mkdir()
    for item, source in (("HEAD", repository.worktree), ("refs", repository.shared)):
        place = source / "logs" / item
        if place.is_file() or place.is_dir():
            (logs / item).symlink_to(place)


def _configuration(shared: Path) -> str:
    """The least that git must know to read the repository: how its objects and refs are kept."""
    lines = ["[core]", "repositoryformatversion = 1", "bare = false", "[extensions]"]
    config = shared / "config"
    for key, value in (("objectformat", "sha256"), ("refstorage", "reftable")):
        if _has_setting(config, key, value):
            lines.append(f"{key} = {value}")
    return "\n".join(lines) + "\n"


def _has_setting(config: Path, key: str, value: str) -> bool:
    """Whether a configuration, read as mere text, has a line that sets a key to a value."""
    if not config.is_file():
        return False
    lines = read_text(config).lower().splitlines()
    return any([word.strip() for word in line.split("=")] == [key, value] for line in lines)


def _require_files(shared: Path) -> None:
    """Raise ValueError for files that git could open and wait for: pipes, devices, sockets."""
    for name in _TREES:
        _require_tree(shared / name, name)
    stores, known = [(shared / "objects").resolve()], set[Path]()
    while stores:
        store = stores.pop()
        if store in known:
            continue
        known.add(store)
        if len(known) > _MOST_ALTERNATES:
            raise ValueError(f"the repository has more than {_MOST_ALTERNATES} alternates")
        _require_tree(store, "objects" if len(known) == 1 else str(store))
        stores += _alternates(store)


def _require_tree(folder: Path, shown: str) -> None:
    """Raise ValueError if something in a folder is neither a file nor a folder, by links too."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"the repository's {shown} is not a folder")
    waiting = [(os.fspath(folder), shown)]
    while waiting:  # not by recursion, which a tree of a thousand levels would exhaust
        path, shown = waiting.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                name = f"{shown}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, name))
                elif not entry.is_file(follow_symlinks=False) and not _is_linked_file(entry):
                    raise ValueError(f"the repository's {name} is neither a file nor a folder")


def _is_linked_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a link to a file, or to nothing."""
    if not entry.is_symlink():
        return False
    try:
        return stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return True


def _alternates(store: Path) -> list[Path]:
    """The stores of objects that a store borrows from. Raises ValueError."""
    listing = store / "info" / "alternates"
    if not listing.is_file():
        return []
    lines = [line for line in read_text(listing).split("\n") if line and line[0] != "#"]
    if any(line.startswith('"') for line in lines):
        raise ValueError("the repository's objects/info/alternates has a quoted path")
    return [(store / line).resolve() for line in lines]
