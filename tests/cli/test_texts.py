"""Texts for people, whole: events, endings, tables, charts, times, and what is suggested."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from msgspec.structs import replace

from rsctl import __version__
from rsctl.api.drill_verdict import FaultResult
from rsctl.bench.records import Against, BenchRecord
from rsctl.cli.app import COMMANDS
from rsctl.cli.options import parse_behaviour
from rsctl.cli.suggestions import suggest_command
from rsctl.cli.times import parse_since
from rsctl.cli.views import plot, table
from rsctl.cli.views.bench_plain import opening
from rsctl.cli.views.drill import format_result
from rsctl.cli.views.plot import format_tick, plot_metrics, round_limits, thinned
from rsctl.cli.views.run_text import (
    failure_block,
    format_attempt,
    format_event,
    format_metric,
    format_placement,
    paint_state,
    state_on,
    summary_lines,
)
from rsctl.cli.views.sarif import sarif
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error, note, warning
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import (
    Attempt,
    Event,
    Failure,
    FindingEvent,
    MetricEvent,
    ResultEvent,
    StateEvent,
    TriedPlacement,
)
from rsctl.runs.stream.formatting import format_bytes
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal
from tests.cli.conftest import at


def a_bench(cells: int, repeat: int, **more: Any) -> BenchRecord:
    return BenchRecord(
        **{"bench": "b-1", "name": "b", "target": "vertex", "definition": "d", "repeat": repeat},
        **{"created": at(0), "cells": [{"n": n} for n in range(cells)], **more},
    )


@pytest.mark.parametrize(
    ("bench", "todo", "is_driven", "lines"),
    [
        (a_bench(1, 3), 3, False, ["b-1: one job x 3 = 3 runs on vertex"]),
        (
            *(a_bench(2, 3), 4, False),
            ["b-1: 2 cells x 3 = 6 runs on vertex", "4 of them remain"],
        ),
        (
            *(a_bench(6, 5, against=Against(given="main", file="j")), 30, False),
            ["b-1: 3 cells x 5 pairs with main = 30 runs on vertex"],
        ),
        (
            *(a_bench(2, 1, against=Against(given="main", file="j")), 1, False),
            ["b-1: one job x 1 pair with main = 2 runs on vertex", "1 of them remains"],
        ),
        (
            *(a_bench(2, 1, rehearsed=True), 0, False),
            [
                "b-1: 2 cells x 1 = 2 runs on vertex, a rehearsal on this machine",
                "every run of this bench is complete; to measure again use --new, to add runs use "
                "--repeat",
            ],
        ),
        (
            *(a_bench(2, 1), 1, True),
            [
                "b-1: 2 cells x 1 = 2 runs on vertex",
                "another process runs this bench; this command watches it, and takes over if that "
                "process ends",
            ],
        ),
    ],
)
def test_the_size_of_a_bench(
    bench: BenchRecord, todo: int, is_driven: bool, lines: list[str]
) -> None:
    assert opening(bench, todo, is_driven) == lines


@pytest.mark.parametrize(
    ("reasons", "text"),
    [([], "  not survived"), (["it hangs", "a\nb"], "  not survived: it hangs; a b")],
)
def test_the_result_of_a_fault(reasons: list[str], text: str) -> None:
    result = FaultResult(fault="preemption", verdict="not-survived", reasons=reasons)
    assert format_result(result) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (12_345_678, "12.3 MB"),
        (999_999_999, "1 GB"),
        (2_500_000_000, "2.5 GB"),
        (7 * 10**12, "7 TB"),
        (10**16, "10 PB"),
        (-5_000_000, "-5 MB"),
    ],
)
def test_a_size(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("meant", "words"),
    [
        *(("submit", "run apply"), ("rerun", "again"), ("list", "squeue"), ("watch", "attach")),
        *(("logs", "log"), ("status", "show"), ("get", "pull"), ("shell", "ssh"), ("ui", "top")),
        *(("plan", "preview"), ("validate", "lint"), ("init", "new"), ("build-image", "push")),
        *(("catalog", "prices"), ("metrics", "stats"), ("advise", "estimate"), ("open", "browse")),
        *(("compare", "cmp vs"), ("doctor", "whoami"), ("submit --resume", "resume")),
        *(("logs -f", "tail"), ("--version", "ver"), ("--help", "man")),
    ],
)
def test_each_command_is_found_by_what_it_means(meant: str, words: str) -> None:
    for word in words.split():
        assert suggest_command(word, COMMANDS) == f"Did you mean {meant!r}?"


@pytest.mark.parametrize(
    "words",
    [
        "stop kill abort terminate end down scancel",
        "delete del rm remove clean cleanup purge destroy drop",
    ],
)
def test_what_ends_or_removes_is_only_pointed_at(words: str) -> None:
    said = "The commands that end or remove something are in the list of --help."
    assert {suggest_command(word, COMMANDS) for word in words.split()} == {said}


NAMES = ("submit", "list", "logs", "status", "get", "cancel", "forget", "prune", "emulate", "init")


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("run", "Did you mean 'submit'?"),
        ("LS", "Did you mean 'list'?"),
        ("tail", "Did you mean 'logs -f'?"),
        ("exec_job", "Did you mean 'submit'?"),
        ("version", "Did you mean '--version'?"),
        ("help", "Did you mean '--help'?"),
        ("dashboard", ""),  # of a command that is not there
        ("stats", "Did you mean 'status'?"),
        ("sumbit", "Did you mean 'submit'?"),
        *(("cancle", ""), ("prun", ""), ("forgt", "")),
        ("xyz", ""),
        ("delete", "The commands that end or remove something are in the list of --help."),
        ("KILL", "The commands that end or remove something are in the list of --help."),
    ],
)
def test_a_command_that_does_not_exist(word: str, text: str) -> None:
    assert suggest_command(word, NAMES) == text


@pytest.mark.parametrize(
    ("texts", "behaviour"),
    [
        ([], {}),
        (["stockouts=2", "spot=true", "text=a=b", "empty="], {
            "stockouts": 2, "spot": True, "text": "a=b", "empty": ""}),
    ],
)  # fmt: skip
def test_how_an_emulated_cloud_behaves(texts: list[str], behaviour: dict[str, Any]) -> None:
    assert parse_behaviour(texts) == behaviour
    words = Rehearsal("auto", behaviour).arguments
    assert words[:1] == ["--rehearse"]
    assert parse_behaviour(words[2::2]) == behaviour


@pytest.mark.parametrize("text", ["stockouts", "=2", "", "="])
def test_a_behaviour_without_a_name_or_a_value(text: str) -> None:
    with pytest.raises(RsctlError) as refused:
        parse_behaviour([text])
    message = f"--behaviour {text!r} is not in the form NAME=VALUE"
    finding = error("behaviour", message, "for example stockouts=2")
    assert (refused.value.exit_code, refused.value.findings) == (ExitCode.USAGE, (finding,))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00.5", "2026-01-31T12:00:00.500000Z"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00.000000Z"),
        ("0999-01-31T12:00:00Z", "0999-01-31T12:00:00.000000Z"),
    ],
)
def test_a_time_since_which_lines_are_shown(text: str, time: str) -> None:
    assert parse_since(text) == time


@pytest.mark.parametrize("text", ["yesterday", "", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_is_none(text: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        parse_since(text)
    assert refused.value.param_hint == "--since"
    assert str(refused.value) == (
        f"{text!r} is neither a duration such as 10m nor a time such as 2026-01-31T12:00:00Z"
    )


def test_findings_for_code_scanning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    places = [
        placed(error("unknown-key", "odd", "correct it", "a.b"), "a b.yaml", 3, 10),
        placed(warning("x", "w"), str(tmp_path / "in" / "sub" / "j.yaml"), 4, None),
        placed(note("x", "n"), "../j.yaml", None, None),
        placed(note("x", "n"), "-", 1, 1),
        placed(note("x", "n"), "--set a=1", 1, 1),
        note("x", "n"),
    ]
    outside = "file://" + str(tmp_path / "j.yaml")

    def located(uri: str, **region: int) -> list[dict[str, Any]]:
        about = {"artifactLocation": {"uri": uri}, **({"region": region} if region else {})}
        return [{"physicalLocation": about}]

    plain = {"ruleId": "x", "ruleIndex": 1, "level": "note", "message": {"text": "n"}}
    assert sarif(places) == {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "rsctl",
                        "version": __version__,
                        "rules": [
                            {"id": "unknown-key", "name": "UnknownKey"},
                            {"id": "x", "name": "X"},
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": "unknown-key",
                        "ruleIndex": 0,
                        "level": "error",
                        "message": {"text": "a.b: odd\ncorrect it"},
                        "locations": located("a%20b.yaml", startLine=3, startColumn=10),
                    },
                    {
                        "ruleId": "x",
                        "ruleIndex": 1,
                        "level": "warning",
                        "message": {"text": "w"},
                        "locations": located("sub/j.yaml", startLine=4, startColumn=1),
                    },
                    {**plain, "locations": located(outside)},
                    plain,
                    plain,
                    plain,
                ],
            }
        ],
    }


def placed(finding: Finding, file: str, line: int | None, column: int | None) -> Finding:
    return replace(finding, file=file, line=line, column=column)


def event(state: str, **fields: Any) -> StateEvent:
    return StateEvent(time=at(1), state=JobState(state), **fields)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (event("running"), "running"),
        (event("queued", reason="no <machines>\x07"), "queued: no <machines>\\x07"),
        (event("failed", reason="x"), None),
        (event("running", replica="worker-0"), None),
        (event("failed", replica="worker-0", exit_code=3), "worker-0 failed (exit code 3)"),
        (
            event("failed", replica="worker-0", exit_code=3, reason="why"),
            "worker-0 failed (exit code 3, why)",
        ),
        (
            FindingEvent(time=at(1), finding=warning("x", "slow\x07", "wait\x07")),
            "warning: slow\\x07\n    -> wait\\x07",
        ),
        (
            FindingEvent(time=at(1), finding=note("x", "slow"), replica="worker-1"),
            "worker-1: note: slow",
        ),
        (MetricEvent(time=at(1), replica="w", name="loss", value=1.0), None),
    ],
)
def test_an_event_as_a_message(given: Event, text: str | None) -> None:
    assert format_event(given) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("succeeded", 32),
        ("failed", 31),
        ("expired", 31),
        ("cancelled", 33),
        ("cancelling", 33),
        ("running", 36),
    ],
)
def test_a_state_has_its_colour(monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    padded = f"{state:<12}"
    assert paint_state(Terminal(), padded) == f"\x1b[{code}m\x1b[1m{padded}\x1b[0m"
    assert state_on(io.StringIO(), JobState(state), 12) == padded
    assert state_on(io.StringIO(), JobState(state)) == state


@pytest.mark.parametrize(
    ("statistics", "text"),
    [
        ({"last": 0.5}, "0.5"),
        ({"last": 0.5, "best": 0.5, "unit": "s"}, "0.5 s"),
        ({"last": 1250.0, "best": 2000.0, "unit": "x/s"}, "1250 x/s (best 2000)"),
    ],
)
def test_a_metric_at_the_end(statistics: dict[str, Any], text: str) -> None:
    assert format_metric(statistics) == text


FAILURE = Failure(
    replica="worker-1",
    time=at(8.5),
    exit_code=1,
    lines=["Traceback:", "E\x07", "x" * 262_144],
    causes=[warning("m", "out of memory", "use less"), warning("n", "second")],
)


@pytest.mark.parametrize(
    ("attempt", "text"),
    [
        ({"reason": "a preemption\x07"}, "a preemption\\x07"),
        ({}, ""),
        ({"failure": FAILURE}, "worker-1 failed first: exit code 1; out of memory"),
    ],
)
def test_why_an_attempt_ended(attempt: dict[str, Any], text: str) -> None:
    assert format_attempt(Attempt(attempt=1, ended=at(1), **attempt)) == text


def test_the_first_failure_and_what_it_caused() -> None:
    run = RunRecord(
        run="job-1", name="job", target="process", url="process://job-1", created=at(0),
        state=JobState.FAILED, plan={}, metrics_spec={}, first_failure=FAILURE,
    )  # fmt: skip
    assert failure_block(run) == [
        "worker-1 failed first: exit code 1 at 12:00:08 UTC, 8.5 s after the start",
        "  Traceback:",
        "  E\\x07",
        f"  {'x' * 2000} … (262,144 characters)",
        "cause: out of memory",
        "    -> use less",
        "cause: second",
    ]


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        ({"region": "us-east1", "machine": "a2"}, "us-east1, a2: not tried"),
        ({"region": "us-east1", "began": at(0), "ended": at(40)}, "us-east1: unknown after 0:40"),
        (
            {
                "machine": "a2\x07",
                "began": at(0),
                "ended": at(40),
                "state": JobState.EXPIRED,
                "reason": "no stock\x07",
            },
            "a2\\x07: expired after 0:40: no stock\\x07",
        ),
        (
            {"region": "us-east1", "began": at(20), "state": JobState.RUNNING},
            "us-east1: running for 0:30",
        ),
    ],
)
def test_where_a_run_was_tried(
    monkeypatch: pytest.MonkeyPatch, placement: dict[str, Any], text: str
) -> None:
    monkeypatch.setattr("rsctl.cli.views.run_text.now", lambda: at(50))
    assert format_placement(TriedPlacement(**placement)) == text


def test_the_last_lines_about_a_run() -> None:
    tried = [
        TriedPlacement(region="a", began=at(0), ended=at(9), state=JobState.EXPIRED),
        TriedPlacement(region="b", began=at(9), ended=at(40), state=JobState.FAILED),
        TriedPlacement(region="c"),
    ]
    run = RunRecord(
        run="job-1", name="job", target="vertex", url="vertex://job-1", created=at(0),
        ended=at(40), state=JobState.FAILED, reason="no machines", metrics_spec={},
        plan={"image": {"transport": "rsctl"}}, placements=tried,
        attempts=[Attempt(attempt=1, ended=at(20), reason="a preemption")],
    )  # fmt: skip
    found: Any = SimpleNamespace(
        record=run, cost=lambda: None, gradients=lambda: SimpleNamespace(format=lambda: "5 GB")
    )
    result = ResultEvent(
        time=at(41),
        state=JobState.FAILED,
        exit_code=1,
        metrics={f"m{n}": {"last": float(n)} for n in range(9)},
        results={"outputs": "gs://b/out\x07"},
    )
    assert summary_lines(result, found) == [
        "job-1 failed after 0:40: no machines",
        "  placement 1: a: expired after 0:09",
        "  placement 2: b: failed after 0:31",
        "  attempt 1: a preemption",
        *(f"  m{n} {n}" for n in range(8)),
        "  and 1 more: rsctl metrics job-1",
        "  outputs: gs://b/out\\x07",
        "  gradients: 5 GB",
    ]
    found.record = replace(run, state=JobState.RUNNING)
    assert summary_lines(result, found) == []
    found.record = replace(run, plan={}, placements=[], attempts=[], first_failure=FAILURE)
    assert summary_lines(ResultEvent(time=at(41), state=JobState.FAILED, exit_code=1), found) == [
        *failure_block(found.record),
        "job-1 failed after 0:40",
    ]


ROWS = [
    ["RUN", "COUNT", "EMPTY", "WHY"],
    ["job-1", "5", "", "a reason of several words"],
    ["long-job-2", "12", "", "x\x07"],
]


def written(capsys: pytest.CaptureFixture[str], *arguments: Any, **options: Any) -> list[str]:
    table.write_table(*arguments, **options)
    return capsys.readouterr().out.splitlines()


def test_a_table_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    painted = {"RUN": lambda text: f"<{text}>"}
    assert written(capsys, ROWS, right=["COUNT"], paint=painted) == [
        "RUN         COUNT  WHY",
        "<job-1     >      5  a reason of several words",
        "<long-job-2>     12  x\\x07",
    ]
    assert written(capsys, [["A", "B"], ["", ""]]) == []
    assert written(capsys, [["A"]]) == []


def test_columns_of_wide_letters_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["CELL", "N", "WHY"], ["data=数据集", "5", "x"], ["data=café", "12", "y"]]
    assert written(capsys, rows, right=["N"]) == [
        "CELL          N  WHY",
        "data=数据集   5  x",
        "data=café    12  y",
    ]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (44, ["RUN         COUNT  WHY", "job-1       5      a reason of several words"]),
        (43, ["RUN         COUNT  WHY", "job-1       5      a reason of several",
              "                   words"]),
        (42, ["RUN         COUNT", "    WHY", "job-1       5", "    a reason of several words"]),
    ],
)  # fmt: skip
def test_a_table_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    lines: list[str],
) -> None:
    monkeypatch.setattr(table.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(
        table.shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((width, 24))
    )
    assert written(capsys, ROWS)[: len(lines)] == lines


def value(second: int, number: float, step: int | None = None, worker: int = 0) -> MetricEvent:
    time = f"2026-01-31T12:00:{second:02}.000000Z"
    return MetricEvent(
        time=time, replica=f"worker-{worker}", name="loss\x07", value=number, step=step
    )


def drawn(capsys: pytest.CaptureFixture[str], *values: MetricEvent, unit: str = "") -> list[str]:
    specs: Any = {"loss\x07": SimpleNamespace(unit=unit or None)} if unit else {}
    plot_metrics(values, specs)
    return capsys.readouterr().out.splitlines()


def test_a_chart_has_its_axes_and_a_letter_for_each_replica(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    lines = drawn(
        capsys,
        *(value(1, 4.0, 1), value(2, 2.0, 2), value(3, 1.0, 3)),
        *(value(1, 3.5, 1, 1), value(3, 0.5, 3, 1)),
    )
    assert lines[0] == "loss\\x07"
    ticks = [line.partition("|")[0].strip() for line in lines[2:15]]
    assert " ".join(ticks) == "5.2 4.8 4.4 4 3.6 3.2 2.8 2.4 2 1.6 1.2 0.8 0.4"
    assert lines[15] == "-----------|-|---------|---------|---------|---------|-> (step)"
    assert lines[16].split() == ["|", "0", "0.8", "1.6", "2.4", "3.2"]
    assert [line.split()[-1] for line in lines[20:22]] == ["worker-0", "worker-1"]
    letters = "".join(char for line in lines[2:15] for char in line if char in "ab")
    assert letters.count("a") == 3
    assert letters.count("b") == 2


def test_of_many_replicas_a_chart_has_the_highest_the_median_and_the_lowest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    values = [value(step, float(n), step, n) for n in range(7) for step in range(9)]
    lines = drawn(capsys, *values)
    kinds = [f"{kind} of 7 replicas" for kind in ("highest", "median", "lowest")]
    assert [line.split(maxsplit=1)[1] for line in lines[20:] if line] == kinds
    pairs = [(line, letter) for line in lines[2:15] for letter in "abc" if letter in line]
    counts = [(line.split()[0], letter, line.count(letter)) for line, letter in pairs]
    assert counts == [("5.5", "a", 9), ("3", "b", 9), ("0", "c", 9)]
    six = [event for event in values if event.replica != "worker-6"]
    named = [line.split()[-1] for line in drawn(capsys, *six)[20:26]]
    assert named == [f"worker-{n}" for n in range(6)]


def test_values_at_the_ends_of_the_axes_are_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    lines = drawn(capsys, *(value(n, min(6.0, float(n)), n) for n in range(9)))
    assert lines[2].strip() == "6 |"
    assert lines[3].partition("| ")[2][-14:].strip("\u2800"), "the end of the line is drawn"
    assert lines[3].rstrip("\u2800") == lines[3], "up to the last step"


def test_a_chart_over_seconds_with_its_unit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    lines = drawn(capsys, value(1, 4.0, 1), value(5, 2.0), unit="nats")
    assert "(nats)" in lines[1]
    assert lines[15].endswith("-> (seconds)")
    assert lines[16].split() == ["|", "0", "1", "2", "3", "4"]
    assert "Legend:" not in lines


def test_values_that_make_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    one_each = [value(1, float(n), 7, n) for n in reversed(range(10))]
    assert drawn(capsys, *one_each, value(2, math.inf, 8), value(3, math.nan), unit="s\x07") == [
        "loss\\x07",
        *(f"  {n} on worker-{n} at step 7 (s\\x07)" for n in range(8)),
        "  and 2 more replicas",
        "not drawn: 2 values, the first inf on worker-0 at step 8",
        "",
    ]
    assert drawn(capsys, value(1, 0.5)) == ["loss\\x07", "  0.5 on worker-0", ""]
    assert drawn(capsys, value(1, 1e305)) == ["loss\\x07", "not drawn: 1e+305 on worker-0", ""]
    plot_metrics([], {})
    assert capsys.readouterr().err == "no metrics to draw\n"


@pytest.mark.parametrize(
    ("low", "high", "ticks", "limits"),
    [
        (0.0, 3.0, 4, (0.0, 3.2)),
        (0.0, 4.0, 4, (0.0, 4.0)),
        (0.5, 4.0, 12, (0.4, 5.2)),
        (5.0, 5.0, 10, (5.0, 6.0)),
        (0.0, 0.0, 10, (0.0, 1.0)),
        (-3.0, 3.0, 6, (-3.0, 3.0)),
        (0.0, 1000.0, 7, (0.0, 1050.0)),
    ],
)
def test_the_limits_of_an_axis_are_round(
    low: float, high: float, ticks: int, limits: tuple[float, float]
) -> None:
    assert round_limits(low, high, ticks) == pytest.approx(limits)


@pytest.mark.parametrize(
    ("number", "extent", "left", "text"),
    [
        (0.5, 1.0, False, "     0.5"),
        (0.5, 1.0, True, "0.5     "),
        (1e-12, 1.0, False, "       0"),
        (100.0125, 0.012, False, " 100.013"),
        (1e301, 1.0, False, "  1e+301"),
        (250_000.0, 1e6, True, "250,000 "),
        (2_500_000.0, 1e7, True, "2.5e+06 "),
        (-9.6e9, 1e10, False, "-9.6e+09"),
        (12_346_380.0, 700.0, False, "1.23e+07"),
        (1234.56789, 0.012, False, "1234.568"),
    ],
)
def test_the_label_of_a_tick(number: float, extent: float, left: bool, text: str) -> None:
    assert format_tick(number, 8, extent, left) == text


def test_of_many_points_no_spike_is_lost() -> None:
    points = [(float(n), 0.0) for n in range(1000)]
    points[333], points[777] = (333.0, 9.0), (777.0, -9.0)
    kept = thinned(points, 0.0, 999.0, 10)
    assert {points[0], points[333], points[777], points[999]} <= set(kept)
    assert len(kept) <= 44
    assert kept == sorted(kept)
    few = points[:40]
    assert thinned(few, 0.0, 39.0, 10) == few
    assert len(thinned(points[:41], 0.0, 40.0, 10)) < 41


@pytest.mark.parametrize(
    ("index", "count", "with_colors", "style"),
    [
        (0, 1, False, {}),
        (0, 2, False, {"marker": "a"}),
        (27, 30, False, {"marker": "b"}),
        (0, 1, True, {"lc": "cyan"}),
        (7, 9, True, {"lc": "yellow"}),
    ],
)
def test_lines_are_told_apart(
    index: int, count: int, with_colors: bool, style: dict[str, str]
) -> None:
    assert plot.line_style(index, count, with_colors) == style
