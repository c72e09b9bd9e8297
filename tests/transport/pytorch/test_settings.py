"""The environment of the binding: what it asks for, its limits, and what a rank prints."""

from __future__ import annotations

import json
import os

import pytest

from rsctl.transport.pytorch import report
from rsctl.transport.pytorch.settings import (
    BindingError,
    CommSettings,
    MeasureSettings,
    read_measure_settings,
    read_settings,
)


def test_each_variable_is_a_setting() -> None:
    environ = {
        "RSCTL_REDUCERS": "a:1, ,b:2,",
        "RSCTL_COMM_BACKEND": "rsctl",
        "RSCTL_COMM_BUCKET_MB": "4096",
        "RSCTL_COMM_COMPRESSION": "powersgd",
        "RSCTL_COMM_HOOK": "module:function",
        "RSCTL_ON_REDUCER_LOSS": "fallback",
        "RSCTL_POWERSGD_RANK": "1024",
        "RSCTL_POWERSGD_START": "1000000000",
    }
    assert read_settings(environ) == CommSettings(
        reducers=2,
        backend="rsctl",
        bucket_mb=4096,
        compression="powersgd",
        hook="module:function",
        fallback=True,
        powersgd_rank=1024,
        powersgd_start=10**9,
    )
    assert read_settings(dict.fromkeys(environ, "")) == read_settings({}) == CommSettings()
    least = {"RSCTL_COMM_BUCKET_MB": "1", "RSCTL_POWERSGD_RANK": "1", "RSCTL_POWERSGD_START": "2"}
    assert read_settings({**least, "RSCTL_ON_REDUCER_LOSS": "fail"}) == CommSettings(
        bucket_mb=1, powersgd_rank=1, powersgd_start=2
    )


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        ({}, None),
        ({"RSCTL_MEASURE_COMM": "1"}, None),
        ({"RSCTL_MEASURE_STEPS": "1"}, MeasureSettings(1)),
        ({"RSCTL_MEASURE_STEPS": "60", "RSCTL_MEASURE_COMM": "0"}, MeasureSettings(60)),
        ({"RSCTL_MEASURE_STEPS": "9", "RSCTL_MEASURE_COMM": "1"}, MeasureSettings(9, True)),
    ],
)
def test_how_a_script_is_measured(
    environ: dict[str, str], settings: MeasureSettings | None
) -> None:
    assert read_measure_settings(environ) == settings


def read(environ: dict[str, str]) -> None:
    """Read both kinds of settings, of a script that is measured."""
    read_settings(environ)
    read_measure_settings({"RSCTL_MEASURE_STEPS": "1", **environ})


NUMBERS = {
    "RSCTL_COMM_BUCKET_MB": ("comm.bucket_mb", "0", "1", "4096", "4097"),
    "RSCTL_POWERSGD_RANK": ("run.env", "0", "1", "1024", "1025"),
    "RSCTL_POWERSGD_START": ("run.env", "1", "2", "1000000000", "1000000001"),
    "RSCTL_MEASURE_STEPS": ("run.env", "0", "1", "60", "61"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_beyond_its_limits_is_refused(name: str) -> None:
    key, below, least, most, beyond = NUMBERS[name]
    for text in (below, beyond, "1.5", "-2", "\u0662", "9" * 13):
        with pytest.raises(BindingError) as refused:
            read({name: text})
        assert str(refused.value) == (
            f"{key}: {name} is {text!r}. Use a number from {least} to {most}."
        )
        assert refused.value.code == "comm-unapplied"


@pytest.mark.parametrize(
    ("name", "key", "choices"),
    [
        ("RSCTL_COMM_BACKEND", "comm.backend", "nccl, gloo, rsctl, smddp"),
        ("RSCTL_COMM_COMPRESSION", "comm.compression", "none, fp16, bf16, int8, fp8, powersgd"),
        ("RSCTL_ON_REDUCER_LOSS", "comm.on_reducer_loss", "fail, fallback"),
        ("RSCTL_MEASURE_COMM", "run.env", "0, 1"),
    ],
)
def test_another_word_than_the_choices_is_refused(name: str, key: str, choices: str) -> None:
    for word in choices.split(", "):
        read({name: word})
    with pytest.raises(BindingError) as refused:
        read({name: "other"})
    assert str(refused.value) == f"{key}: {name} is 'other'. Use one of {choices}."


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, 0),
        ({"RANK": "3", "NODE_RANK": "1"}, 3),
        ({"NODE_RANK": "1"}, 1),
        ({"RANK": "", "NODE_RANK": "1"}, 0),
        ({"RANK": "-1"}, 0),
        ({"RANK": "\u0662"}, 0),
    ],
)
def test_the_rank_of_a_process(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], rank: int
) -> None:
    for name in ("RANK", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert report.rank() == rank


def test_lines_for_people_are_from_rank_0_and_each_remark_comes_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "_printed", set())
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        report.print_line("a line")
        report.print_once(f"a remark of {rank}")
        report.print_once(f"a remark of {rank}")
        report.write_line(f"\udcff of {rank}")
    report.write_line("x" * 2000)
    assert capfd.readouterr().err.splitlines() == [
        *("rsctl: a line", "rsctl: a remark of 0", "rsctl: ? of 0", "rsctl: ? of 1"),
        "rsctl: " + "x" * (1024 - len("rsctl: ")),
    ]


def test_a_finding_fits_into_one_write_and_an_error_has_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    error = BindingError("comm.backend", "m" * 600, "r" * 600, "odd")
    for _ in range(2):
        assert report.report_error(error) is error
    [line] = capfd.readouterr().out.splitlines()
    assert json.loads(line) == {
        **{"rsctl": "finding", "severity": "error", "code": "odd"},
        **{"message": f"comm.backend: {'m' * 498}", "remedy": "r" * 512},
    }


def test_a_reader_that_has_gone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", write)
    report.write_line("a line")
