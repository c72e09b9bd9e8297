"""The reference of a drill, what it strikes, and its results as texts."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.api import drill_strike
from rsctl.api.drill import Drill
from rsctl.api.drill_checkpoint import CheckpointFiles
from rsctl.api.drill_curve import Curve
from rsctl.api.drill_faults import FAULTS, Situation
from rsctl.api.drill_reference import make_reference, step_to_strike
from rsctl.api.drill_report import HEAD, fault_row, summary, write_junit
from rsctl.api.drill_verdict import FaultResult, Reference
from rsctl.api.drill_watch import Observation, Point
from rsctl.bench.formats.junit import NOT_YET
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.targets.local.strikes import NotStruck, Strike

BY_NAME = {fault.name: fault for fault in FAULTS}
LOCAL = Situation(target="process", in_containers=False, has_reducers=True, is_spot=False)
VERTEX = LOCAL._replace(target="vertex", behaviours=frozenset({"stockouts"}))
STEPS = "let the script report it: log_metrics(step=..., loss=...), see docs/guides/metrics.md"


def at(second: float) -> str:
    return f"2026-11-21T12:00:{second:09.6f}Z"


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


RENUMBERED = (
    "log a step number that continues over epochs: rsctl cannot tell new steps from repeated ones"
)


def epochs(*steps: int) -> list[Point]:
    return [Point(at(second), step, 1.0) for second, step in enumerate(steps)]


def test_steps_that_begin_again_in_each_epoch_cannot_be_compared() -> None:
    """The verdict was survived though epochs were missing, or nothing continued after a resume."""
    counted = observed({"val_loss": ENOUGH})
    counted.points["loss"] = epochs(1, 2, 3, 1, 2, 3)
    assert make_reference(counted, job(), None).metric == "val_loss"
    for name, points in (("loss", counted.points), (None, {"loss": counted.points["loss"]})):
        counted.points = points
        with pytest.raises(RsctlError) as refused:
            make_reference(counted, job(), name)
        message = "the steps of loss in job-0 begin again within the run"
        assert refused.value.findings == (error("metric", message, RENUMBERED),)
        assert refused.value.exit_code is ExitCode.USAGE


def test_steps_that_a_restart_repeats_can_be_compared() -> None:
    seen = observed({}, restarts=[at(2.5)])
    seen.points["loss"] = epochs(1, 2, 3, 2, 3, 4)
    assert list(make_reference(seen, job(), None).values) == [1, 2, 3, 4]
    late = replace(seen, points={"loss": epochs(1, 2, 3)[::-1]})  # a cloud's log, out of order
    assert make_reference(late, job(), None).steps == [1, 2, 3]


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
