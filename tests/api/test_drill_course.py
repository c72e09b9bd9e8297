"""How a drill watches, strikes and reports, with runs and a clock of the test's own."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.api import drill, drill_strike, drill_watch
from rsctl.api.drill import Drill, PreparedDrill
from rsctl.api.drill_checkpoint import CheckpointFiles
from rsctl.api.drill_faults import FAULTS, Situation
from rsctl.api.drill_reference import make_reference, step_to_strike
from rsctl.api.drill_report import HEAD, fault_row, summary, write_junit
from rsctl.api.drill_verdict import Curve, FaultResult, Reference
from rsctl.api.drill_watch import Observation, Point, RunWatch, StrikePlan
from rsctl.bench.formats.junit import NOT_YET
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.findings import RESTART_IN_PLACE
from rsctl.runs.stream.events import Event, Failure, FindingEvent, MetricEvent, StateEvent
from rsctl.targets.local.strikes import NotStruck, Strike

BY_NAME = {fault.name: fault for fault in FAULTS}
LOCAL = Situation(target="process", in_containers=False, has_reducers=True, is_spot=False)
VERTEX = LOCAL._replace(target="vertex", behaviours=frozenset({"stockouts"}))
STEPS = "let the script report it: log_metrics(step=..., loss=...), see docs/guides/metrics.md"


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


def observed(values: dict[str, list[int]], **fields: Any) -> Observation:
    points = {
        name: [Point(at(step), step, 1.0 / step) for step in steps]
        for name, steps in values.items()
    }
    known = {"state": JobState.SUCCEEDED, "seconds": 20.0}
    return Observation(run="job-0", points=points, **{**known, **fields})


def job(**goals: str) -> Any:
    metrics = {name: SimpleNamespace(goal=goal) for name, goal in goals.items()}
    return SimpleNamespace(metrics=metrics)


ENOUGH = [1, 2, 3]


@pytest.mark.parametrize(
    ("metrics", "goals", "named", "chosen"),
    [
        (["acc", "loss", "val_loss"], {}, None, "loss"),
        (["acc", "val_Loss"], {"acc": "min"}, None, "val_Loss"),
        (["acc", "err"], {"acc": "max", "err": "min"}, None, "err"),
        (["acc", "loss"], {}, "acc", "acc"),
    ],
)
def test_the_metric_of_a_drill(
    metrics: list[str], goals: dict[str, str], named: str | None, chosen: str
) -> None:
    seen = observed(dict.fromkeys(metrics, ENOUGH), reached={"worker-1": 3}, first_saved=2)
    assert make_reference(seen, job(**goals), named) == Reference(
        run="job-0",
        metric=chosen,
        values={1: 1.0, 2: 0.5, 3: 1 / 3},
        seconds=20.0,
        first_saved=2,
        reached={"worker-1": 3},
    )


@pytest.mark.parametrize(
    ("metrics", "named", "message", "remedy"),
    [
        ({}, None, "no metric at 3 or more steps, and a drill compares the loss", STEPS),
        (
            {"loss": [1, 1, 2]},
            None,
            "no metric at 3 or more steps, and a drill compares the loss",
            STEPS,
        ),
        (
            {"acc": ENOUGH, "lr": ENOUGH},
            None,
            "only acc, lr at 3 or more steps, and a drill compares the loss",
            "name one: --metric NAME",
        ),
        ({"loss": ENOUGH}, "acc", "the steps of loss, and not of acc", STEPS),
        ({"loss": [1]}, "loss", "no metric with steps, and not of loss", STEPS),
    ],
)
def test_a_run_that_cannot_be_compared(
    metrics: dict[str, list[int]], named: str | None, message: str, remedy: str
) -> None:
    with pytest.raises(RsctlError) as refused:
        make_reference(observed(metrics), job(), named)
    code = "metric"
    assert refused.value.findings == (error(code, f"job-0 has {message}", remedy),)
    assert refused.value.exit_code is ExitCode.USAGE


def test_a_job_that_fails_without_a_fault() -> None:
    with pytest.raises(RsctlError) as refused:
        make_reference(observed({}, state=JobState.FAILED, failure="exit code 1"), job(), None)
    message = "the run without a fault failed: exit code 1"
    remedy = "repair the job first: rsctl logs job-0 --failed"
    assert refused.value.findings == (error("drill", message, remedy),)
    assert refused.value.exit_code is ExitCode.JOB_FAILED


def test_until_when_checkpoints_were_saved() -> None:
    second = 1795262402.5  # between the second and the third step
    files = CheckpointFiles(files=1, newest=second)
    seen = observed({"loss": ENOUGH}, files=files)
    assert make_reference(seen, job(), None).saves_until == 2
    none = observed({"loss": ENOUGH}, files=replace(files, files=0))
    assert make_reference(none, job(), None).saves_until is None


@pytest.mark.parametrize(
    ("count", "first_saved", "wanted", "step"),
    [
        (20, None, None, 11),
        (20, 2, None, 11),
        (20, 11, None, 12),
        (20, 15, None, 16),
        (20, 19, None, 19),
        (20, 20, None, 11),
        (3, None, None, 2),
        (20, None, 3, 3),
        (20, None, 19, 19),
    ],
)
def test_the_step_to_strike_at(
    count: int, first_saved: int | None, wanted: int | None, step: int
) -> None:
    values = dict.fromkeys(range(1, count + 1), 1.0)
    reference = Reference(
        run="r", metric="loss", values=values, seconds=1.0, first_saved=first_saved
    )
    assert step_to_strike(reference, wanted) == step
    with pytest.raises(RsctlError) as refused:
        step_to_strike(reference, count)
    finding = error("at-step", f"the job ends at step {count}", "strike earlier")
    assert (refused.value.exit_code, refused.value.findings) == (ExitCode.USAGE, (finding,))


class Node:
    """A node that notes how it is struck."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def __getattr__(self, how: str) -> Callable[[], Strike]:
        def strike() -> Strike:
            self.log.append(f"{how} {self.name}")
            undo, finish = (
                lambda: self.log.append(f"undo {self.name}"),
                lambda: self.log.append(f"finish {self.name}"),
            )
            return Strike(f"it struck {self.name}", undo, finish)

        return strike


