"""Who has started nodes, so that those of an owner that was killed can be cleaned up.

An owner is known to others by a file below RSCTL_HOME that it keeps locked while it lives. The lock
ends with the process, however that ends: a file that is not locked names an owner that has died,
and its containers and processes no longer have an owner.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import rsctl_start
from rsctl.runs.environment import own_environment
from rsctl.runs.home import home, private_folder

_SUFFIX = ".lock"


class Owner:
    """This process as the owner of nodes of one kind, until it is released.

    `name` marks all that it owns; `folder` is its own, and goes with it.
    """

    def __init__(self, kind: str) -> None:
        self.name = secrets.token_hex(5)
        self.folder = _folder() / self.name
        self._file = _folder() / f"{self.name}-{kind}{_SUFFIX}"
        self._lock: int | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def take(self) -> None:
        """Own something from now on, once dead owners are cleaned up. Raises OSError."""
        if self._lock is not None:
            return
        clean_up_dead()
        private_folder(self.folder)
        while self._lock is None:
            lock = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_file(lock, self._file):
                self._lock = lock
            else:  # another cleanup has taken it for a dead owner's, and removed it
                os.close(lock)
        self._start_guard()

    @property
    def held(self) -> tuple[int, ...]:
        """The lock, for a child that makes something: what it makes is cleaned up after it."""
        return () if self._lock is None else (self._lock,)

    def _start_guard(self) -> None:
        """A process that cleans up as soon as this one has died; it sees that by a pipe."""
        guard, name = Path(__file__).with_name("guard.py"), self._file.name
        clean_up = rsctl_start.command("rsctl.targets.managed.emulator.nodes.owner")
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", guard, name, *clean_up, name],
            cwd=_folder(),
            env=own_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """Release all ownership; harmless without any."""
        if self._lock is None:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self._file.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None
        if self._guard and self._guard.stdin:
            self._guard.stdin.close()
            self._guard.wait()


def clean_up_dead() -> None:
    """Clean up what dead owners have left; what cannot be removed now is left for the next."""
    with suppress(FileNotFoundError):
        for file in _folder().glob(f"*{_SUFFIX}"):
            _clean_up_if_dead(file)


def _clean_up_if_dead(file: Path, mode: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> None:
    try:
        lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # another process was faster
    try:
        fcntl.flock(lock, mode)
        if _is_file(lock, file) and _clean_up(file):
            file.unlink()
    except OSError:
        return  # it lives
    finally:
        os.close(lock)


def _clean_up(file: Path) -> bool:
    """Whether nothing is left of the owner that this file names."""
    name, _, kind = file.name.removesuffix(_SUFFIX).partition("-")
    if kind not in ("docker", "process"):
        return False
    is_clean: bool = import_module(f"rsctl.targets.managed.emulator.nodes.{kind}").clean_up(name)
    if is_clean:
        shutil.rmtree(_folder() / name, ignore_errors=True)
    return is_clean


def _is_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _folder() -> Path:
    return home() / "emulators"


if __name__ == "__main__":  # the guard's: it waits until the last of the owner's children has ended
    _clean_up_if_dead(_folder() / sys.argv[1], fcntl.LOCK_EX)
