"""`rsctl` whose processes begin as copies of one that has imported it.

It saves the 0.2 s of processor that these imports cost each command, and twice as much where a
command calls a cloud. A copy is a process of its own, with its own variables, folder and files. It
differs from `python -m rsctl` in what /proc says of its start. Not for tests of starts.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit import fork_server
from tests.kit.botocore_data import share_botocore_data
from tests.kit.commands import Done
from tests.kit.google_keys import share_google_keys
from tests.kit.polling import DEADLINE_SECONDS

_ROOMS = ("api", "bench", "cli", "clients", "estimate", "images", "job", "runs", "targets")
_NOT = (".sdk", ".testing", ".strike_program")
_POPEN: Any = subprocess.Popen
_MORE = ("boto3", "google.auth.transport.requests", "google.oauth2.service_account")


@contextmanager
def started(folder: Path) -> Iterator[Path]:
    """A server of copies; gives its socket. Workers of pytest that share the folder share it."""
    with fork_server.shared(
        folder,
        [sys.executable, "-m", "tests.kit.command_forks"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,  # the objects of copies for their files are made for pipes
    ) as path:
        yield path


class Copy(subprocess.Popen[Any]):
    """A process of rsctl, as a copy of the server whose socket is `server`."""

    server: str
    outlives = False
    _child: fork_server.Child | None = None

    def _execute_child(
        self, args: list[str], _executable: Any, _prepare: Any, _close: Any, keep: Sequence[int],
        cwd: Path | None, env: Mapping[str, str] | None, _info: Any, _flags: Any, _shell: Any,
        *files: Any,
    ) -> None:  # fmt: skip
        pipes = files[:6]
        request = {
            "start": ["-m", *args[2:]],  # after -m, or the file that starts programs of rsctl
            "environ": dict(os.environ if env is None else env),
            "folder": str(cwd or os.getcwd()),
            "kept": list(keep),
            "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "outlives": self.outlives,
        }
        given = [pipes[0], pipes[3], pipes[5], *keep]
        self._looking = threading.Lock()
        self._child = fork_server.Child(self.server, request, given)
        self.pid = self._child.pid
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._child is None:  # it began before `copy_own_processes`
            return _POPEN._internal_poll(self, *given, **named)  # type: ignore[no-any-return]
        return self._look(self._child, 0)

    def _wait(self, timeout: float | None) -> int:
        if self._child is None:
            return _POPEN._wait(self, timeout)  # type: ignore[no-any-return]
        code = self._look(self._child, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _look(self, child: fork_server.Child, seconds: float | None) -> int | None:
        """The exit code, if the process ends in that time."""
        # A start of any process polls, in its thread, those that were left running.
        if self._looking.acquire(blocking=seconds != 0):
            try:
                if self.returncode is None:
                    self.returncode = child.exit_code(seconds)
            finally:
                self._looking.release()
        return self.returncode


class Command(Copy):
    """`python -m rsctl` with these arguments, as a copy of the server with this socket."""

    def __init__(self, server: Path, *arguments: str, **options: Any) -> None:
        self.server = str(server)
        super().__init__([sys.executable, "-m", "rsctl", *arguments], text=True, **options)


def run(server: Path, *arguments: str, stdin: str = "", **options: Any) -> Done:
    """Run a command to its end."""
    files = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Command(server, *arguments, **files, **options) as process:
        try:
            out, err = process.communicate(stdin, timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # the block's end would wait for it
            raise
    return Done(process.returncode, out, err)


def copy_own_processes(server: str, put: Callable[[type, str, Any], None] = setattr) -> None:
    """Have supervisors, and what else this process leaves running, begin as copies too."""
    from rsctl.runs.environment import OwnProcess

    for name, value in {**vars(Copy), "server": server, "outlives": True}.items():
        if not name.startswith("__"):
            put(OwnProcess, name, value)


def _import_all() -> None:
    import rsctl

    for room in _ROOMS:
        folder = str(Path(rsctl.__file__).with_name(room))
        for module in pkgutil.walk_packages([folder], f"rsctl.{room}."):
            if not any(part in module.name for part in _NOT):
                importlib.import_module(module.name)
    for name in _MORE:
        importlib.import_module(name)
    _warm()


def _warm() -> None:
    """Read and make what copies share: descriptions of AWS's services, keys of emulators, and the
    regular expressions of causes.
    """
    import boto3

    from rsctl.runs.stream.diagnosis import known_causes
    from rsctl.targets.vertex.emulator import google_services

    share_botocore_data()
    session = boto3.Session("key", "secret", region_name="us-east-1")
    for service in ("sagemaker", "logs", "s3"):
        session.client(service)
    share_google_keys()
    google_services.new_key()
    share_google_keys()
    known_causes(["an Error of a kind that no cause explains"], 1, None)


def _run(request: fork_server.Request) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    if request["outlives"]:
        os.setsid()
    free = max([2, *request["kept"]]) + 1
    given = [fcntl.fcntl(file, fcntl.F_DUPFD, free) for file in request["files"]]
    for number, file in zip([0, 1, 2, *request["kept"]], given, strict=True):
        os.dup2(file, number)
        os.close(file)
    copy_own_processes(sys.argv[1])
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    sys.argv = request["start"]
    path = request["environ"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [request["folder"], *path, *_LIBRARIES]
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    fork_server.end_without_freeing()
    _given = ("", os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    _LIBRARIES = [folder for folder in sys.path if folder not in _given]
    _import_all()
    fork_server.settle()
    fork_server.be(lambda: _run(fork_server.listen(sys.argv[1])))