@pytest.mark.parametrize(
    ("fault", "situation", "struck"),
    [
        ("preemption", LOCAL, ["kill worker-2"]),
        ("killed-worker", LOCAL, ["kill_ranks worker-2"]),
        ("killed-reducer", LOCAL, ["kill reducer-1"]),
        ("killed-reducer", VERTEX, ["kill_reducer reducer-1"]),
        ("stopped-node", LOCAL, ["freeze worker-2"]),
        ("notice-30s", LOCAL, ["ask worker-2"]),
        ("dropped-node", LOCAL, ["cut_off worker-2"]),
        ("full-disk", LOCAL, ["fill_disk worker-0", "fill_disk worker-2"]),
    ],
)
def test_what_a_fault_strikes(
    monkeypatch: pytest.MonkeyPatch, fault: str, situation: Situation, struck: list[str]
) -> None:
    log: list[str] = []
    running = {name: Node(name, log) for name in ("worker-0", "worker-2", "reducer-1")}
    asked: list[object] = []

    def nodes(*given: object) -> dict[str, Node]:
        asked.append(given)
        return running

    monkeypatch.setattr(drill_strike, "nodes_of", nodes)
    replicas = ["worker-0", "worker-1", "worker-2", "reducer-0", "reducer-1"]
    run: Any = SimpleNamespace(id="job-1", replicas=replicas)
    made = drill_strike.strike(BY_NAME[fault], situation, run)
    assert (log, asked) == (struck, [("job-1", False)])
    names = [each.split()[1] for each in struck]
    assert made.text == "; ".join(f"it struck {name}" for name in names)
    del log[:]
    made.finish()
    made.undo()
    assert log == [*(f"finish {name}" for name in names), *(f"undo {name}" for name in names)]
    running.clear()
    with pytest.raises(NotStruck, match="no node to strike was running"):
        drill_strike.strike(BY_NAME[fault], situation, run)


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ("preemption", ["preempt 77"]),
        ("notice-30s", ["preempt 77"]),
        ("stock-out", ["change {'stockouts': 1}", "preempt 77"]),
    ],
)
def test_an_emulated_cloud_takes_the_machine_itself(
    monkeypatch: pytest.MonkeyPatch, fault: str, calls: list[str]
) -> None:
    log: list[str] = []

    class Control:
        def __init__(self, endpoints: str, region: str) -> None:
            assert (endpoints, region) == ("of job-1", "us-east1")

        def preempt(self, job: str) -> None:
            log.append(f"preempt {job}")

        def change(self, behaviour: dict[str, int]) -> None:
            log.append(f"change {behaviour}")

        def behaviour(self) -> dict[str, int]:
            return {"stockouts": len(log)}

    monkeypatch.setattr(drill_strike, "EmulatorControl", Control)
    monkeypatch.setattr(drill_strike, "endpoints_of", lambda run: f"of {run}")
    run: Any = SimpleNamespace(
        id="job-1", record=SimpleNamespace(url="vertex://project/us-east1/77")
    )
    made = drill_strike.strike(BY_NAME[fault], VERTEX, run)
    assert (made.text, log) == ("the emulator of vertex takes a machine away", calls)
    assert not drill_strike.is_out_of_stock(run)
    del log[:]
    assert drill_strike.is_out_of_stock(run)


