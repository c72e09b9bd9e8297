"""The run of a slot, out of the log and the metrics of its job."""

from __future__ import annotations

import pytest

from rsctl.findings import JobState
from rsctl.node.structured_lines import line, lock_of
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.records import RunRecord
from rsctl.runs.slots import SlotEnd, SlotMarks, keep_slot
from rsctl.runs.store import Store
from rsctl.runs.stream.events import LogEvent, MetricEvent
from rsctl.runs.stream.journal import JournalCopy, JournalReader
from rsctl.runs.stream.metrics import CHECKED, SLOT_MARK

JOB, SLOT = "job-aaaaaa", "job-aaaaaa-s0"


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}.000000Z"


def record(run: str, state: JobState) -> RunRecord:
    url = f"vertex://{run}"
    return RunRecord(run=run, name="job", target="vertex", url=url, state=state, created=at(0))


def log_of_job() -> SlotEnd:
    """The log of a job, of which one slot is from second 10 to 20."""
    last = "0" * 32
    first = lock_of(last)
    texts = [
        (at(1), line("slots", {"lock": lock_of(first)})),
        (at(10), line("slot", {"number": 0, "state": "began", "key": first})),
        (at(11), b"speed=1\n"),
        (
            at(20),
            line("slot", {"number": 0, "state": "ended", "code": 3, "why": None, "key": last}),
        ),
        (at(21), b"speed=2\n"),
        (at(22), b"speed=3\n"),
    ]
    folder = RunFolder(JOB)
    folder.create(RunDescription(run=JOB, target="vertex", request={}, replicas=["worker-0"]))
    journal = JournalCopy(folder.log("worker-0"), 0)
    journal.write((time, "stdout", text.decode().strip()) for time, text in texts)
    journal.close()
    reader, marks = JournalReader(folder.log("worker-0"), "worker-0"), SlotMarks()
    began, ended = (mark for each in reader.read() if (mark := marks.read(each)))
    return SlotEnd(0, {"worker-0": began}, {"worker-0": ended})


def metric(second: int, name: str, value: float, replica: str = "worker-0") -> MetricEvent:
    return MetricEvent(time=at(second), replica=replica, name=name, value=value)


@pytest.mark.parametrize("has_late_lines", [False, True])
def test_values_between_the_marks_are_those_of_the_slot(has_late_lines: bool) -> None:
    """By their rows, or where a cloud's log brings lines late, by their times."""
    store, end = Store(), log_of_job()
    store.add(record(JOB, JobState.RUNNING))
    began, ended = end.began["worker-0"].value, end.ended["worker-0"].value
    assert (
        keep_slot(
            store, record(JOB, JobState.RUNNING), record(SLOT, JobState.QUEUED), end, 9, False
        )
        is None
    )
    store.add_metrics(
        JOB,
        [
            metric(5, "speed", 1.0),
            metric(5, "node.check.copy_gbs", 7.0),
            metric(10, SLOT_MARK, began),
            metric(11, "speed", 2.0, "worker-0/1"),
            metric(12, "node.cpu", 3.0, "reducer-0"),
            metric(20, SLOT_MARK, ended),
            metric(13, "speed", 4.0),
            metric(21, "speed", 5.0),
        ],
    )
    job = record(JOB, JobState.RUNNING)
    for _ in range(2):  # the second call is that of the next driver
        kept = keep_slot(store, job, record(SLOT, JobState.QUEUED), end, 9, has_late_lines)
    assert kept is not None
    assert (kept.state, kept.created, kept.ended) == (JobState.FAILED, at(10), at(20))
    assert kept.first_failure is not None
    assert kept.first_failure.exit_code == 3
    values = [event.value for _, event in store.metrics(SLOT)]
    assert values == ([7.0, 2.0, 3.0, 4.0] if has_late_lines else [7.0, 2.0, 3.0])
    assert store.latest(SLOT, CHECKED) == {"worker-0": {"copy_gbs": 7.0}}
    log = JournalReader(RunFolder(SLOT).log("worker-0"), "worker-0").read()
    assert [event.text for event in log if isinstance(event, LogEvent)][1:-1] == ["speed=1"]
    assert [event.time for event in log] == [at(10), at(11), at(20)]
    assert isinstance(log[0], LogEvent)


def kept_values(has_late_lines: bool, *events: MetricEvent | str) -> list[float]:
    """The values of the slot in an ended job with these; "began" and "ended" are its marks."""
    store, end = Store(), log_of_job()
    job = record(JOB, JobState.SUCCEEDED)
    store.add(job)
    marks = {
        "began": metric(10, SLOT_MARK, end.began["worker-0"].value),
        "ended": metric(20, SLOT_MARK, end.ended["worker-0"].value),
    }
    store.add_metrics(JOB, [marks[e] if isinstance(e, str) else e for e in events])
    assert keep_slot(store, job, record(SLOT, JobState.QUEUED), end, 9, has_late_lines)
    return [event.value for _, event in store.metrics(SLOT)]


@pytest.mark.parametrize("has_late_lines", [False, True])
def test_values_of_other_slots_at_the_time_of_a_mark(has_late_lines: bool) -> None:
    """A log that is read in blocks has one time for all lines of a block, those of CloudWatch have
    milliseconds: the lines of several slots can have one time.
    """
    values = kept_values(
        has_late_lines,
        metric(9, SLOT_MARK, 0.1),
        metric(9, "speed", 1.0),
        metric(10, "speed", 1.0, "worker-0/1"),
        metric(10, SLOT_MARK, 0.2),
        "began",
        metric(10, "speed", 2.0, "worker-0/1"),
        metric(15, "speed", 2.5),
        metric(20, "speed", 3.0),
        metric(10, SLOT_MARK, 0.3, "worker-1"),
        "ended",
        metric(20, SLOT_MARK, 0.4),
        metric(20, "speed", 4.0),
        metric(21, SLOT_MARK, 0.5),
    )
    assert values == [2.0, 2.5, 3.0]


def test_late_values_at_the_time_of_a_mark() -> None:
    """They are the slot's, where no other slot has a mark of that time."""
    values = kept_values(
        True,
        metric(9, SLOT_MARK, 0.1),
        metric(10, "speed", 1.0),
        "began",
        "ended",
        metric(21, SLOT_MARK, 0.2),
        metric(20, "speed", 2.0),
    )
    assert values == [1.0, 2.0]
