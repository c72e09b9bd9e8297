"""Reading a job's log: when it is asked, what comes of trouble, and how it ends."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from rsctl.findings import RsctlError
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.managed.service import Unreachable

from .fake_logs import Clock, Entry, FakeLogs
from .reading import JOB, UNIFORM, Reader, event_time

STREAM = f"{JOB}/algo-1-1"


def write(logs: FakeLogs, number: int, text: str, ago: float = 0.0, stream: str = STREAM) -> None:
    now = logs.clock.now
    logs.put([Entry(int((now - ago) * 1000), number, stream, text, now)])


def test_a_line(logs: FakeLogs, clock: Clock) -> None:
    clock.now = 1_780_000_000.25
    write(logs, 1, "loss=0.3\n")
    write(logs, 2, "two\nin one\r\n")
    identity = f"{38_000_000_001:056d}"
    moment = "2026-05-28T20:26:40.250000Z"
    assert Reader(clock, UNIFORM).read(0.1) == [
        LogEvent(moment, "worker-0", identity, "stdout", "loss=0.3"),
        LogEvent(moment, "worker-0", f"{38_000_000_002:056d}", "stdout", "two"),
        LogEvent(moment, "worker-0", f"{38_000_000_002:056d}.1", "stdout", "in one\r"),
    ]


def test_other_jobs_are_left_alone(logs: FakeLogs, clock: Clock) -> None:
    write(logs, 1, "mine")
    write(logs, 2, "theirs", stream=f"{JOB}-2/algo-1-1")
    assert Reader(clock, UNIFORM).said(5) == [("worker-0", "mine")]


def test_nothing_is_there_yet(logs: FakeLogs, clock: Clock) -> None:
    """In a new account there is not even the group."""
    logs.group_from = clock.now + 20
    reader = Reader(clock, UNIFORM)
    assert reader.said(20) == []
    write(logs, 1, "at last")
    assert reader.said(6) == [("worker-0", "at last")]
    assert reader.problems == []


def test_a_quiet_log_is_seldom_asked_for(logs: FakeLogs, clock: Clock) -> None:
    reader = Reader(clock, UNIFORM)
    write(logs, 1, "hello")
    reader.read(60)
    logs.requests.clear()
    reader.read(100)
    assert len(logs.requests) <= 11
    write(logs, 2, "soon again")
    reader.read(12)
    logs.requests.clear()
    write(logs, 3, "and again")
    assert reader.said(5) == [("worker-0", "and again")]


def test_pages_are_asked_for_twice_a_second(logs: FakeLogs, clock: Clock) -> None:
    logs.page = 10
    logs.put([Entry(int(clock.now * 1000) - 200 + i, i, STREAM, str(i), 0.0) for i in range(200)])
    reader = Reader(clock, UNIFORM)
    assert len(reader.read(13)) == 200
    first = logs.requests[:20]
    assert all(0.45 < b - a < 0.75 for a, b in pairwise(first))


def test_late_lines_are_found(logs: FakeLogs, clock: Clock) -> None:
    reader = Reader(clock, UNIFORM)
    write(logs, 1, "first")
    reader.read(30)
    write(logs, 2, "four minutes late", ago=240)
    write(logs, 3, "now")
    assert reader.said(12) == [("worker-0", "four minutes late"), ("worker-0", "now")]
    assert reader.said(60) == []


def test_a_clock_that_runs_ahead_hides_nothing(logs: FakeLogs, clock: Clock) -> None:
    reader = Reader(clock, UNIFORM)
    write(logs, 1, "from the future", ago=-3600, stream=f"{JOB}/algo-2-1")
    reader.read(5)
    write(logs, 2, "from the present")
    assert reader.said(12) == [("worker-0", "from the present")]


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalFailure"])
def test_trouble_makes_it_wait(logs: FakeLogs, clock: Clock, code: str) -> None:
    write(logs, 1, "after all")
    logs.refusals = [(0.0, code)] * 5
    reader = Reader(clock, UNIFORM)
    assert reader.said(100) == [("worker-0", "after all")]
    assert [type(problem) for problem in reader.problems] == [Unreachable] * 5
    waits = [b - a for a, b in pairwise(logs.requests[:6])]
    assert all(wait >= 1.0 for wait in waits)
    assert waits[4] > waits[0]


def test_what_is_not_allowed_is_reported(logs: FakeLogs, clock: Clock) -> None:
    logs.refusals = [(0.0, "AccessDeniedException")]
    write(logs, 1, "after all")
    reader = Reader(clock, UNIFORM)
    assert reader.said(5) == [("worker-0", "after all")]
    (problem,) = reader.problems
    assert isinstance(problem, RsctlError)
    assert problem.findings[0].code == "denied"


def test_a_token_that_is_refused_begins_the_pass_anew(logs: FakeLogs, clock: Clock) -> None:
    logs.page = 10
    logs.put([Entry(int(clock.now * 1000) + i, i, STREAM, str(i), 0.0) for i in range(40)])
    logs.refusals = [(clock.now + 1.0, "InvalidParameterException")]
    reader = Reader(clock, UNIFORM)
    assert [text for _, text in reader.said(10)] == [str(i) for i in range(40)]
    assert reader.problems == []


def test_a_token_that_comes_again_is_no_end_yet(logs: FakeLogs, clock: Clock) -> None:
    logs.page = 10
    logs.put([Entry(int(clock.now * 1000) + i, i, STREAM, str(i), 0.0) for i in range(20)])
    logs.stuck = 3
    reader = Reader(clock, UNIFORM)
    reader.log.finish(event_time(clock.now - 400))
    assert [text for _, text in reader.said(60)] == [str(i) for i in range(20)]
    logs.stuck = 10**9
    reader = Reader(clock, UNIFORM)
    reader.log.finish(event_time(clock.now - 400))
    assert len(reader.said(60)) == 10
    assert reader.log.is_complete


def test_a_job_that_has_just_ended_is_read_for_half_a_minute(logs: FakeLogs, clock: Clock) -> None:
    reader = Reader(clock, UNIFORM)
    write(logs, 1, "the end")
    end = clock.now
    reader.read(1)
    reader.log.finish(event_time(end))
    assert reader.read(24) == []
    write(logs, 2, "a last word, late", ago=25)
    assert reader.said(60) == [("worker-0", "a last word, late")]
    assert reader.log.is_complete
    assert 30 <= clock.now - end <= 40
    assert reader.log.read() is None


def test_the_log_of_an_old_job_is_complete_at_once(logs: FakeLogs, clock: Clock) -> None:
    write(logs, 1, "long ago", ago=500)
    reader = Reader(clock, UNIFORM)
    reader.log.finish(event_time(clock.now - 400))
    begun = clock.now
    assert reader.said(60) == [("worker-0", "long ago")]
    assert reader.log.is_complete
    assert clock.now - begun < 3


def test_a_job_that_never_logged_is_complete_too(logs: FakeLogs, clock: Clock) -> None:
    logs.group_from = clock.now + 10_000
    reader = Reader(clock, UNIFORM)
    reader.log.finish(event_time(clock.now))
    assert reader.said(60) == []
    assert reader.log.is_complete


def test_a_reader_goes_on_where_another_ended(logs: FakeLogs, clock: Clock) -> None:
    write(logs, 1, "read", ago=2)
    first = Reader(clock, UNIFORM)
    assert first.said(2) == [("worker-0", "read")]
    write(logs, 2, "late", ago=10)
    write(logs, 3, "new")
    cursor = json.loads(json.dumps(first.log.cursor()))
    second = Reader(clock, UNIFORM, cursor)
    assert second.said(2) == [("worker-0", "late"), ("worker-0", "new")]
    assert second.said(120) == []
