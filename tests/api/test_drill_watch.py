"""How a drill watches a run and when it strikes, by a run and a clock of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import drill_watch
from rsctl.api.drill_watch import Observation, Point, RunWatch, StrikePlan
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.findings import RESTART_IN_PLACE
from rsctl.runs.stream.events import Event, Failure, FindingEvent, MetricEvent, StateEvent
from rsctl.targets.local.strikes import NotStruck, Strike


def at(second: float) -> str:
    return f"2026-11-21T12:00:{second:09.6f}Z"


def metric(second: float, step: int, name: str = "loss", replica: str = "worker-0") -> MetricEvent:
    return MetricEvent(time=at(second), replica=replica, name=name, value=1.0 / step, step=step)


def state(second: float, attempt: int = 1, replica: str | None = None) -> StateEvent:
    return StateEvent(time=at(second), state=JobState.RUNNING, attempt=attempt, replica=replica)


class WatchedRun:
    """A run that has these events at these times, in seconds."""

    id = "job-1"

    def __init__(self, clock: list[float], *batches: tuple[float, list[Event]]) -> None:
        self.clock, self.batches, self.log = clock, batches, list[str]()
        self.is_rehearsed = False
        self.record = SimpleNamespace(
            state=JobState.FAILED, first_failure=None, reason="why", plan={}
        )

    def locations(self) -> dict[str, str]:
        return {"checkpoints": "/nowhere"}

    def event_batches(self) -> Iterator[list[Event]]:
        for time, events in self.batches:
            self.clock[0] = time
            yield events

    def goodput(self) -> Any:
        return SimpleNamespace(seconds=12.5)

    def request_cancel(self) -> None:
        self.log.append(f"cancel at {self.clock[0]:g}")

    def cancel(self, seconds: float) -> None:
        self.log.append(f"cancel within {seconds:g} s")

    def strike(self, _: object) -> Strike:
        self.log.append(f"strike at {self.clock[0]:g}")
        return Strike("struck it", lambda: self.log.append("undo"), self.finish)

    def finish(self) -> None:
        self.log.append(f"finish at {self.clock[0]:g}")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [0.0]
    monkeypatch.setattr(drill_watch, "monotonic", lambda: time[0])
    monkeypatch.setattr(drill_watch, "now", lambda: at(time[0]))
    return time


def watched(run: WatchedRun, plan: StrikePlan | None = None, **how: Any) -> Observation:
    return RunWatch(run, plan, **how).follow()  # type: ignore[arg-type]


def test_a_run_without_a_fault_is_only_observed(clock: list[float]) -> None:
    run = WatchedRun(
        clock,
        (1, [state(1), metric(1, 1), metric(1, 1, "acc"), metric(1, 1, replica="worker-1")]),
        (2, [metric(2, 2), metric(2, 5, replica="worker-1"), state(2, attempt=2)]),
    )
    run.record.state = JobState.SUCCEEDED
    run.record.plan = {"cost": {"per_hour": 36.0}}
    run.record.reason = None
    assert watched(run) == Observation(
        run="job-1",
        state=JobState.SUCCEEDED,
        exit_code=0,
        points={
            "loss": [Point(at(1), 1, 1.0), Point(at(2), 2, 0.5)],
            "acc": [Point(at(1), 1, 1.0)],
        },
        reached={"worker-0": 2, "worker-1": 5},
        restarts=[at(2)],
        location="/nowhere",
        seconds=12.5,
        per_hour=36.0,
    )
    assert run.log == []


@pytest.mark.parametrize(
    ("lines", "failure"),
    [
        ([], "why"),
        (["first", "  last  ", " "], "why: last"),
        (["x" * 201], f"why: {'x' * 200}"),
    ],
)
def test_a_run_that_fails_says_its_last_line(
    clock: list[float], lines: list[str], failure: str
) -> None:
    run = WatchedRun(clock)
    run.record.first_failure = Failure(replica="w", time=at(1), exit_code=1, lines=lines)
    seen = watched(run)
    assert (seen.failure, seen.exit_code, seen.per_hour) == (failure, 1, None)


def test_a_strike_comes_at_its_step_and_is_finished_after_the_notice(clock: list[float]) -> None:
    run = WatchedRun(
        clock,
        (1, [metric(1, 4)]),
        (2, [metric(2, 9, "acc")]),  # another metric's step
        (3, [metric(3, 5, replica="worker-1")]),  # another rank's step
        (4, [metric(4, 6)]),
        (5, [metric(5, 7)]),
        (33.5, []),
        (34, []),
        (99, []),
    )
    seen = watched(run, StrikePlan(5, run.strike, notice=30.0), metric="loss")
    assert run.log == ["strike at 4", "finish at 34"]
    assert (seen.struck_at, seen.strike_time, seen.strike) == (6, at(4), "struck it")
    assert (seen.not_struck, seen.restarts, seen.hung) == ("", [], None)


def test_what_restarts_after_the_strike_is_not_finished(clock: list[float]) -> None:
    restart = Finding(code=RESTART_IN_PLACE, severity="note", message="again")
    other = Finding(code="other", severity="note", message="x")
    run = WatchedRun(
        clock,
        (1, [state(1, attempt=2), metric(1, 5)]),
        (2, [state(0.5, attempt=2)]),  # a cloud reports its first start again
        (3, [state(3, attempt=2), state(3, attempt=2, replica="worker-1"), state(4)]),
        (5, [FindingEvent(time=at(5), finding=restart), FindingEvent(time=at(6), finding=other)]),
        (32, []),
    )
    seen = watched(run, StrikePlan(5, run.strike, notice=30.0))
    assert (seen.restarts, run.log) == ([at(3), at(5)], ["strike at 1"])


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([], "the run ended at no step, before step 5"),
        ([3, 4], "the run ended at step 4, before step 5"),
    ],
)
def test_a_run_that_ends_before_the_strike(
    clock: list[float], steps: list[int], reason: str
) -> None:
    run = WatchedRun(clock, (1, [metric(1, step) for step in steps]))
    assert watched(run, StrikePlan(5, run.strike)).not_struck == reason


def test_a_strike_that_is_not_possible_is_not_tried_again(clock: list[float]) -> None:
    run = WatchedRun(clock, (1, [metric(1, 5)]), (2, [metric(2, 6)]))
    tries: list[object] = []

    def strike(given: object) -> Strike:
        tries.append(given)
        raise NotStruck("no node to strike was running")

    seen = watched(run, StrikePlan(5, strike))
    assert (seen.not_struck, seen.struck_at, len(tries)) == (
        "no node to strike was running",
        5,
        1,
    )


@pytest.mark.parametrize(
    ("answers", "asked", "reason"),
    [
        ([True], [1.0], ""),
        ([False, RsctlError(ExitCode.REFUSED, error("x", "it ended")), True], [1.0, 1.5, 2.0], ""),
        ([False] * 9, [1.0, 1.5, 2.0], "the emulator did not have to refuse a machine"),
    ],
)
def test_a_strike_that_takes_effect_later_is_confirmed(
    clock: list[float], answers: list[Any], asked: list[float], reason: str
) -> None:
    times, rest = list[float](), iter(answers)

    def confirm(_: object) -> bool:
        times.append(clock[0])
        if isinstance(answer := next(rest), RsctlError):
            raise answer
        return bool(answer)

    run = WatchedRun(clock, (0.5, [metric(0.5, 5)]), (1.0, []), (1.25, []), (1.5, []), (2.0, []))
    seen = watched(run, StrikePlan(5, run.strike, confirm=confirm))
    assert (times, seen.not_struck) == (asked, reason)


def test_a_run_without_progress_hangs(clock: list[float]) -> None:
    run = WatchedRun(
        clock,
        (1, [metric(1, 5)]),
        (31, []),  # the notice
        (50, [metric(50, 6)]),
        (110, [metric(110, 9, "acc")]),
        (110.5, []),
        (200, []),
    )
    seen = watched(run, StrikePlan(5, run.strike, notice=30.0), metric="loss", patience=60.0)
    assert run.log == ["strike at 1", "finish at 31", "undo", "cancel at 110.5"]
    assert seen.hung == 60.5


@pytest.mark.parametrize("patience", [None, 60.0])
def test_only_with_a_patience_a_run_hangs(clock: list[float], patience: float | None) -> None:
    run = WatchedRun(clock, (1, [metric(1, 5)]), (61, []), (1000, []))
    assert watched(run, patience=patience).hung == (None if patience is None else 999)


def test_an_interruption_leaves_nothing(clock: list[float]) -> None:
    run = WatchedRun(clock, (1, [metric(1, 5)]))
    watch = RunWatch(run, StrikePlan(5, run.strike))  # type: ignore[arg-type]
    watch.follow()
    watch.end()
    assert run.log == ["strike at 1", "undo", "cancel within 300 s"]
