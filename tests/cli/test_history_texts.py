"""What `rsctl history` and `rsctl history bisect` print, whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import Bisected, FoundStep, HistorySeries, HistoryView, Probe, Recorded
from rsctl.bench.bisect import Mark
from rsctl.bench.history_series import CommitPoint
from rsctl.cli import history_bisect
from rsctl.cli.views.history import print_history, recorded_line

from .conftest import Cli


def commit(number: int) -> str:
    return f"{number:x}" * 40


def series(*values: float, **fields: Any) -> HistorySeries:
    points = [
        CommitPoint(commit=commit(n), committed=f"2026-01-0{n}T00:00:00Z", values=[value])
        for n, value in enumerate(values, 1)
    ]
    return HistorySeries(**{"job": "job", "metric": "loss", "cell": {}, "points": points, **fields})


def step(**fields: Any) -> FoundStep:
    known = {"position": 2, "commit": commit(3), "after": commit(2), "until": commit(3)}
    levels = {"first": 2, "last": 2, "level_before": 4.0, "level": 2.0, "size": -0.5}
    return FoundStep(**{**known, **levels, "confidence": 0.994, **fields})


def shown(*of: HistorySeries) -> HistoryView:
    return HistoryView(history="h.jsonl", commits=4, series=list(of))


@pytest.mark.parametrize(("is_worse", "how"), [(True, "worse"), (False, "better"), (None, "")])
def test_the_steps_of_a_series(
    capsys: pytest.CaptureFixture[str], is_worse: bool | None, how: str
) -> None:
    """Also of one without a unit and a percentage."""
    steps = [
        step(is_worse=is_worse),
        step(position=3, commit=commit(4), size=None, confidence=0.9995),
    ]
    print_history(shown(series(*[4] * 6, 2, 2, condition="cpu EPYC", steps=steps)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "job: h.jsonl",
        "METRIC  CONDITION  COMMITS  LATEST          LEVEL  STEPS",
        "loss    cpu EPYC   8        2 (8888888888)  4      2",
        "",
        "loss: cpu EPYC",
    ]
    assert lines[-4] == "commits 1111111111 (2026-01-01) to 8888888888 (2026-01-08)"
    assert [line.rstrip() for line in lines[-3:]] == [
        "COMMIT      RANGE                   CHANGE  BEFORE  AFTER  CONFIDENCE",
        f"3333333333  2222222222..3333333333  -50 %   4       2      99.4 %      {how}".rstrip(),
        "4444444444  2222222222..3333333333  4 -> 2  4       2      > 99.9 %",
    ]


def test_series_that_have_no_chart(capsys: pytest.CaptureFixture[str]) -> None:
    """One commit has none, nor have the series after the twelfth."""
    print_history(shown(series(1.0, unit="nats")))
    assert capsys.readouterr().out.splitlines() == [
        "job: h.jsonl",
        "METRIC  COMMITS  LATEST               LEVEL   STEPS",
        "loss    1        1 nats (1111111111)  1 nats  too few commits",
        "",
        "loss",
        "steps: unknown, at least 8 commits are necessary",
    ]
    print_history(shown(*(series(1.0, metric=f"m{n}") for n in range(14))))
    out, err = capsys.readouterr()
    assert err == "2 more series without a chart: select with --metric and --cell\n"
    assert out.count("steps: unknown") == 12
    print_history(shown(*(series(1.0, metric=f"m{n}") for n in range(12))))
    assert capsys.readouterr().err == ""


def test_each_job_has_its_own_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_history(shown(series(1.0), series(2.0, job="other"), series(3.0, metric="x")))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith(".jsonl")] == [
        "job: h.jsonl",
        "other: h.jsonl",
    ]
    assert [line.split()[0] for line in lines if "(1111111111)" in line] == ["loss", "x", "loss"]


@pytest.mark.parametrize(("cells", "text"), [(1, "1 cell"), (2, "2 cells")])
def test_what_was_appended(cells: int, text: str) -> None:
    added = Recorded(history="h.jsonl", commit=commit(10), bench="b", cells=cells)
    assert recorded_line(added) == f"h.jsonl: aaaaaaaaaa, {text}, from b"


PROBES = [
    Probe(commit=commit(1), subject="start", mark=Mark.GOOD, bench="b-1", effect=0.001),
    Probe(commit=commit(2), subject="s" * 70, mark=Mark.SKIPPED, reason="r" * 90),
    Probe(commit=commit(3), subject="slow", mark=Mark.BAD, effect=-0.25),
    Probe(commit=commit(4), subject="?", mark=Mark.SKIPPED),
]


def bisected(**fields: Any) -> Bisected:
    known = {"metric": "loss", "cell": "loss", "good": commit(1), "bad": commit(4), "effect": -0.2}
    more = {"is_relative": True, "first_bad": PROBES[2], "suspects": [], "probes": PROBES}
    return Bisected(**{**known, **more, **fields})


class FakeSearch:
    """A search of four commits that finds what a test gives it."""

    most_runs = 12

    def __init__(self, found: Bisected) -> None:
        self.found = found
        self.asked: dict[str, Any] = {}
        self.commits = [SimpleNamespace(commit=probe.commit) for probe in PROBES]

    def prepare(self, job: str, **asked: Any) -> FakeSearch:
        self.asked = {"job": job, **asked}
        return self

    def run(self, _run: object, on_probe: Any) -> Bisected:
        on_probe(PROBES[0], 2)
        on_probe(PROBES[3], 0)
        return self.found


@pytest.mark.parametrize(
    ("fields", "code", "last"),
    [
        ({}, 0, ["loss: -20 % in 1111111111..4444444444",
                 "3333333333 is the first bad commit: slow"]),
        (
            {"first_bad": None, "suspects": PROBES[1:3], "is_relative": False, "effect": 12.5},
            8,
            [
                "loss: +12.5 in 1111111111..4444444444",
                "the first bad commit is one of 2222222222, 3333333333: not all of them could be "
                "measured",
            ],
        ),
    ],
)  # fmt: skip
def test_a_search_of_commits(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], code: int, last: list[str]
) -> None:
    search = FakeSearch(bisected(**fields))
    monkeypatch.setattr(history_bisect, "prepare_bisect", search.prepare)
    done = rsctl("history", "bisect", "job.yaml")
    assert done.code == code
    assert done.err.splitlines() == [
        "3 commits in 1111111111..4444444444: about 12 runs",
        "1111111111 good +0.1 %  (about 2 more to test)",
        "4444444444 skipped   (none left to test)",
    ]
    reason = "r" * 80
    assert done.out.splitlines() == [
        f"COMMIT      VERDICT  CHANGE  {'REASON':<80}  SUBJECT",
        f"1111111111  good     +0.1 %  {'':<80}  start",
        f"2222222222  skipped          {reason}  {'s' * 60}",
        f"3333333333  bad      -25 %   {'':<80}  slow",
        f"4444444444  skipped          {'':<80}  ?",
        *last,
    ]
    assert search.asked == {
        "job": "job.yaml", "good": None, "bad": None, "history": None, "metrics": [], "cells": [],
        "target": None, "set": [], "repeat": None, "max_regression": [],
    }  # fmt: skip


def test_the_options_of_a_search(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    search = FakeSearch(bisected(probes=[]))
    monkeypatch.setattr(history_bisect, "prepare_bisect", search.prepare)
    words = "--good a --bad b --history h.jsonl -m loss --metric acc --cell n=1 -t process"
    words += " --set a=1 -r 4 --max-regression loss=5%"
    done = rsctl("history", "bisect", "j.yaml", *words.split(), "-q")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("loss: -20 % in ")
    assert search.asked == {
        "job": "j.yaml", "good": "a", "bad": "b", "history": "h.jsonl", "metrics": ["loss", "acc"],
        "cells": ["n=1"], "target": "process", "set": ["a=1"], "repeat": 4,
        "max_regression": ["loss=5%"],
    }  # fmt: skip
    found = rsctl("history", "bisect", "j.yaml", "-o", "json").json
    assert (found["first_bad"]["commit"], found["probes"]) == (commit(3), [])
