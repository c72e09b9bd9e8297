"""What moved between two runs: each planted cause is named, by recorded steps alone."""

from __future__ import annotations

import pytest

from rsctl.api import diff
from rsctl.bench.differences import Difference
from rsctl.bench.formats.markdown import gate_markdown
from rsctl.bench.gate import Gate, evaluate
from rsctl.bench.results import Results, run_results
from rsctl.bench.step_parts import Moved, moved_ranks
from rsctl.bench.verdict import Floor
from rsctl.estimate.advice.measured import StepRecord
from rsctl.runs.origin import Origin, keep_origin
from rsctl.runs.step_times import StepPart, keep_steps
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stragglers import RankTimes
from rsctl.runs.stream.formatting import format_number
from rsctl.runs.stream.metrics import MetricSpec
from tests.bench.conftest import MakeRun, values

SPEED = {"speed": MetricSpec(goal="max", unit="/s")}
STEADY = {"seconds": 0.1, "compute": 0.08, "data": 0.002}
BUCKETS = ((1000, 0.01, 0.02), (1000, 0.02, 0.03))


class Recorded:
    """Makes runs with recorded steps."""

    def __init__(self, store: Store, make_run: MakeRun) -> None:
        self._store, self._make_run = store, make_run
        self._count = 0

    def __call__(
        self,
        step: dict[str, float] | None = None,
        buckets: tuple[tuple[int, float, float], ...] = BUCKETS,
        waits: tuple[float, ...] = (20, 20),
        lr: str = "0.05",
        content: dict[str, str] | None = None,
        **ranks: float,
    ) -> RunRecord:
        """A run whose speed and steps are these; `waits` are of its ranks, in milliseconds.

        With what DDP measures of all `ranks` beside their steps and waits, no step is recorded.
        """
        self._count += 1
        times = {**STEADY, **(step or {})}
        metrics = values("speed", [1 / times["seconds"]] * 20)
        for rank, wait in enumerate(waits):
            about = {"step_ms": 1000 * times["seconds"], "wait_ms": wait, **ranks}
            for name, value in about.items():
                metrics += values(f"node.rank{rank}.{name}", [value], replica=f"worker-{rank}")
        argv = ["--launcher", "none", "--", "--lr", lr]
        run = self._make_run(
            metrics,
            SPEED,
            run=f"job-{self._count}",
            plan={"request": {"commands": [{"replica": "worker-0", "argv": argv}]}},
            spec=f"name: job\nrun: {{script: train.py, args: {{lr: {lr}}}}}\n",
        )
        record = StepRecord(
            steps=64,
            low=times["seconds"],
            high=times["seconds"],
            world=len(waits),
            prefetches=False,
            communicates=True,
            buckets=buckets,
            **times,
        )
        fields = {name: getattr(record, name) for name in StepRecord.__struct_fields__}
        if not ranks:
            keep_steps(self._store, run.run, StepPart(part=0, parts=1, **fields))
        keep_origin(run.run, Origin(content=content or {}))
        return run


@pytest.fixture
def recorded(store: Store, make_run: MakeRun) -> Recorded:
    """Makes runs with recorded steps."""
    return Recorded(store, make_run)


def side(store: Store, run: RunRecord) -> Results:
    """Four runs that are all like this one."""
    results = run_results(store, run)
    for series in results.series:
        series.values *= 4
    return results


def gate_of(store: Store, before: RunRecord, after: RunRecord) -> Gate:
    """The gate of both sides' speed, of which 5 % may be lost."""
    return evaluate(side(store, before), side(store, after), {"speed": Floor(0.05)})


def moved(store: Store, before: RunRecord, after: RunRecord) -> tuple[list[str], str]:
    """What the gate says became longer, and the part that moved most by `diff`."""
    gate = gate_of(store, before, after)
    assert gate.verdict == "regressed"
    text = gate_markdown(gate).partition("Longer in each step")[2]
    assert text.count("\n- ") >= len(gate.moved) > 0
    return list(map(str, gate.moved)), str(diff(before.run, after.run).moved_most)


def test_a_slow_data_loader(store: Store, recorded: Recorded) -> None:
    after = recorded({"seconds": 0.15, "compute": 0.13, "data": 0.052})
    cause = "wait for input data: 2 ms -> 52 ms (+50 ms, 26 x)"
    assert moved(store, recorded(), after) == ([cause], cause)


def test_smaller_gradient_buckets(store: Store, recorded: Recorded) -> None:
    after = recorded({"seconds": 0.13}, ((100, 0.01, 0.02),) * 20, (50, 50))
    cause = "exchange of gradients: 20 ms -> 50 ms (+30 ms, +150%)"
    buckets = "number of gradient buckets: 2 -> 20 (+18, +900%)"
    assert moved(store, recorded(), after) == ([cause, buckets], cause)


def test_a_straggler(store: Store, recorded: Recorded) -> None:
    """Rank 1 computes 40 ms longer, for which rank 0 waits."""
    before, after = recorded(), recorded({"seconds": 0.14}, waits=(60, 20))
    cause = "wait for the slowest rank: 0 ms -> 40 ms (+40 ms)"
    assert moved(store, before, after) == ([cause], cause)
    assert list(map(str, diff(before.run, after.run).ranks[:2])) == [
        "wait for gradients of rank 0: 20 ms -> 60 ms (+40 ms, +200%)",
        "computation of rank 1: 80 ms -> 120 ms (+40 ms, +50%)",
    ]


