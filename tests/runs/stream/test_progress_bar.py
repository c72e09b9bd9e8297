"""A progress bar's state can be read while its line has no end, and is gone once it has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.runs.stream import progress_bar
from rsctl.runs.stream.journal import JournalWriter
from rsctl.runs.stream.progress_bar import ProgressBarFile, read_progress_bar


class Clock:
    """Stands in for `monotonic`; seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_bar, "monotonic", clock)
    return clock


def test_the_latest_state_is_kept_twice_a_second_and_dropped_with_the_line_end(
    tmp_path: Path, clock: Clock
) -> None:
    log = tmp_path / "log"
    journal, bar = JournalWriter(log), ProgressBarFile(log)

    def printed(data: bytes) -> str:
        journal.feed("stderr", data)
        bar.keep(journal.unfinished)
        return read_progress_bar(log)

    assert printed(b"loading") == ""
    assert printed(b"\r 10%|#   |\r 20%|##  |") == " 20%|##  |"
    assert printed(b"\r 30%|### |") == " 20%|##  |"
    clock.now += 0.6
    assert printed(b"\r\x1b[32m 40%|####|\x1b[0m\r") == " 40%|####|"
    assert printed(b"\r100%|####|\n") == ""
    assert journal.close() == b""


def test_a_bar_that_has_ended_gives_way_to_the_next(tmp_path: Path, clock: Clock) -> None:
    """tqdm begins each state with a carriage return, and ends the last one with a line end."""
    log = tmp_path / "log"
    journal, bar = JournalWriter(log), ProgressBarFile(log)

    def printed(data: bytes) -> str:
        journal.feed("stderr", data)
        clock.now += 1
        bar.keep(journal.unfinished)
        return read_progress_bar(log)

    assert printed(b"\rEpoch 1:  50%|##  |") == "Epoch 1:  50%|##  |"
    assert printed(b"\rEpoch 1: 100%|####|\n") == ""
    assert printed(b"\rEpoch 2:   0%|    |") == "Epoch 2:   0%|    |"


def test_a_full_disk_costs_the_bar_alone(tmp_path: Path, clock: Clock) -> None:
    bar = ProgressBarFile(tmp_path / "missing" / "log")
    bar.keep(b"\r 10%")
    clock.now += 1
    bar.keep(b"")
    assert read_progress_bar(tmp_path / "missing" / "log") == ""
