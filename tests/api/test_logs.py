"""Which lines of a log are shown."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.api import events, logs
from rsctl.api.logs import LogFilter, chosen_replicas, log_batches
from rsctl.api.run_handle import Run
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure, LogEvent, StateEvent

from .recorded import add, at, refused


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (LogFilter(), None),
        (LogFilter(role="worker"), ["worker-0", "worker-1"]),
        (LogFilter(role="ps"), ["ps-0"]),
        (LogFilter(role="reducer"), []),
        (LogFilter(replicas=("worker-1", "ps-0")), ["worker-1", "ps-0"]),
        (LogFilter(replicas=("worker-1/3",)), ["worker-1"]),
        (LogFilter(role="worker", replicas=("worker-1", "ps-0")), ["worker-1"]),
        (LogFilter(failed=True), ["worker-1"]),
        (LogFilter(failed=True, replicas=("worker-0",)), []),
    ],
)
def test_the_replicas_whose_lines_are_shown(chosen: LogFilter, expected: list[str] | None) -> None:
    add()
    Store().record_failure("job-1", Failure(replica="worker-1", time=at(2), exit_code=1))
    assert chosen_replicas(Store().find("job-1"), chosen) == expected


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            LogFilter(replicas=("worker-0", "worker-9")),
            "job-1 has no replica 'worker-9' -> it has worker-0, worker-1, ps-0",
        ),
        (LogFilter(role="eval"), "job-1 has no role 'eval' -> it has worker, ps"),
        (LogFilter(grep="("), "'(' is not a valid regular expression: "),
    ],
)
def test_replicas_that_the_run_does_not_have(chosen: LogFilter, message: str) -> None:
    run = add()
    with pytest.raises(RsctlError) as caught:
        list(log_batches(run, chosen, None, False))
    assert caught.value.exit_code == ExitCode.USAGE
    assert refused(caught.value).startswith(message)
    assert caught.value.findings[0].code == ("grep" if chosen.grep else "replica")


class Target:
    """Has a log of numbered lines, of two replicas in turn; the cursor is the next line."""

    def __init__(self, count: int) -> None:
        self.lines = [
            LogEvent(
                at(n % 60), f"worker-{n % 2}", str(n), "stdout", f"line {n}", f"worker-{n % 2}/1"
            )
            for n in range(count)
        ]
        self.tails: list[int] = []

    def tail(self, run: str, lines: int) -> dict[str, int]:
        self.tails.append(lines)
        return {"n": max(0, len(self.lines) - lines)}

    def events(self, run: str, cursor: dict[str, int], follow: bool) -> Any:
        since, cursor["n"] = cursor.get("n", 0), len(self.lines)
        yield [*self.lines[since:], StateEvent(time=at(1), state=JobState.RUNNING)]
        if follow:
            yield [LogEvent(at(59), "worker-0", "x", "stdout", "line new", "worker-0/0")]


def shown(
    monkeypatch: pytest.MonkeyPatch, chosen: LogFilter, tail: int | None, follow: bool = False
) -> list[str]:
    monkeypatch.setattr(logs, "get", lambda _: Target(40))
    run = add()
    return [line.text for lines in log_batches(run, chosen, tail, follow) for line in lines]


@pytest.mark.parametrize(
    ("chosen", "tail", "expected"),
    [
        (LogFilter(grep=r"line 3\d"), None, [f"line {n}" for n in range(30, 40)]),
        (LogFilter(replicas=("worker-1",)), 2, ["line 37", "line 39"]),
        (LogFilter(replicas=("worker-1/1",)), 1, ["line 39"]),
        (LogFilter(replicas=("worker-1/0",)), 1, []),
        (LogFilter(since=at(38)), None, ["line 38", "line 39"]),
        (LogFilter(), 0, []),
        (LogFilter(), 3, ["line 37", "line 38", "line 39"]),
        (LogFilter(grep="line 1$"), 5, ["line 1"]),
        (LogFilter(tail_of=lambda line: line.text.endswith("5")), 2, ["line 25", "line 35"]),
    ],
)
def test_the_lines_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, chosen: LogFilter, tail: int | None, expected: list[str]
) -> None:
    assert shown(monkeypatch, chosen, tail) == expected


@pytest.mark.parametrize(("regex", "found"), [("ed on$", 1), (r"r\x1b\[0m", 1), ("r d on", 0)])
def test_a_line_is_searched_as_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, regex: str, found: int
) -> None:
    coloured = LogEvent(at(0), "worker-0", "0", "stdout", "\x1b[31mr\x1b[0med on", "worker-0/0")
    target = Target(0)
    target.lines = [coloured]
    monkeypatch.setattr(logs, "get", lambda _: target)
    assert sum(map(len, log_batches(add(), LogFilter(grep=regex), None, False))) == found


def test_events_begin_with_the_last_lines_of_each_replica_that_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log is searched backwards until each replica has so many lines of the kind."""
    target = Target(40)
    monkeypatch.setattr(events, "get", lambda _: target)
    run = Run(add())

    def shown(tail: int | None, *ends: str) -> list[str]:
        batches = run.event_batches(tail, (lambda line: line.text.endswith(ends)) if ends else None)
        found = (event for batch in batches for event in batch if isinstance(event, LogEvent))
        return [line.text.removeprefix("line ") for line in found]

    numbers = [str(number) for number in range(40)]
    assert shown(None) == [*numbers, "new"]
    assert shown(0) == shown(0, "4", "5") == ["new"]
    assert shown(3) == [*numbers[37:], "new"]
    assert shown(1, "4", "5") == [*numbers[34:], "new"]
    assert shown(2, "4", "5") == [*numbers[24:], "new"]
    assert shown(9, "4", "5") == [*numbers[4:], "new"]
    assert target.tails == [0, 0, 3, 1, 8, 2, 16, 9, 72]


def test_the_last_lines_are_followed_by_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, LogFilter(), 1, follow=True) == ["line 39", "line new"]