@pytest.mark.parametrize("ranks", [{}, {"data_ms": 2.0}])
def test_a_rank_alone_does_not_tell_who_is_slow(
    store: Store, recorded: Recorded, ranks: dict[str, float]
) -> None:
    """As in a run so short that only rank 0 has reported: all of its wait is the exchange."""
    before = recorded(waits=(20,), **ranks)
    after = recorded({"seconds": 0.14}, waits=(60,), **ranks)
    found = diff(before.run, after.run)
    assert str(found.moved_most) == "exchange of gradients: 20 ms -> 60 ms (+40 ms, +200%)"
    assert "step.wait" not in {part.name for part in found.steps}


@pytest.mark.parametrize(
    ("after", "causes"),
    [
        ({"data_ms": 42, "buckets": 2}, ["wait for input data: 2 ms -> 42 ms (+40 ms, 21 x)"]),
        ({"data_ms": 2, "buckets": 2}, ["computation: 78 ms -> 118 ms (+40 ms, +51%)"]),
        (
            {"data_ms": 2, "buckets": 20, "wait": 60},
            [
                "exchange of gradients: 20 ms -> 60 ms (+40 ms, +200%)",
                "step.buckets: 2 -> 20 (+18, +900%)",
            ],
        ),
    ],
)
def test_what_ddp_measures_by_itself(
    store: Store, recorded: Recorded, after: dict[str, float], causes: list[str]
) -> None:
    wait = after.pop("wait", 20)
    before = recorded(data_ms=2, buckets=2)
    found, most = moved(store, before, recorded({"seconds": 0.14}, waits=(wait, wait), **after))
    assert (found, most) == (causes[: len(found)], causes[0])
    assert found[0] == causes[0]
    ranks = map(str, diff(before.run, recorded({"seconds": 0.14}, data_ms=42, buckets=2).run).ranks)
    assert next(ranks) == "wait for input data of rank 0: 2 ms -> 42 ms (+40 ms, 21 x)"


def test_a_regression_whose_steps_are_not_recorded(store: Store, recorded: Recorded) -> None:
    """The gate says how to see more, where the runs of one side show that they have steps.

    An installed torch does not show that the job uses DistributedDataParallel.
    """
    before = recorded(waits=(), data_ms=2)
    after = recorded({"seconds": 0.14}, waits=(), data_ms=2)
    sides = [side(store, run) for run in (before, after)]
    for each in sides:
        each.fingerprint.shown["torch"] = "2.13.0"
    gate = evaluate(*sides, {"speed": Floor(0.05)})
    assert (gate.verdict, gate.moved, gate.lacks_steps) == ("regressed", [], False)
    gate = gate_of(store, recorded(), after)
    assert gate.lacks_steps
    assert "What became longer is unknown: the parts of a step are not recorded" in gate_markdown(
        gate
    )
    assert not gate_of(store, recorded(), recorded({"seconds": 0.14})).lacks_steps


def test_a_changed_argument_and_package(store: Store, recorded: Recorded) -> None:
    before = recorded(content={"package torch": "2.12.0", "package numpy": "2.3.0"})
    after = recorded(
        {"seconds": 0.2}, lr="0.3", content={"package torch": "2.13.0", "package numpy": "2.3.0"}
    )
    found = diff(before.run, after.run)
    assert list(map(str, found.differences)) == [
        "run.args.lr: 0.05 -> 0.3",
        "package torch: 2.12.0 -> 2.13.0",
    ]
    assert list(map(str, gate_of(store, before, after).refused)) == ["run.args.lr: 0.05 -> 0.3"]


def test_the_ranks_of_both_sides_that_moved_most_come_first() -> None:
    """A part that one side does not have, such as a DataLoader, has not moved."""
    before = {0: RankTimes("worker-0", 100, 20, 5), 1: RankTimes("worker-1", 100, 30)}
    after = {0: RankTimes("worker-0", 110, 20, 9), 1: RankTimes("worker-1", 190, 10, 4)}
    found = [(m.rank, m.name, m.baseline, m.candidate) for m in moved_ranks(before, after)]
    assert found[0][:2] == (1, "step.compute")
    assert [each for each in found if each[1] == "step.data"] == [(0, "step.data", 0.005, 0.009)]
    assert not [m for m in moved_ranks({}, before) if m.name == "step.data"]


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (100.0, 100.05, "+0.05, under 0.1%"),
        (100.0, 99.6, "-0.4, -0.4%"),
        (100.0, 1099.0, "+999, +999%"),
        (0.01, 18.91, "+18.9, 1891 x"),
        (-1.0, 20.0, "+21"),
        (0.0, 1.0, "+1"),
    ],
)
def test_how_a_change_is_shown(before: float, after: float, change: str) -> None:
    moved = Moved(name="loss", baseline=before, candidate=after, aggregate="last")
    text = f"{format_number(before)} -> {format_number(after)} ({change})"
    assert str(moved) == f"loss (last): {text}"


def test_a_commit_is_shown_by_its_first_digits() -> None:
    before, after = "0123456789" * 4, "abcdef0123" * 4
    assert str(Difference("commit", before, f"{after}-dirty")) == (
        "commit: 0123456789 -> abcdef0123-dirty"
    )


def test_metrics_name_their_aggregate(store: Store, recorded: Recorded) -> None:
    (speed,) = [m for m in diff(recorded().run, recorded().run).metrics if m.name == "speed"]
    assert str(speed) == "speed (median): 10 /s -> 10 /s"


def test_equal_runs(store: Store, recorded: Recorded) -> None:
    before, after = recorded(), recorded()
    found = diff(before.run, after.run)
    assert (found.differences, found.moved_most, found.remarks) == ([], None, [])
    assert {part.name: part.baseline for part in found.steps} == {
        "step.compute": 0.078,
        "step.data": 0.002,
        "step.exchange": pytest.approx(0.02),
        "step.wait": 0,
        "step.buckets": 2,
    }
    assert gate_of(store, before, after).moved == []
