"""How long a command waits for trackers and messages, by a clock that only its waiting moves."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
import pytest

from rsctl.bench.folder import BenchFolder
from rsctl.bench.gate import Gate
from rsctl.bench.verdict import Verdict
from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking import background
from rsctl.results.tracking.cursor import Cursor, CursorFile, lock_path, make_tracking_folder
from rsctl.runs.folder import RunFolder
from rsctl.runs.locks import try_lock
from tests.results.tracking.test_messages import BOARD, HOOK, REMOTE, tracked


class Clock:
    """Moves when something sleeps; at the second `due` it calls `happen`."""

    def __init__(self) -> None:
        self.second = 0.0
        self.due = 3.0
        self.happen: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.second

    def sleep(self, seconds: float) -> None:
        before, self.second = self.second, self.second + seconds
        assert seconds <= 0.05, "what has happened is noticed late"
        assert self.second < 100, "waits forever"
        if before < self.due <= self.second:
            self.happen()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(background, "monotonic", made.monotonic)
    monkeypatch.setattr(background, "sleep", made.sleep)
    return made


def waited(clock: Clock, seconds: float) -> bool:
    return seconds <= clock.second + 1e-9 < seconds + 0.15


@pytest.mark.parametrize(("is_sent", "released", "seconds"), [
    (False, None, 0), (True, 3.0, 3), (True, None, 20)
])  # fmt: skip
def test_another_process_that_sends_is_awaited_unless_it_is_stuck(
    clock: Clock, is_sent: bool, released: float | None, seconds: float
) -> None:
    RunFolder("job-a").path.mkdir(parents=True)
    make_tracking_folder("job-a")
    lock = try_lock(lock_path("job-a"))
    assert lock is not None
    if not is_sent:
        os.close(lock)
    elif released is not None:
        clock.happen = lambda: os.close(lock)
    background.wait_for_others("job-a")
    assert waited(clock, seconds)
    if is_sent and released is None:
        os.close(lock)


SENDING = "data is still being sent to mlflow https://x in the background"


@pytest.mark.parametrize(
    ("tracker", "cursor", "later", "seconds", "lines"),
    [
        (REMOTE, Cursor(is_complete=True), None, 0, []),
        (REMOTE, Cursor(), None, 10, [SENDING]),
        (REMOTE, Cursor(), Cursor(is_complete=True), 3, []),
        (
            BOARD,
            Cursor(),
            Cursor(problem="down"),
            3,
            [
                "tensorboard tb has not received all data: down"
                "   to send the rest later: rsctl track job-a"
            ],
        ),
        (HOOK, Cursor(), None, 1, ["a message is still being sent to ${HOOK} in the background"]),
        (
            HOOK,
            Cursor(problem="not set"),
            None,
            0,
            ["notify ${HOOK}: not set   to try again: rsctl track job-a"],
        ),
    ],
)
def test_the_end_of_a_run_waits_for_data_longer_than_for_messages(
    clock: Clock,
    tracker: PlannedTracker,
    cursor: Cursor,
    later: Cursor | None,
    seconds: float,
    lines: list[str],
) -> None:
    run = tracked(JobState.FAILED, tracker, cursor)
    if later is not None:
        clock.happen = lambda: CursorFile("job-a", 0).write(later)
    assert background.wait(run, 10) == lines
    assert waited(clock, seconds)
    assert background.new_problems(run) == []  # it has shown them


def test_a_message_about_the_end_is_due_after_the_end() -> None:
    assert background.missing_lines(tracked(JobState.RUNNING, HOOK, Cursor())) == []


def test_the_data_of_a_rehearsal_is_not_awaited(clock: Clock) -> None:
    run = tracked(JobState.FAILED, REMOTE, Cursor())
    (RunFolder("job-a").path / "rehearsal.json").write_text("{}")
    line = "data of a rehearsal is not sent to mlflow https://x"
    assert (background.wait(run, 10), clock.second) == ([line], 0)


@pytest.mark.parametrize(
    ("messages", "later", "seconds", "lines"),
    [
        (None, None, 1, []),
        ({"${HOOK} a": "sent"}, None, 0, []),
        ({"${HOOK} a": "sent", "${PAGER} a": "sending"}, None, 1, []),
        (None, {"${HOOK} a": "failed: HTTP: 500"}, 0.5, ["no message to ${HOOK}: HTTP: 500"]),
        ({"${HOOK} a.json": "due: not set"}, None, 0, ["no message to ${HOOK}: not set"]),
    ],
)
def test_a_gate_waits_a_second_for_its_messages_and_names_those_that_were_not_sent(
    clock: Clock,
    messages: dict[str, str] | None,
    later: dict[str, str] | None,
    seconds: float,
    lines: list[str],
) -> None:
    folder = BenchFolder("bench-a").path
    folder.mkdir(parents=True)
    clock.due = 0.5

    def keep(subject: str, found: dict[str, str] | None) -> None:
        if found is not None:
            (folder / f"notified-{subject}.json").write_bytes(msgspec.json.encode(found))

    keep("regressed", messages)
    keep("end", {"${HOOK} failed 2": "failed: refused"})  # it has lines of its own
    clock.happen = lambda: keep("regressed", later)
    assert background.wait_regressed("bench-a") == lines
    assert waited(clock, seconds)
    assert background.unsent_ends("bench-a") == ["no message to ${HOOK}: refused"]


@pytest.mark.parametrize(
    ("verdict", "event", "is_told"),
    [
        (Verdict.REGRESSED, "regressed", True),
        (Verdict.REGRESSED, "failed", False),
        (Verdict.PASS, "regressed", False),
    ],
)
def test_only_a_regression_is_told_and_only_where_the_job_wants_it(
    verdict: Verdict, event: str, is_told: bool
) -> None:
    gate = Gate(verdict=verdict, exit_code=0, baseline="b", candidate="bench-a", checks=[])
    spec = {"notify": [{"url": "${HOOK}", "on": [event]}]}
    background.start_regressed(gate, spec)  # without a folder the gate does not fail
    folder = BenchFolder("bench-a").path
    folder.mkdir(parents=True)
    background.start_regressed(gate, spec)
    assert [each.name for each in folder.iterdir()] == (["tracking.log"] if is_told else [])
