"""The causes of a run's paid time, with planted times."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import pytest

from rsctl.findings import JobState, warning
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.goodput import (
    CAUSES,
    NO_STEPS,
    RENUMBERED,
    Breakdown,
    Evidence,
    Interval,
    Span,
    Step,
    Wait,
    break_down,
)
from rsctl.runs.goodput_records import Goodput, goodput_of
from rsctl.runs.store import Fact, RunRecord, Store
from rsctl.runs.stream.events import Attempt, FindingEvent, MetricEvent, StateEvent

EVERYTHING = {
    "new_steps": 8.0,
    "machines": 3.0,
    "data": 2.0,
    "first_step": 4.0,
    "repeated_steps": 2.0,
    "end": 6.0,
}


def at(second: float) -> str:
    return f"2026-01-01T00:00:{second:09.6f}Z"


def steps(first: int, start: int, count: int) -> list[Step]:
    """A step each second."""
    return [Step(start + i, first + i) for i in range(count)]


def running(*times: tuple[int, int]) -> list[Span]:
    """Starts of a program, with a wait for machines between them."""
    spans: list[Span] = []
    for attempt, (start, end) in enumerate(times, start=1):
        if spans:
            spans.append(Span(spans[-1].end, start, "queue", False, attempt))
        spans.append(Span(start, end, None, True, attempt))
    return spans


def test_each_second_of_a_start_has_one_cause() -> None:
    """Copies, checkpoints, a stall and waits take their time from what they interrupt."""
    spans = [Span(0, 5, "queue", False), Span(5, 8, "machines", True), Span(8, 40, None, True)]
    evidence = Evidence(
        steps=[*steps(1, 14, 11), *steps(12, 32, 4)],
        stalls=[Interval(26, 30)],
        copies=[Interval(9, 11)],
        checkpoints=[Interval(20, 22)],
        waits=[Wait(18, 0.0), Wait(35, 0.0)],
    )
    assert break_down(spans, evidence) == Breakdown(
        paid={
            "new_steps": 12,
            "machines": 3,
            "data": 2,
            "first_step": 4,
            "checkpoints": 2,
            "stalls": 7,
            "end": 5,
        },
        unpaid={"queue": 5},
        unknown=None,
    )


@pytest.mark.parametrize(
    ("first", "repeated", "new"),
    [(6, 5, 4), (1, 9, 0), (10, 1, 8), (11, 0, 9), (50, 0, 9)],
)
def test_steps_up_to_the_highest_of_earlier_starts_are_repeated(
    first: int, repeated: int, new: int
) -> None:
    """The first start has reached step 11; the second reports ten steps from `first` on."""
    evidence = Evidence(steps=[*steps(1, 10, 11), *steps(first, 40, 10)])
    found = break_down(running((0, 25), (30, 60)), evidence)
    expected = {"new_steps": 10 + new, "first_step": 20, "repeated_steps": repeated, "end": 16}
    assert found.paid == {cause: time for cause, time in expected.items() if time}
    assert found.unpaid == {"queue": 5}


def test_a_report_of_several_steps_is_divided() -> None:
    """Of steps 21 to 30 five are repeated."""
    evidence = Evidence(steps=[Step(10, 0), Step(35, 25), Step(60, 20), Step(80, 30)])
    found = break_down(running((0, 40), (50, 80)), evidence)
    assert found.paid == {"new_steps": 35, "first_step": 20, "repeated_steps": 10, "end": 5}


def test_a_start_without_a_step_has_not_reached_its_first_one() -> None:
    """As long as another start has one."""
    found = break_down(running((0, 40), (50, 80)), Evidence(steps=steps(1, 60, 11)))
    assert found.paid == {"new_steps": 10, "first_step": 50, "end": 10}


def test_a_restart_in_place_is_none_of_the_steps() -> None:
    """What the failure took is an end, what comes after it the first step."""
    evidence = Evidence(steps=[*steps(1, 10, 11), *steps(6, 35, 11)], restarts=[24])
    found = break_down(running((0, 50)), evidence)
    assert found.paid == {"new_steps": 15, "first_step": 21, "repeated_steps": 5, "end": 9}


def test_numbers_that_begin_again_in_each_epoch_are_new_steps() -> None:
    """If the job has never started again. Otherwise nobody knows."""
    epochs = [*steps(1, 10, 5), *steps(1, 15, 5)]
    found = break_down(running((0, 20)), Evidence(steps=epochs))
    assert found == Breakdown({"new_steps": 9, "first_step": 10, "end": 1}, {}, None)
    found = break_down(running((0, 20), (30, 60)), Evidence(steps=[*epochs, *steps(1, 40, 5)]))
    assert found.paid == {"new_steps": 9, "first_step": 20, "end": 17, "unknown": 4}
    assert found.unknown == RENUMBERED


def test_without_steps_the_time_of_the_program_is_unknown() -> None:
    assert break_down(running((0, 20)), Evidence()) == Breakdown({"unknown": 20}, {}, NO_STEPS)


def test_a_wait_for_a_straggler_is_a_part_of_each_new_step() -> None:
    """By the report that follows, otherwise by the last one."""
    evidence = Evidence(steps=[Step(0, 0), Step(100, 1), Step(200, 2), Step(300, 3)])
    evidence = evidence._replace(waits=[Wait(150, 0.25), Wait(250, 0.1)])
    found = break_down(running((0, 300)), evidence)
    assert found.paid == {"new_steps": 247, "stragglers": 53}


def test_a_stall_begins_one_usual_step_after_the_last_step() -> None:
    """It ends with the next step, or with the job; before the first step it began by its limit."""
    evidence = Evidence(steps=steps(1, 10, 5), stalls=[Interval(20, 30)])
    found = break_down(running((0, 50)), evidence)
    assert found.paid == {"new_steps": 4, "first_step": 10, "stalls": 35, "end": 1}
    evidence = Evidence(steps=steps(1, 40, 5), stalls=[Interval(20, 30)])
    found = break_down(running((0, 50)), evidence)
    assert found.paid == {"new_steps": 4, "first_step": 20, "stalls": 20, "end": 6}


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_add_up_to_the_whole(seed: int) -> None:
    """Whatever is recorded, in whichever order and however wrong its times are."""
    pick = random.Random(seed)
    ends = list(accumulate(pick.randint(0, 400) for _ in range(8)))
    spans = [
        Span(start, end, pick.choice([None, None, "queue", "machines", "image"]), start % 3 > 0, i)
        for i, (start, end) in enumerate(pairwise([0, *ends]))
    ]

    def some(count: int) -> list[int]:
        return [pick.randint(-50, ends[-1] + 50) for _ in range(pick.randint(0, count))]

    def intervals() -> list[Interval]:
        return [Interval(time, time + pick.randint(-10, 90)) for time in some(4)]

    evidence = Evidence(
        steps=[Step(time, pick.randint(-3, 60)) for time in some(60)],
        restarts=some(3),
        stalls=intervals(),
        copies=intervals(),
        checkpoints=intervals(),
        waits=[Wait(time, pick.random()) for time in sorted(some(5))],
    )
    found = break_down(spans, evidence)
    for parts, is_paid in ((found.paid, True), (found.unpaid, False)):
        assert sum(parts.values()) == sum(s.end - s.start for s in spans if s.paid is is_paid)
        assert set(parts) <= set(CAUSES)
        assert all(time > 0 for time in parts.values())


class Recorded:
    """A run whose records a test plants."""

    def __init__(self, run: str = "job-a", target: str = "process", **about: Any) -> None:
        self.run, self.store = run, Store()
        self.folder = RunFolder(run)
        self.store.add(
            RunRecord(
                **{
                    "run": run,
                    "name": "job",
                    "target": target,
                    "url": f"{target}://{run}",
                    "state": JobState.QUEUED,
                    "created": at(0),
                    **about,
                }
            )
        )
        self.folder.create(
            RunDescription(run=run, target=target, request={}, replicas=["worker-0"], stall=4)
        )

    def state(
        self, second: float, state: str, attempt: int = 1, replica: str | None = None
    ) -> None:
        event = StateEvent(time=at(second), state=JobState(state), attempt=attempt, replica=replica)
        self.event(event)
        self.store.record(self.run, event)

    def event(self, event: StateEvent | FindingEvent) -> None:
        with self.folder.states.open("ab") as file:
            file.write(msgspec.json.encode(event) + b"\n")

    def attempt(self, number: int, second: float) -> None:
        self.store.record_attempt(self.run, Attempt(attempt=number, ended=at(second)))

    def steps(self, first: int, second: float, count: int, each: float = 1.0) -> None:
        self.values("loss", {second + each * i: 0.5 for i in range(count)}, first)

    def values(
        self, name: str, values: dict[float, float], step: int | None = None, replica: str = ""
    ) -> None:
        numbers = range(step, step + len(values)) if step is not None else [None] * len(values)
        self.store.add_metrics(
            self.run,
            [
                MetricEvent(
                    time=at(second), replica=replica or "worker-0", name=name, value=value, step=n
                )
                for (second, value), n in zip(values.items(), numbers, strict=True)
            ],
        )

    def goodput(self) -> Goodput:
        record = self.store.get(self.run)
        assert record is not None
        return goodput_of(self.store, record)


def seconds(found: Goodput) -> dict[str, float]:
    return {cause: part.seconds for cause, part in found.parts.items()}


def test_a_run_on_this_machine_that_was_started_twice() -> None:
    """All time from its start on counts; it costs nothing."""
    run = Recorded()
    run.state(1, "starting")
    run.state(3, "running")
    run.values("input.train.seconds", {6: 2.0})
    run.steps(1, 8, 6)
    run.attempt(1, 15)
    run.state(15, "starting", 2)
    run.state(16, "running", 2)
    run.steps(4, 17, 6)
    run.state(26, "succeeded", 2)
    found = run.goodput()
    assert seconds(found) == {**EVERYTHING, "end": 6.0}
    assert found.unpaid == {"queue": 1.0}
    assert (found.seconds, found.dollars, found.unknown) == (25.0, None, None)
    assert found.share == 8 / 25


PRICED = {
    "plan": {
        "pools": [],
        "cost": {"per_hour": 36.0, "most": 100.0, "seconds": 3600.0, "spot": False},
    }
}


def test_vertex_is_paid_while_it_runs_and_tells_the_time_of_its_first_run_only() -> None:
    """The wait for machines after a preemption is not billed; the cost says so too."""
    run = Recorded(target="vertex", **PRICED)
    run.state(4, "starting")
    run.state(10, "running")
    run.steps(1, 12, 9)
    run.attempt(1, 22)
    run.state(22, "starting", 2)
    run.state(30, "running", 2, "worker-0")
    run.state(10, "running", 2)
    run.steps(5, 32, 9)
    run.state(44, "succeeded", 2)
    found = run.goodput()
    assert seconds(found) == {
        "new_steps": 12.0,
        "first_step": 4.0,
        "repeated_steps": 4.0,
        "end": 6.0,
    }
    assert found.unpaid == {"queue": 4.0, "machines": 14.0}
    assert (found.seconds, found.share) == (26.0, 12 / 26)
    assert found.dollars == pytest.approx(0.26)
    assert found.parts["repeated_steps"].dollars == pytest.approx(0.04)


def phase(second: float, cause: str | None, billed: bool) -> dict[str, Any]:
    return {"phase": "X", "seconds": 0.0, "start": at(second), "cause": cause, "billed": billed}


def test_phases_that_a_cloud_reports_count_instead_of_states() -> None:
    """SageMaker bills downloads. The seconds that it bills are more than those that rsctl saw."""
    run = Recorded(target="sagemaker", **PRICED)
    run.state(2, "starting")
    run.state(20, "running")
    run.steps(1, 22, 9)
    run.state(40, "succeeded")
    phases = [
        *(phase(0, "queue", False), phase(2, "machines", False), phase(6, "data", True)),
        *(phase(9, "image", True), phase(20, None, True), phase(36, "end", True)),
    ]
    facts = [Fact("phases", "", phases), Fact("billable_seconds", "44 s", 44)]
    run.store.keep(run.run, [], b"{}", facts)
    found = run.goodput()
    assert seconds(found) == {
        **{"new_steps": 8.0, "image": 11.0, "data": 3.0},
        **{"first_step": 2.0, "end": 10.0, "unknown": 10.0},
    }
    assert found.unpaid == {"queue": 2.0, "machines": 4.0}
    assert found.unknown == "rsctl has not observed all of the time that is billed"
    assert (found.share, found.dollars) == (8 / 44, pytest.approx(0.44))


def test_stalls_checkpoints_and_stragglers_of_a_run() -> None:
    """By findings, and by metrics of the chief and of the nodes."""
    run = Recorded()
    run.state(0, "running")
    run.steps(1, 2, 11)
    run.values("checkpoint.seconds", {6: 1.0})
    run.values("node.checkpoint.seconds", {5: 1.0})
    run.values("checkpoint.seconds", {6: 3.0}, replica="worker-1")
    run.event(FindingEvent(time=at(18), finding=warning("stall", "no progress")))
    for rank, wait in ((0, 10.0), (1, 30.0), (2, 30.0)):
        run.values(f"node.rank{rank}.step_ms", {12: 100.0}, replica=f"worker-{rank}")
        run.values(f"node.rank{rank}.wait_ms", {12: wait}, replica=f"worker-{rank}")
    run.state(30, "cancelling")
    run.state(31, "cancelled")
    assert seconds(run.goodput()) == {
        **{"new_steps": 6.4, "first_step": 2.0, "checkpoints": 2.0, "stragglers": 1.6},
        **{"stalls": 17.0, "end": 2.0},
    }


@pytest.mark.parametrize(
    ("state", "parts", "unknown"),
    [("running", {"unknown": 9.0}, NO_STEPS), ("queued", {}, "it has not run")],
)
def test_what_cannot_be_known_has_a_reason_and_no_share(
    state: str, parts: dict[str, float], unknown: str
) -> None:
    run = Recorded()
    run.state(1, state)
    run.state(10, "failed")
    found = run.goodput()
    assert (seconds(found), found.share, found.unknown) == (parts, None, unknown)


def test_a_run_without_a_folder_has_the_times_of_its_record() -> None:
    run = Recorded()
    run.state(4, "running")
    run.steps(1, 6, 3)
    run.state(10, "succeeded")
    run.folder.states.unlink()
    assert seconds(run.goodput()) == {"new_steps": 2.0, "first_step": 2.0, "end": 2.0}
