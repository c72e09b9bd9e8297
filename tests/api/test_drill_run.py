"""The runs of a drill in their order, and what counts as survived."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.api import drill
from rsctl.api.drill import Drill, PreparedDrill, prepare_drill
from rsctl.api.drill_checkpoint import CheckpointFiles
from rsctl.api.drill_faults import FAULTS, Situation
from rsctl.api.drill_verdict import FaultResult
from rsctl.api.drill_watch import Observation
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal
from tests.api.test_drill_results import observed
from tests.kit.docker import needs_docker

from .conftest import Write

BY_NAME = {fault.name: fault for fault in FAULTS}
LOCAL = Situation(target="process", in_containers=False, has_reducers=True, is_spot=False)


def at(second: float) -> str:
    return f"2026-11-21T12:00:{second:09.6f}Z"


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
    monkeypatch.setattr(drill, "with_own_folders", lambda job, run: (job, run))


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


def test_a_drill_on_this_machine_is_of_the_job_alone(write_job: Write) -> None:
    """It sends nothing to trackers and to people, and keeps no failed node."""
    keys = {"tracking": [{"tensorboard": "tb"}], "limits": {"keep": "5m", "timeout": "1h"}}
    path = write_job(**keys, workers={"count": 2}, reducers={"count": 1})
    made = prepare_drill(path, faults=["stopped-node"], metric="loss", step=7, patience=9.0)
    assert made.situation == LOCAL
    assert (made.job.tracking, made.job.limits.keep, made.job.limits.timeout) == ([], None, 3600)
    assert (made.target, [fault.name for fault in made.faults], made.named) == (
        *("process", ["stopped-node"], True),
    )
    assert (made.metric, made.step, made.patience, made.rehearsal) == ("loss", 7, 9.0, None)
    assert not prepare_drill(path).named


@pytest.mark.parametrize(
    ("runner", "in_containers"),
    [("process", False), pytest.param("docker", True, marks=needs_docker)],
)
def test_a_drill_on_a_cloud_is_a_rehearsal(
    write_job: Write, runner: Any, in_containers: bool
) -> None:
    run = {"script": "train.py", "launcher": "once"}
    image, limits = {"base": "base:1", "source": "src"}, {"spot": True}
    path = write_job(target="vertex", image=image, run=run, limits=limits)
    with pytest.raises(RsctlError) as caught:
        prepare_drill(path)
    message = "a drill takes machines away, and does that on target vertex in a rehearsal only"
    assert caught.value.findings == (error("drill", message, "give --rehearse"),)
    made = prepare_drill(path, rehearse=Rehearsal(runner))
    situation = made.situation
    assert (situation.target, situation.in_containers) == ("vertex", in_containers)
    assert (situation.has_reducers, situation.is_spot) == (False, True)
    assert situation.behaviours is not None
    assert "stockouts" in situation.behaviours


def test_a_cluster_cannot_be_drilled(write_job: Write) -> None:
    path = write_job(target="slurm", targets={"slurm": {"shared": "/shared"}})
    with pytest.raises(RsctlError) as caught:
        prepare_drill(path)
    message = "a drill takes machines away, and target slurm has no emulator for that"
    remedy = "use --target process or compose"
    assert caught.value.findings == (error("drill", message, remedy),)
    assert caught.value.exit_code is ExitCode.USAGE
