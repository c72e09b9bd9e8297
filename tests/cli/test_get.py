"""`rsctl get` on a terminal: how far the download is."""

from __future__ import annotations

import re

import pytest

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
