"""Reading a run's folder: in order of time, while it is written, and again from a cursor."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.findings import JobState, note
from rsctl.runs import reader as module
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.reader import STATES, RunReader, StateReader, cursor_before_last, ends_job
from rsctl.runs.stream.events import Cursor, Event, FindingEvent, LogEvent, StateEvent

from .conftest import at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a reader counts, which stand still."""
    seconds = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: seconds[0])
    return seconds


@pytest.fixture
def folder(clock: list[float]) -> RunFolder:
    folder = RunFolder("job-1")
    replicas = ["worker-0", "worker-1"]
    folder.create(RunDescription(run="job-1", target="process", request={}, replicas=replicas))
    return folder


def log(folder: RunFolder, replica: str, *lines: tuple[str, str]) -> None:
    with folder.log(replica).open("a") as file:
        file.writelines(f"{time} o {text}\n" for time, text in lines)


def states(folder: RunFolder, *events: Event) -> None:
    with folder.states.open("ab") as file:
        file.writelines(msgspec.json.encode(event) + b"\n" for event in events)


def told(events: list[Any]) -> list[str]:
    """Each event in a word."""
    return [
        event.text if isinstance(event, LogEvent) else event.state.value
        for event in events
        if not isinstance(event, FindingEvent)
    ]


def read(folder: RunFolder, since: Cursor, complete: bool = True) -> list[str]:
    reader = RunReader(folder, since)
    events = told(reader.read(complete))
    while more := reader.read(complete):
        events += told(more)
    reader.close()
    return events


def test_logs_and_states_are_one_stream_in_order_of_time(folder: RunFolder) -> None:
    states(folder, StateEvent(time=at(1), state=JobState.RUNNING))
    log(folder, "worker-0", (at(2), "a"), (at(5), "c"))
    log(folder, "worker-1", (at(3), "b"))
    states(folder, StateEvent(time=at(4), state=JobState.FAILED, replica="worker-1"))
    states(folder, StateEvent(time=at(6), state=JobState.FAILED))
    cursor: Cursor = {}
    assert read(folder, cursor) == ["running", "a", "b", "failed", "c", "failed"]
    assert cursor == {
        STATES: folder.states.stat().st_size,
        "worker-0": folder.log("worker-0").stat().st_size,
        "worker-1": folder.log("worker-1").stat().st_size,
    }
    assert read(folder, dict(cursor)) == []
    log(folder, "worker-1", (at(7), "d"))
    assert read(folder, cursor) == ["d"]


def test_a_reader_knows_when_it_has_read_the_end(folder: RunFolder) -> None:
    states(folder, StateEvent(time=at(1), state=JobState.RUNNING))
    reader = RunReader(folder, {})
    reader.read(complete=True)
    assert not reader.ended
    states(folder, StateEvent(time=at(2), state=JobState.SUCCEEDED, replica="worker-0"))
    reader.read(complete=True)
    assert not reader.ended
    states(folder, StateEvent(time=at(2), state=JobState.SUCCEEDED))
    reader.read(complete=False)
    reader.read(complete=False)
    assert reader.ended
    reader.close()
    assert ends_job(StateEvent(time=at(2), state=JobState.CANCELLED))
    assert not ends_job(FindingEvent(time=at(2), finding=note("x", "y"), replica=None))


def test_of_a_run_that_goes_on_the_newest_lines_wait_for_those_that_may_come_before(
    folder: RunFolder,
) -> None:
    """A line is written a moment after its stamp, and then they are read once."""
    soon = (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    states(folder, StateEvent(time=at(1), state=JobState.RUNNING))
    log(folder, "worker-0", (at(2), "a"), (soon, "c"))
    cursor: Cursor = {}
    assert read(folder, cursor, complete=False) == ["running", "a"]
    first = len(f"{at(2)} o a\n")
    assert cursor["worker-0"] == first
    log(folder, "worker-1", (at(3), "b"))
    assert read(folder, dict(cursor), complete=False) == ["b"]
    assert read(folder, cursor) == ["b", "c"]


def test_lines_of_a_clock_that_went_back_wait_no_longer_than_others(
    folder: RunFolder, clock: list[float]
) -> None:
    """Times of a log do not go back, so those of its next lines are in the future for an hour."""
    soon = (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    reader = RunReader(folder, {})
    log(folder, "worker-0", (at(1), "a"), (soon, "b"))
    states(folder, StateEvent(time=soon, state=JobState.RUNNING))
    assert told(reader.read(complete=False)) == ["a"]
    assert told(reader.read(complete=False)) == []
    clock[0] += 0.1
    assert told(reader.read(complete=False)) == ["running", "b"]
    log(folder, "worker-0", (soon, "c"))
    assert told(reader.read(complete=False)) == []
    log(folder, "worker-1", (at(2), "d"))
    assert told(reader.read(complete=False)) == ["d"]
    clock[0] += 0.1
    assert told(reader.read(complete=False)) == ["c"]
    reader.close()


@pytest.mark.parametrize("replicas", [1, 300])
def test_an_end_by_a_clock_that_went_back_hides_no_line(folder: RunFolder, replicas: int) -> None:
    for number in range(replicas):
        states(folder, StateEvent(time=at(4), state=JobState.RUNNING, replica=f"worker-{number}"))
    log(folder, "worker-0", (at(5), "a"), (at(6), "b"))
    states(folder, StateEvent(time=at(1), state=JobState.SUCCEEDED))
    assert read(folder, {}) == ["succeeded", *["running"] * replicas, "a", "b"]


def test_a_state_that_waits_is_read_again(folder: RunFolder) -> None:
    soon = (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    states(folder, StateEvent(time=soon, state=JobState.RUNNING))
    cursor: Cursor = {}
    assert read(folder, cursor, complete=False) == []
    assert cursor.get(STATES, 0) == 0
    assert read(folder, cursor) == ["running"]


def test_states_are_read_in_whole_lines_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "states.log"
    reader = StateReader(path)
    assert reader.read() == []
    first = msgspec.json.encode(StateEvent(time=at(1), state=JobState.RUNNING))
    finding = msgspec.json.encode(FindingEvent(time=at(1), finding=note("x", "y"), replica=None))
    end = msgspec.json.encode(StateEvent(time=at(2), state=JobState.FAILED))
    path.write_bytes(
        first + b'\n{damaged\n{"type":"state","time":"\xff"}\n' + finding + b"\n" + end[:10]
    )
    assert len(reader.read()) == 2
    assert (reader.read(), reader.ended) == ([], False)
    path.write_bytes(path.read_bytes() + end[10:] + b"\n")
    assert [event.state for event in reader.read() if isinstance(event, StateEvent)] == ["failed"]
    assert reader.ended
    assert reader.offset == path.stat().st_size
    assert reader.read() == []
    assert reader.ended
    assert len(StateReader(path, len(first) + 1).read()) == 2


def test_a_cursor_before_the_last_lines(folder: RunFolder) -> None:
    states(folder, StateEvent(time=at(1), state=JobState.RUNNING))
    log(folder, "worker-0", *[(at(2), f"a{n}") for n in range(9)])
    log(folder, "worker-1", (at(3), "b"))
    events = read(folder, cursor_before_last(folder, 2))
    assert [event for event in events if event[0] == "a"][-2:] == ["a7", "a8"]
    assert events[-1] == "b"
    assert "running" in events
    assert read(folder, cursor_before_last(folder, 100)) == [
        "running",
        *[f"a{n}" for n in range(9)],
        "b",
    ]
