"""`rsctl ui`, and pages that a command opens, on desktops and elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.cli import shell, ui
from rsctl.targets.base import NodeCommand, Shell

from .conftest import Cli, MadeRun
from .test_runs import Make

URL = "http://127.0.0.1:8000/?token=a&b"
TOLD = "The page is served until Ctrl-C. The address contains the access token.\n"


class Served:
    """A page that is served until its browser, or the check for a desktop, interrupts it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_desktop: bool, starts: bool) -> None:
        self.asked: tuple[Any, ...] = ()
        self.opened: list[str] = []
        self.is_closed = False
        monkeypatch.setattr(ui, "serve", self.serve)
        monkeypatch.setattr(ui, "is_desktop", lambda: self.interrupt() or is_desktop)
        monkeypatch.setattr("webbrowser.open", lambda uri: self.open(uri) or starts)

    def interrupt(self) -> None:
        signal.raise_signal(signal.SIGINT)

    @contextmanager
    def serve(self, *asked: Any) -> Iterator[SimpleNamespace]:
        self.asked = asked
        yield SimpleNamespace(url=URL)
        self.is_closed = True

    def open(self, uri: str) -> None:
        file = Path(uri.removeprefix("file://"))
        assert (file.name, file.stat().st_mode & 0o777) == ("open.html", 0o600)
        self.opened.append(file.read_text())


@pytest.mark.parametrize(
    ("words", "is_desktop", "starts", "asked", "is_opened"),
    [
        ([], True, True, (0, None), True),
        ([], True, False, (0, None), True),
        ([], False, True, (0, None), False),
        (["--port", "8080", "--token-file", "t", "--open"], True, True, (8080, Path("t")), True),
    ],
)
def test_the_page_is_served_and_opened_on_a_desktop(
    rsctl: Cli,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    is_desktop: bool,
    starts: bool,
    asked: tuple[Any, ...],
    is_opened: bool,
) -> None:
    """The command line of a browser, which other users can see, has no token."""
    served = Served(monkeypatch, is_desktop, starts)
    done = rsctl("ui", *words)
    no_browser = "" if starts else "no browser could be started\n"
    assert (done.code, done.out, done.err) == (0, f"{URL}\n", TOLD + no_browser)
    assert (served.asked, served.is_closed) == (asked, True)
    url = URL.replace("&", "&amp;")
    page = f'<!doctype html><meta http-equiv="refresh" content="0;url={url}">'
    assert served.opened == [page] * is_opened


@pytest.mark.parametrize(
    ("found", "is_terminal", "is_desktop", "out", "opened", "started"),
    [
        (Shell(page="https://a\x07"), True, True, "https://a\\x07\n", ["https://a\x07"], []),
        (Shell(page="https://a"), True, False, "https://a\n", [], []),
        (Shell(command=["aws", "x y"]), True, True, "", [], [["aws", "x y"]]),
        (Shell(command=["aws", "x y"]), False, True, "aws 'x y'\n", [], []),
        (NodeCommand(["bash"]), False, False, "", [], [["bash"]]),
    ],
)
def test_a_shell_on_a_node(
    rsctl: Cli,
    make_run: Make,
    monkeypatch: pytest.MonkeyPatch,
    found: Shell | NodeCommand,
    is_terminal: bool,
    is_desktop: bool,
    out: str,
    opened: list[str],
    started: list[list[str]],
) -> None:
    seen: dict[str, list[Any]] = {"opened": [], "started": [], "asked": []}
    make_run().succeed(3)

    def asked(_run: Any, replica: str | None, *, is_terminal: bool) -> Any:
        seen["asked"].append((replica, is_terminal))
        return found

    def run_here(command: NodeCommand) -> None:
        seen["started"].append(list(command.argv))
        raise SystemExit(3)

    monkeypatch.setattr("rsctl.api.Run.shell", asked)
    monkeypatch.setattr(shell, "is_terminal", lambda: is_terminal)
    monkeypatch.setattr(shell, "is_desktop", lambda: is_desktop)
    monkeypatch.setattr(shell, "open_page", seen["opened"].append)
    monkeypatch.setattr(shell, "run_here", run_here)
    done = rsctl("shell", "@last", "worker-1")
    assert (done.code, done.out) == (3 if started else 0, out)
    assert seen == {"opened": opened, "started": started, "asked": [("worker-1", is_terminal)]}


def test_a_shell_in_a_rehearsal_is_only_named(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: MadeRun = make_run().succeed(3)
    (made.folder.path / "rehearsal.json").write_text("{}")
    found = Shell(command=["aws", "ssm"])
    monkeypatch.setattr("rsctl.api.Run.shell", lambda *_, **__: found)
    monkeypatch.setattr(shell, "is_terminal", lambda: True)
    assert rsctl("shell", "@last").out == "aws ssm\n"


@pytest.mark.parametrize(
    ("ci", "directory"), [(None, None), (None, "src"), ("true", "src"), ("true", None)]
)
def test_a_command_on_a_node_runs_with_its_variables(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, ci: str | None, directory: str | None
) -> None:
    """The terminal's type is this one's. A CI system gets the output fenced."""
    from rsctl.cli import exec as exec_command

    started: list[Any] = []
    monkeypatch.setenv("TERM", "vt100")
    monkeypatch.setattr(exec_command, "is_in_ci", lambda: ci == "true")
    monkeypatch.setattr(exec_command, "run_fenced", lambda *of: started.append(of) or 4)
    monkeypatch.setattr(
        os, "execvpe", lambda *of: started.append((of[1], os.path.basename(os.getcwd()), of[2]))
    )
    command = NodeCommand(["ls", "-l"], cwd=directory, env={"A": "1", "TERM": "x"})
    run: Callable[[NodeCommand], object] = exec_command.run_here
    if ci:
        with pytest.raises(SystemExit) as ended:
            run(command)
        assert ended.value.code == 4
    else:
        run(command)
    where = directory if ci else directory or "work"
    assert started == [(["ls", "-l"], where, {"A": "1", "TERM": "vt100"})]
