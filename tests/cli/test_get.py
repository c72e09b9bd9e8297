"""`rsctl get` on a terminal: how far the download is; and a download that stops."""

from __future__ import annotations

import re
from typing import cast

import pytest

from rsctl.api import Run
from rsctl.cli.fetching import fetch_after
from rsctl.findings import ExitCode, RsctlError, error

from .conftest import Cli
from .submissions import job


def on_screen(text: str) -> list[str]:
    """The lines that a terminal shows in the end, where a line may be written again."""
    lines = []
    for written in text.removesuffix("\r\n").split("\r\n"):
        line = ""
        for part in written.split("\r"):
            line = part + line[len(part) :]
        lines.append(line.rstrip())
    return lines


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_a_line_shows_the_progress_and_makes_room_for_the_summary(rsctl: Cli) -> None:
    assert rsctl("submit", job(rsctl, "echo a")).code == 0
    shown = rsctl.terminal("get", "@last", "home", TERM="xterm").out
    first, *_, last = re.findall(r"\r(\d of 2 files, [^\r]+/s) *", shown)
    assert re.fullmatch(r"1 of 2 files, .*, 0 bytes/s", first), "none of it was timed"
    whole = re.fullmatch(r"2 of 2 files, (\d+) bytes of \1 bytes, .*", last)
    assert whole
    assert on_screen(shown) == [f"home: 2 files fetched, {whole[1]} bytes"]
    again = rsctl.terminal("get", "@last", "home", TERM="xterm").out
    assert on_screen(again) == ["home: 0 files fetched, 0 bytes; 2 already existed"]
    dumb = rsctl.terminal("get", "@last", "other", TERM="dumb").out
    assert dumb == f"other: 2 files fetched, {whole[1]} bytes\r\n"


class Stopped:
    """A run whose download is stopped by something."""

    id = "job-aaaaaa"

    def __init__(self, problem: BaseException) -> None:
        self._problem = problem

    def fetch(self, *_: object, **__: object) -> None:
        """Raise it."""
        raise self._problem


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (
            RsctlError(ExitCode.ENVIRONMENT, error("disk", "it is full", "free it")),
            ["error: it is full", "    -> free it"],
        ),
        (OSError(5, "Input/output error"), ["error: [Errno 5] Input/output error"]),
        (KeyboardInterrupt(), []),
    ],
)
def test_a_download_after_a_run_that_stops_says_how_to_continue(
    capsys: pytest.CaptureFixture[str], problem: BaseException, said: list[str]
) -> None:
    """`submit --get` then still ends with the exit code of the job."""
    fetch_after(cast(Run, Stopped(problem)), "-my results")
    assert capsys.readouterr().err.splitlines() == [
        *said,
        "warning: some results of job-aaaaaa are missing; to continue: "
        "rsctl get job-aaaaaa './-my results'",
    ]