CURVE = Curve(steps=3, difference=0.25, noise=0.5, step=4)
SURVIVED = FaultResult(
    fault="preemption",
    verdict="survived",
    remarks=["a remark"],
    runs=["job-1", "job-2"],
    struck_at=9,
    course="resumed",
    checkpoint=CheckpointFiles(files=2, checked=2),
    resumed_at=10,
    repeated=0,
    curve=CURVE,
    exit_code=1,
    seconds=12.25,
    seconds_lost=4.25,
    dollars_lost=0.0421,
)
FAILED = FaultResult(
    fault="stopped-node",
    verdict="not-survived",
    reasons=["first", "second"],
    runs=["job-3"],
    curve=replace(CURVE, difference=0.75),
    checkpoint=CheckpointFiles(),
)
NOT_POSSIBLE = FaultResult(fault="stock-out", verdict="not-possible", reasons=["no cloud"])
NOT_STRUCK = FaultResult(
    fault="full-disk",
    verdict="not-struck",
    reasons=["too late"],
    checkpoint=CheckpointFiles(files=1),
    curve=Curve(steps=0, difference=0.0, noise=0.0),
)


@pytest.mark.parametrize(
    ("result", "row"),
    [
        (
            SURVIVED,
            "preemption,survived,resumed,whole,9,10,0,same,1,4.2 s,$0.0421,a remark",
        ),
        (FAILED, "stopped-node,NOT SURVIVED,,none,,,,differs by 0.75,,,,first; second"),
        (NOT_POSSIBLE, "stock-out,not possible,,,,,,,,,,no cloud"),
        (NOT_STRUCK, "full-disk,NOT STRUCK,,present,,,,,,,,too late"),
        (
            replace(NOT_STRUCK, checkpoint=CheckpointFiles(files=1, checked=1, damaged=["a"])),
            "full-disk,NOT STRUCK,,damaged,,,,,,,,too late",
        ),
    ],
)
def test_a_fault_as_a_row(result: FaultResult, row: str) -> None:
    assert list(fault_row(result)) == next(csv.reader([row]))
    assert ",".join(HEAD) == (
        "FAULT,VERDICT,COURSE,CHECKPOINT,STRUCK,RESUMED,REPEATED,CURVE,EXIT,LOST,COST,WHY"
    )


