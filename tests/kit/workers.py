"""pytest's workers: copies of one process that has imported all files of tests.

These imports are half of the 4 s of processor that collecting the tests costs each worker. A copy
still collects by itself: an iterator of parameters can be read only once.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kit import fork_server


@contextmanager
def started(folder: Path, paths: Sequence[str]) -> Iterator[str]:
    """A server of workers for these paths, with a socket in this folder; gives the command that
    takes the place of a worker's Python, which stays where a file cannot be imported.
    """
    command = [sys.executable, "-m", "tests.kit.workers", *paths]
    # Ctrl-C reaches copies through the programs that stand in for them, and not the server.
    options = {"stdout": subprocess.DEVNULL, "start_new_session": True}
    with fork_server.shared(folder, command, **options) as server:
        program = folder / "worker"
        fork_server.write_program(program, server)
        yield str(program) if server.exists() else sys.executable


def tell_results_alone(config: pytest.Config) -> None:
    """Have a worker not send that a test begins, and that its fixtures took no time: a third of
    what a short test costs.
    """
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = partial(_send, plugin.sendevent)


def _send(send: Callable[..., None], name: str, **event: Any) -> None:
    report = event["data"] if name == "testreport" else {"when": "call"}
    without_result = report["when"] != "call" and report["outcome"] == "passed"
    if name != "logstart" and not (without_result and report["duration"] < 0.05):
        send(name, **event)


class _OnlyImports:
    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
        return []


def _run(request: fork_server.Request) -> None:
    """Be the program that execnet sends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(request["files"]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    gc.disable()  # as `tests/conftest.py` does as it is imported
    *_, program = request["start"]
    sys.argv = ["-c"]
    exec(program, {"__name__": "__main__"})


if __name__ == "__main__":
    fork_server.end_without_freeing()
    *_paths, _socket = sys.argv[1:]
    ended = pytest.main(["--collect-only", *_paths], [_OnlyImports()])
    # A copy would take the half of a module whose import failed for all of it.
    if ended == pytest.ExitCode.NO_TESTS_COLLECTED:
        fork_server.be(lambda: _run(fork_server.listen(_socket)))
