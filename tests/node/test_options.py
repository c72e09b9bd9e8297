"""The command line of `rsctl-launch`."""

from __future__ import annotations

import sys

import pytest

from rsctl.node import options


def test_every_option() -> None:
    parsed = options.parse(
        [
            *("--launcher=mpi", "--processes", "2", "--env", "A=B=C", "--env", "D=-1", "--fill=1"),
            *("--copy", "x=/a", "--copy=y=/b", "--count", "z", "--shards", "w"),
            *("--stop-signal", "INT", "--keep", "60", "--", "run", "--", "--launcher"),
        ]
    )
    assert parsed == options.Options(
        command=["run", "--", "--launcher"],
        launcher="mpi",
        processes=2,
        env=("A=B=C", "D=-1"),
        fill=1,
        copy=("x=/a", "y=/b"),
        count=("z",),
        shards=("w",),
        stop_signal="INT",
        keep=60,
    )


def test_scripts_run_on_this_python() -> None:
    parsed = options.parse(["--python", "--restarts-in-place", "3", "--", "train.py"])
    assert parsed.command == [sys.executable, "-u", "train.py"]
    assert (parsed.launcher, parsed.restarts_in_place) == ("torchrun", 3)


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_the_help_names_all_options(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options.parse([word])
    assert not ended.value.code
    shown = capsys.readouterr().out
    names = [name.replace("_", "-") for name in options.Options._field_defaults]
    assert [name for name in names if f"  --{name}" not in shown] == []