def test_a_drill_in_a_sentence() -> None:
    made = Drill(
        job="job", target="vertex", rehearsed=True, reference="job-0", metric="loss", steps=20,
        struck_at=9, seconds=1.0, faults=[SURVIVED, FAILED, NOT_POSSIBLE, NOT_STRUCK],
    )  # fmt: skip
    after = "survived 1 of 3 faults at step 9, compared with loss of job-0"
    assert summary(made) == f"job on vertex, rehearsed: {after}"
    assert summary(replace(made, rehearsed=False)) == f"job on vertex: {after}"


def test_a_drill_for_ci(tmp_path: Path) -> None:
    results = [SURVIVED, FAILED, NOT_POSSIBLE, NOT_STRUCK]
    names = [*(result.fault for result in results), "dropped-node"]
    write_junit(str(tmp_path / "drill.xml"), "job", names, results)
    [suite] = ElementTree.parse(tmp_path / "drill.xml").getroot()
    assert [(case.get("name"), case.get("time")) for case in suite] == [
        *(("preemption", "12.250"), ("stopped-node", "0.000"), ("stock-out", "0.000")),
        *(("full-disk", "0.000"), ("dropped-node", "0.000")),
    ]
    found = [(kind.tag, kind.get("message"), kind.text) for case in suite for kind in case]
    assert found == [
        ("failure", "first", "first\nsecond\nrun job-3"),
        ("skipped", "no cloud", None),
        ("error", "too late", "too late"),
        ("error", NOT_YET, None),
    ]


