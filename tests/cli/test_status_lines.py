"""Status lines of a terminal that changes its size, or whose user presses Ctrl-Z."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest
from rich.text import Text

from rsctl.cli.views.status_lines import StatusLines

Draw = Callable[[str], str]
UP = "\x1b[1A\x1b[2K"
"""The code that removes a line above the cursor."""


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> StatusLines:
    """In a terminal of 60 columns and four lines."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "60", "LINES": "4"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XTERM_VERSION", raising=False)  # the terminal of these tests
    return StatusLines(sys.stdout, auto_refresh=False)


@pytest.fixture
def draw(status: StatusLines, capsys: pytest.CaptureFixture[str]) -> Draw:
    """Draws lines; returns what the terminal gets for them."""

    def show(text: str) -> str:
        status.start()
        capsys.readouterr()
        status.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
        return capsys.readouterr().out

    return show


def test_a_terminal_that_became_narrower_has_wrapped_the_lines(
    status: StatusLines, draw: Draw
) -> None:
    assert draw(f"{50 * 'x'}\nand").count(UP) == 0
    assert draw(f"{50 * 'x'}\nand").count(UP) == 1
    status.console.width = 20
    assert draw("short").count(UP) == 3  # of three rows and one
    status.console.width = 60
    assert draw("short").count(UP) == 0
    status.stop()


@pytest.mark.parametrize(("inside", "removed"), [(None, 1), ("/tmp/tmux-0/default,1,0", 3)])
def test_an_xterm_that_became_narrower_has_cut_the_lines(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    inside: str | None,
    removed: int,
) -> None:
    """Rows that the lines do not have would be removed from the log above them."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "60", "LINES": "4"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XTERM_VERSION", "XTerm(379)")
    monkeypatch.setenv("TMUX", inside) if inside else monkeypatch.delenv("TMUX", raising=False)
    status = StatusLines(sys.stdout, auto_refresh=False)
    status.start()
    status.update(Text(f"{50 * 'x'}\nand", no_wrap=True), refresh=True)
    status.console.width = 20
    capsys.readouterr()
    status.update(Text("short"), refresh=True)
    assert capsys.readouterr().out.count(UP) == removed
    status.stop()


def test_after_ctrl_z_the_cursor_is_visible_and_nothing_of_the_shell_is_removed(
    status: StatusLines, draw: Draw, capsys: pytest.CaptureFixture[str]
) -> None:
    status.start()
    assert capsys.readouterr().out.rpartition("\x1b[?25")[2][0] == "h"
    draw("one\ntwo")
    signal.raise_signal(signal.SIGCONT)
    assert UP not in draw("one\ntwo")
    assert draw("one\ntwo").count(UP) == 1
    status.stop()


def test_of_lines_beyond_the_height_none_remains(
    status: StatusLines, draw: Draw, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "three" in draw("one\ntwo\nthree\nfour\nfive")
    status.stop()
    said = capsys.readouterr().out
    assert "one" not in said
    assert said.count(UP) == 4  # of the terminal's four lines, and of the last, empty one
    assert signal.getsignal(signal.SIGCONT) is signal.SIG_DFL
