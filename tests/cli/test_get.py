"""`rsctl get` on a terminal: how far the download is; and a download that stops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from rsctl.api import Run
from rsctl.cli.fetching import fetch_after
from rsctl.findings import ExitCode, RsctlError, error, warning
from rsctl.runs.fetch.fetch import Fetched, FetchedFile, FetchProgress

from .conftest import Cli, MadeRun
from .submissions import job


def on_screen(text: str) -> list[str]:
    """The lines that a terminal shows in the end, where a line may be written again."""
    lines = []
    for written in text.removesuffix("\r\n").split("\r\n"):
        line = ""
        for part in written.split("\r"):
            line = part.removeprefix("\x1b[2K") if "\x1b[2K" in part else part + line[len(part) :]
        lines.append(line.rstrip())
    return lines


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_a_line_shows_the_progress_and_makes_room_for_the_summary(rsctl: Cli) -> None:
    assert rsctl("submit", job(rsctl, "echo a")).code == 0
    shown = rsctl.terminal("get", "@last", "home", TERM="xterm").out
    first, *_, last = re.findall(r"\r\x1b\[2K(\d of 2 files, [^\r]+/s)", shown)
    assert re.fullmatch(r"1 of 2 files, .*, 0 B/s", first), "none of it was timed"
    whole = re.fullmatch(r"2 of 2 files, (\S+ k?B) of \1, .*", last)
    assert whole
    assert on_screen(shown) == [f"home: 2 files fetched, {whole[1]}"]
    again = rsctl.terminal("get", "@last", "home", TERM="xterm").out
    assert on_screen(again) == ["home: 0 files fetched, 0 B; 2 already existed"]
    narrow = rsctl.terminal("get", "@last", "narrow", TERM="xterm", COLUMNS="20").out
    assert {len(line) for line in re.findall(r"\d of 2 files,[^\r]*", narrow)} == {19}
    dumb = rsctl.terminal("get", "@last", "other", TERM="dumb").out
    assert dumb == f"other: 2 files fetched, {whole[1]}\r\n"


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


def file(state: str = "fetched", **more: Any) -> FetchedFile:
    known = {"path": "a", "size": 1_500_000, "state": state, "location": "gs://b/a"}
    return FetchedFile(**{**known, "checksum": "c", **more})


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ([], "no files to download to out"),
        ([file()], "out: 1 file fetched, 1.5 MB"),
        ([file("kept")], "out: 0 files fetched, 0 B; 1 already existed"),
        (
            [file(), file(checksum=None), file(checksum=None, location="/here"), file("kept")],
            "out: 3 files fetched, 4.5 MB; 1 already existed; 1 verified by size only",
        ),
    ],
)
def test_what_was_downloaded(
    rsctl: Cli,
    make_run: Callable[..., MadeRun],
    monkeypatch: pytest.MonkeyPatch,
    files: list[FetchedFile],
    text: str,
) -> None:
    make_run().succeed(3)
    asked: list[Any] = []
    fetched = Fetched("out", files, [warning("x", "an odd file")], ExitCode.ENVIRONMENT)

    def fetch(_run: Run, folder: str | None, on_progress: Any, **more: Any) -> Fetched:
        on_progress(FetchProgress())
        asked.append((folder, more))
        return fetched

    monkeypatch.setattr(Run, "fetch", fetch)
    done = rsctl("get", "@last")
    assert (done.code, done.out, done.err) == (3, "", f"warning: an odd file\n{text}\n")
    words = "out --only logs --only outputs --include *.pt --include a/b --max-unpacked 2GB -o json"
    shown = rsctl("get", "@last", *words.split()).json
    assert list(shown) == ["run", "directory", "files", "findings"]
    assert (shown["run"], shown["directory"], len(shown["files"])) == (
        "job-aaaaaa",
        "out",
        len(files),
    )
    assert asked == [
        (None, {"only": [], "include": [], "max_unpacked": None}),
        (
            "out",
            {"only": ["logs", "outputs"], "include": ["*.pt", "a/b"], "max_unpacked": 2 * 10**9},
        ),
    ]
    chosen = rsctl("get", "@last", "--include", "*.bin").err.splitlines()[-1]
    assert chosen == (text if files else f"{text} match --include")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--only", "all"], "'all' is not one of "),
        (["--max-unpacked", "big"], "'big' is not a size"),
        (["--max-unpacked", "0GB"], "'0GB' is not a size such as 200GB or 2GiB: it is zero"),
    ],
)
def test_what_cannot_be_asked_for(
    rsctl: Cli, make_run: Callable[..., MadeRun], words: list[str], why: str
) -> None:
    make_run().succeed(3)
    done = rsctl("get", "@last", *words)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
