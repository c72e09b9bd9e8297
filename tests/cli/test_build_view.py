"""How a build looks: as plain lines, live in a terminal, and with --quiet."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from time import monotonic, sleep

import pytest
from msgspec.structs import replace

from rsctl.cli import output
from rsctl.cli.views.build import make_build_view
from rsctl.findings import error, warning
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep

DEADLINE = 30.0
PIP = "RUN rsctl-python -m pip install -r /opt/rsctl/requirements/requirements.txt"
BUILD: list[BuildEvent] = [
    BuildOutput('building with "default" instance'),
    BuildStep(0, 0, "[internal] load metadata for docker.io/library/base:1"),
    BuildStep(0, 0, "[internal] load metadata for docker.io/library/base:1", seconds=0.2),
    BuildStep(1, 12, "FROM base:1", cached=True, seconds=0.0),
    BuildStep(2, 12, "USER root"),
    BuildStep(2, 12, "USER root", seconds=0.1),
    BuildStep(3, 12, PIP),
    BuildOutput("Collecting numpy", 3),
    BuildStep(3, 12, PIP, seconds=91.4),
    BuildStep(4, 12, "RUN rsctl-launch --check"),
    warning("old", "an old plugin", "use a newer base image", "image.base"),
    BuildOutput("what?", 4),
    BuildStep(4, 12, "RUN rsctl-launch --check", seconds=2.04, failed=True),
    BuildStep(0, 0, "exporting to image"),
    BuildStep(0, 0, "exporting to image", seconds=7.0),
]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    output.reset_output()
    for name in ("NO_COLOR", "TERM", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    yield
    output.reset_output()


def show(events: list[BuildEvent]) -> None:
    view = make_build_view()
    for event in events:
        view.show(event)
    view.finish()
    view.finish()


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show(BUILD)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        'build |   building with "default" instance',
        "build 1/12 | FROM base:1 (cached)",
        "build 2/12 | USER root",
        f"build 3/12 | {PIP}",
        "build 3/12 |   Collecting numpy",
        "build 3/12 | done in 1:31",
        "build 4/12 | RUN rsctl-launch --check",
        "warning: image.base: an old plugin",
        "    -> use a newer base image",
        "build 4/12 |   what?",
        "build 4/12 | failed after 2.0 s",
        "build | exporting to image (done in 7.0 s)",
    ]
    show([BuildStep(0, 0, "pull base:1", seconds=1.0, failed=True)])
    assert capsys.readouterr().err == "build | pull base:1 failed after 1.0 s\n"


def test_a_long_instruction_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show([BuildStep(1, 1, "RUN " + "x" * 1000)])
    [line] = capsys.readouterr().err.splitlines()
    assert line == "build 1/1 | RUN " + "x" * 155 + "…"


def test_control_sequences_do_not_act(capsys: pytest.CaptureFixture[str]) -> None:
    show(
        [
            BuildStep(1, 1, "RUN \x1b[2J"),
            BuildOutput("\x1b]0;title\x07", 1),
            warning("c", "a\x1b[2Jb"),
        ]
    )
    assert "\x1b" not in capsys.readouterr().err


def test_quiet_says_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    output.set_output(quiet=True, no_color=False)
    show([*BUILD, error("c", "no plugin", "take another base", "image.base")])
    assert capsys.readouterr() == (
        "",
        "error: image.base: no plugin\n    -> take another base\n",
    )


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What has been written, without control sequences; a line that is drawn again is there
        each time.
        """
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())
        return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Makes standard error a terminal of 60 columns, once the test runs."""

    def attach() -> Terminal:
        terminal = Terminal()
        for name, value in {"TERM": "xterm-256color", "COLUMNS": "60", "LINES": "25"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    return attach


def test_what_stays_of_the_live_view(attach: Callable[[], Terminal]) -> None:
    terminal = attach()
    show(BUILD)
    kept = [line for line in terminal.lines() if line.startswith(("✓", "✗", "warning", "    ->"))]
    assert kept == [
        "✓  1/12 FROM base:1                                   cached",
        "✓  2/12 USER root                                      0.1 s",
        "✓  3/12 RUN rsctl-python -m pip install -r /opt/rsctl…  1:31",
        "warning: image.base: an old plugin",
        "    -> use a newer base image",
        "✗  4/12 RUN rsctl-launch --check                       2.0 s",
        "✓ exporting to image                                   7.0 s",
    ]
    assert all(len(line) <= 60 for line in terminal.lines())


def test_what_goes_on_is_shown_with_its_last_line(attach: Callable[[], Terminal]) -> None:
    terminal = attach()
    view = make_build_view()
    for event in [BuildStep(3, 12, PIP), BuildOutput("Collecting " + "x" * 100 + "\x1b[2J", 3)]:
        view.show(event)
    deadline = monotonic() + DEADLINE
    while "Collecting" not in terminal.getvalue() and monotonic() < deadline:
        sleep(0.01)
    view.finish()
    lines = terminal.lines()
    at = lines.index("  Collecting " + "x" * 46 + "…")
    assert re.fullmatch(
        r".  3/12 RUN rsctl-python -m pip install -r /opt/rsctl…  0:0\d", lines[at - 1]
    )


def test_a_line_that_belongs_to_no_step_is_shown_alone(attach: Callable[[], Terminal]) -> None:
    """A service writes such lines before its build begins."""
    terminal = attach()
    view = make_build_view()
    step = BuildStep(1, 12, "FROM base:1")
    for event in [step, BuildOutput("of a step", 1), replace(step, seconds=2.0)]:
        view.show(event)
    view.show(BuildOutput("Fetching storage object"))
    deadline = monotonic() + DEADLINE
    while "Fetching" not in terminal.getvalue() and monotonic() < deadline:
        sleep(0.01)
    view.finish()
    [line] = {line[2:] for line in terminal.lines() if line[2:].startswith("Fetching")}
    assert line == "Fetching storage object"


def test_the_cursor_comes_back(attach: Callable[[], Terminal]) -> None:
    terminal = attach()
    view = make_build_view()
    view.show(BuildStep(1, 1, PIP))
    assert terminal.getvalue().count("\x1b[?25l") == 1
    view.finish()
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


def test_an_instruction_cannot_act_on_the_terminal(attach: Callable[[], Terminal]) -> None:
    terminal = attach()
    show([BuildStep(1, 1, "RUN \x1b]0;title\x07 [bold]x", seconds=0.5)])
    assert "✓ 1/1 RUN  [bold]x" + " " * 37 + "0.5 s" in terminal.lines()
    assert "title" not in terminal.getvalue()
