"""Reading a run's folder while it is written."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rsctl.findings import JobState
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.reader import RunReader
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import Event, LogEvent, StateEvent
from rsctl.targets.local.process import ProcessTarget

SOON = "2999-01-01T00:00:0{}.000000Z"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of one worker that printed a line and ended, all of it too new to be in order."""
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path))
    folder = RunFolder("t-aaaaaa")
    folder.create(
        RunDescription(run="t-aaaaaa", target="process", request={}, replicas=["worker-0"])
    )
    folder.log("worker-0").write_text(f"{SOON.format(1)} o the only line\n")
    end = StateEvent(time=SOON.format(2), state=JobState.SUCCEEDED, exit_code=0)
    folder.states.write_bytes(msgspec.json.encode(end) + b"\n")
    return folder


def rest_of(tail: RunReader) -> list[Event]:
    events: list[Event] = []
    while batch := tail.read(complete=True):
        events += batch
    return events


def test_the_end_is_not_reported_before_what_it_holds_back(folder: RunFolder) -> None:
    tail = RunReader(folder, {})
    assert (tail.read(complete=False), tail.ended) == ([], False)
    events = rest_of(tail)
    assert [type(event) for event in events] == [LogEvent, StateEvent]
    assert tail.ended


def test_a_reader_resumes_where_another_stopped(folder: RunFolder) -> None:
    since: dict[str, int] = {}
    assert len(rest_of(RunReader(folder, since))) == 2
    with folder.log("worker-0").open("a") as log:
        log.write(f"{SOON.format(3)} e another\n")
    (event,) = rest_of(RunReader(folder, since))
    assert isinstance(event, LogEvent)
    assert (event.stream, event.text) == ("stderr", "another")


def test_a_run_that_ends_while_somebody_looks_is_not_taken_for_killed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    new = {"name": "t", "target": "process", "url": "process://t", "created": SOON.format(0)}
    store.add(RunRecord(run=folder.run, state=JobState.RUNNING, **new))
    store.record(
        folder.run, StateEvent(time=SOON.format(1), state=JobState.RUNNING, replica="worker-0")
    )
    lock = RunFolder.lock

    def lock_just_freed(locked: RunFolder) -> int:
        """The supervisor ends between the first look and the lock."""
        for replica in ("worker-0", None):
            end = StateEvent(time=SOON.format(2), state=JobState.SUCCEEDED, replica=replica)
            store.record(locked.run, end)
        return lock(locked)

    monkeypatch.setattr(RunFolder, "lock", lock_just_freed)
    ProcessTarget().reconcile(folder.run)
    known = store.get(folder.run)
    assert known is not None
    assert [known.state, *(r.state for r in known.replicas)] == [JobState.SUCCEEDED] * 2
