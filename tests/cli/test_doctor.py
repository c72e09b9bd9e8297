"""`rsctl doctor`: how the checks of an environment are shown, and what they mean for a pipeline."""

from __future__ import annotations

import os
import sys

import pytest

from rsctl.api import Check
from rsctl.cli import doctor
from rsctl.cli.app import run

from .conftest import Cli

OK = Check(name="docker", verdict="ok", message="version 27", remedy="unused")
SKIPPED = Check(name="gcloud\x1b[2J", verdict="skipped", message="no target", remedy=None)
SLOW = Check(name="disk", verdict="warning", message="5 GB are free", remedy="free space")
BROKEN = Check(name="aws", verdict="error", message="no credentials", remedy="log in")
HINT = "to run the skipped checks, name a target: rsctl doctor [JOB] -t TARGET\n"


@pytest.mark.parametrize(
    ("checks", "code", "out", "err"),
    [
        ([OK], 0, "ok      docker: version 27\n", ""),
        (
            *([OK, SKIPPED], 0),
            *("ok      docker: version 27\nskipped gcloud\\x1b[2J: no target\n", HINT),
        ),
        ([SLOW], 0, "warning disk: 5 GB are free\n    -> free space\n", ""),
        (
            *([BROKEN, SLOW], 3),
            "error   aws: no credentials\n    -> log in\n"
            "warning disk: 5 GB are free\n    -> free space\n",
            "",
        ),
        ([], 0, "", ""),
    ],
)
def test_each_check_is_a_line(
    rsctl: Cli,
    monkeypatch: pytest.MonkeyPatch,
    checks: list[Check],
    code: int,
    out: str,
    err: str,
) -> None:
    monkeypatch.setattr(doctor, "check_environment", lambda *_, **__: iter(checks))
    done = rsctl("doctor")
    assert (done.code, done.out, done.err) == (code, out, err)
    assert rsctl("doctor", "-t", "process").err == ""


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_reader_that_goes_away_hides_no_error(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.setattr(doctor, "check_environment", lambda *_, **__: iter([BROKEN, OK]))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert run(["doctor", "-o", output]) == 3


def test_the_checks_as_json(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "check_environment", lambda *_, **__: iter([BROKEN, SKIPPED]))
    done = rsctl("doctor", "-o", "json")
    assert (done.code, done.err) == (3, "")
    assert [(check["name"], check["verdict"]) for check in done.json["checks"]] == [
        *(("aws", "error"), ("gcloud\x1b[2J", "skipped")),
    ]
