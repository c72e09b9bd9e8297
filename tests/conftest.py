"""What every test stands on: a store of its own, and an environment that says nothing."""

from __future__ import annotations

import gc
import os
import re
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import find, settings
from hypothesis.strategies import text

from rsctl.cli.output import CI_VARIABLES
from tests.kit import command_forks, fork_server, workers
from tests.kit.botocore_data import share_botocore_data
from tests.kit.google_keys import share_google_keys
from tests.kit.shared import shared_folder

gc.disable()
"""Until `pytest_collection_finish`."""

settings.register_profile("rsctl", derandomize=True, deadline=None, database=None)
settings.load_profile("rsctl")


_BEGIN = ("transport/pytorch", "node", "transport")
"""Folders whose tests last while CI prepares the rest, and do not need it."""

_FIRST = (
    *(*_BEGIN, "docs", "cli", "runs/fetch", "runs/stream", "bench", "job"),
    *("estimate/advice", "estimate/catalog", "clients", "results/export", "runs"),
)
"""Folders whose tests need this environment and no more: no engine, no browser, no vendor's SDK."""

_NEED_MORE = ("test_traffic_control.py", "test_site.py", "test_frameworks.py")
"""Files of them that are exceptions."""

_THEN = ("targets", "examples", "results/tracking", "images")
"""The slowest of the others."""

_COPIED = ("api", "bench", "cli", "mcp", "results")
"""Rooms whose tests are not about the start of supervisors, senders and drivers."""

_numbers = count()

_HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}


@cache
def _rank(path: Path) -> int:
    folders = (*_FIRST, *_THEN)
    file = path.relative_to(Path(__file__).parent).as_posix()
    ranks = (rank for rank, folder in enumerate(folders) if file.startswith(f"{folder}/"))
    return len(folders) if path.name in _NEED_MORE else next(ranks, len(folders))


def pytest_configure(config: pytest.Config) -> None:
    """A worker of pytest tells the results of tests, and little more."""
    workers.tell_results_alone(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Workers begin as copies of a process that has imported all tests, see `workers`.

    Not to measure coverage, which counts the lines that imports run.
    """
    if not config.getoption("cov_source", None):
        stack = ExitStack()
        config.add_cleanup(stack.close)
        folder = Path(stack.enter_context(TemporaryDirectory()))
        python = stack.enter_context(workers.started(folder, config.args))
        for spec in specs:
            spec.python = python


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What can begin while CI prepares the rest comes first. Then files of both kinds alternate:
    those that need no more compute, and the others mostly wait, the slowest folders first, so that
    no worker has a long file to itself at the end.
    """
    items.sort(key=lambda item: _rank(item.path))
    files = [
        file for file in dict.fromkeys(item.path for item in items) if _rank(file) >= len(_BEGIN)
    ]
    kinds = [
        [file for file in files if (_rank(file) < len(_FIRST)) is kind] for kind in (True, False)
    ]
    places = {file: place / len(kind) for kind in kinds for place, file in enumerate(kind)}
    items.sort(key=lambda item: places.get(item.path, -1.0))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collection has made stays to the end: nothing looks there for garbage.

    The server of workers reads for them what hypothesis takes from all modules of rsctl.
    """
    gc.freeze()
    gc.enable()
    if session.config.option.collectonly:
        find(text(), lambda _: True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """With TESTS_WAIT_FOR=FILE, as in .ci/run, what needs more begins once that file is there.

    Not in a fixture: the wait is not part of a test's time limit.
    """
    awaited = os.environ.get("TESTS_WAIT_FOR")
    while awaited and _rank(item.path) >= len(_FIRST) and not os.path.exists(awaited):
        time.sleep(0.2)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Signals are handled as in a fresh process, whatever started pytest or a test left behind.
    Sessions of boto3 share what they read, and emulators of Google Cloud their keys.

    Not in fixtures, which cost each test more.
    """
    for number, handler in _HANDLERS.items():
        signal.signal(number, handler)
    share_botocore_data()
    share_google_keys()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder of this test.

    pytest's own fixture looks for a free number among the folders of all tests before: 2 ms each.
    """
    name = re.sub(r"\W", "_", request.node.name)[:25]
    path = tmp_path_factory.getbasetemp() / f"{name}_{next(_numbers)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def copied_supervisors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some rooms, what rsctl leaves running begins as a copy, see `command_forks`."""
    room = request.path.relative_to(Path(__file__).parent).parts[0]
    if room in _COPIED:
        server = str(request.getfixturevalue("command_server"))
        put = partial(monkeypatch.setattr, raising=False)
        command_forks.copy_own_processes(server, put)


@pytest.fixture(autouse=True)
def rsctl_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """RSCTL_HOME of this test; it does not exist yet."""
    home = tmp_path / "rsctl-home"
    monkeypatch.setenv("RSCTL_HOME", str(home))
    monkeypatch.setenv("RSCTL_CONFIG", str(tmp_path / "rsctl-config"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in (*CI_VARIABLES, "NO_COLOR", "FORCE_COLOR", "RSCTL_DEBUG", "RSCTL_BASE"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(scope="session")
def torch_forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables by which torchrun and scripts begin as copies of a process that has imported torch.

    For jobs that are about what scripts do: a copy is not in its starter's process group, and has
    its variables in no file of /proc.
    """
    with fork_server.started(shared_folder(tmp_path_factory, "forks")) as variables:
        yield variables


@pytest.fixture(scope="session")
def command_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a server of commands, see `command_forks`."""
    with command_forks.started(shared_folder(tmp_path_factory, "commands")) as server:
        yield server