class Watches:
    """What a drill prepares and watches, and the observations that it gets in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seen: Observation | Exception) -> None:
        self.seen, self.prepared, self.watched = list(seen), list[Any](), list[Any]()
        self.log: list[str] = []
        monkeypatch.setattr(drill, "prepare", self.prepare)
        monkeypatch.setattr(drill, "RunWatch", self.watch)
        monkeypatch.setattr(drill, "new_run_id", lambda name: f"{name}-{len(self.prepared)}")

    def prepare(self, job: Any, target: str, **how: Any) -> Any:
        self.prepared.append((job, target, how))
        return SimpleNamespace(
            run_id=how["run_id"],
            update_earlier_runs=lambda: None,
            send=lambda: "a run",
            cancel=lambda: None,
        )

    def watch(self, run: str, plan: Any, metric: str | None, patience: float | None) -> Any:
        self.watched.append((run, plan and plan.step, metric, patience))
        return SimpleNamespace(follow=self.follow, end=lambda: self.log.append("end"))

    def follow(self) -> Observation:
        seen = self.seen.pop(0)
        if isinstance(seen, Exception):
            raise seen
        return seen


def prepared_drill(*faults: str, limits: Any = None, **how: Any) -> PreparedDrill:
    limits = limits or SimpleNamespace(on_stall="notify", stall=None)
    made: Any = SimpleNamespace(name="job", limits=limits, metrics={})
    known = {"findings": [], "rehearsal": None, "named": True, "situation": LOCAL}
    return PreparedDrill(
        job=made,
        target="process",
        faults=[BY_NAME[fault] for fault in faults],
        **{**known, **how},
    )


@pytest.fixture(autouse=True)
def _folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drill, "_with_own_folders", lambda job, run: (job, run))


SURVIVOR = observed({"loss": list(range(1, 21))}, struck_at=11, strike_time=at(11.5))
STRUCK = replace(
    observed({"loss": list(range(1, 12))}, struck_at=11, strike_time=at(11.5)),
    run="job-struck",
    state=JobState.FAILED,
    files=CheckpointFiles(files=1, newest=1.0),
)
RESUMED = observed({"loss": list(range(11, 21))})


def test_a_drill_runs_the_reference_each_fault_and_what_continues_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watches = Watches(monkeypatch, observed({"loss": list(range(1, 21))}), STRUCK, RESUMED)
    started, done = list[Any](), list[FaultResult]()
    found = prepared_drill("stock-out", "preemption", named=False).run(
        lambda *run: started.append(run), done.append
    )
    assert started == [("reference", "job-0"), ("preemption", "job-1"), ("resumed", "job-2")]
    assert [(each.fault, each.verdict) for each in done] == [
        ("stock-out", "not-possible"),
        ("preemption", "survived"),
    ]
    assert found == Drill(
        job="job", target="process", rehearsed=False, reference="job-0", metric="loss",
        steps=20, struck_at=11, seconds=20.0, faults=done, exit_code=0,
    )  # fmt: skip
    assert watches.watched == [
        ("a run", None, None, None),
        ("a run", 11, "loss", 120.0),
        ("a run", None, "loss", 120.0),
    ]
    assert [how["resume"] for _, _, how in watches.prepared] == [None, None, "job-struck"]
    assert [isinstance(job, tuple) for job, _, _ in watches.prepared] == [True, True, False]


def test_a_named_fault_that_is_not_possible_is_not_survived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Watches(monkeypatch, observed({"loss": list(range(1, 21))}), STRUCK, RESUMED)
    assert prepared_drill("stock-out", "preemption").run().exit_code == 1
    with pytest.raises(RsctlError) as refused:
        prepared_drill("stock-out", "dropped-node").run()
    message = (
        "no fault is possible: stock-out: target process runs on this machine, which is never "
        "out of stock; dropped-node: nodes that are processes share the network of this machine: "
        "use containers"
    )
    assert refused.value.findings == (error("faults", message),)
    assert refused.value.exit_code is ExitCode.USAGE


def test_what_cannot_be_resumed_is_not_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = RsctlError(ExitCode.USAGE, error("resume", "no checkpoint"))
    Watches(monkeypatch, observed({"loss": list(range(1, 21))}), STRUCK, refusal)
    [result] = prepared_drill("preemption").run().faults
    assert result.verdict == "not-survived"
    assert result.reasons[0] == "it cannot be resumed: no checkpoint"


@pytest.mark.parametrize(
    "seen",
    [
        replace(STRUCK, hung=125.0),
        replace(STRUCK, not_struck="the run ended"),
        replace(SURVIVOR, restarts=[at(15)]),
    ],
)
def test_only_a_run_that_has_failed_is_resumed(
    monkeypatch: pytest.MonkeyPatch, seen: Observation
) -> None:
    watches = Watches(monkeypatch, observed({"loss": list(range(1, 21))}), seen)
    prepared_drill("preemption").run()
    assert len(watches.watched) == 2


@pytest.mark.parametrize(
    ("on_stall", "stall", "given", "patience"),
    [
        ("notify", 600.0, None, 120.0),
        ("cancel", None, None, 120.0),
        ("cancel", 30.0, None, 120.0),
        ("cancel", 600.0, None, 660.0),
        ("cancel", 600.0, 4.0, 4.0),
    ],
)
def test_a_drill_waits_longer_than_the_job_itself(
    monkeypatch: pytest.MonkeyPatch,
    on_stall: str,
    stall: float | None,
    given: float | None,
    patience: float,
) -> None:
    watches = Watches(monkeypatch, observed({"loss": list(range(1, 21))}), SURVIVOR)
    limits = SimpleNamespace(on_stall=on_stall, stall=stall)
    prepared_drill("preemption", limits=limits, patience=given).run()
    assert watches.watched[1][3] == patience


def test_an_interruption_ends_the_run_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    watches = Watches(monkeypatch, RuntimeError("interrupted"))
    with pytest.raises(RuntimeError):
        prepared_drill("preemption").run()
    assert watches.log == ["end"]
