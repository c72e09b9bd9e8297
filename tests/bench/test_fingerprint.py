"""The fingerprint of a run: what its nodes report of their machines counts on every target."""

from __future__ import annotations

import pytest

from rsctl.bench.differences import Difference
from rsctl.bench.fingerprint import (
    CellPrint,
    Fingerprint,
    definitions,
    fixed_differences,
    machines_to_compare,
    merged,
    refusals,
    run_print,
    shown_differences,
)
from rsctl.runs.store import Store
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.versions import keep_versions

from .conftest import MakeRun

OLD = {"cpu": "Xeon Skylake", "cores": "8", "torch": "2.8.0"}
NEW = {"cpu": "Xeon Ice Lake", "cores": "8", "torch": "2.8.0"}


@pytest.mark.parametrize("target", ["process", "vertex"])
def test_the_machines_of_all_workers(store: Store, make_run: MakeRun, target: str) -> None:
    run = make_run(target=target)
    for replica, versions in {"worker-0": OLD, "worker-1": NEW, "reducer-0": OLD}.items():
        keep_versions(store, run.run, replica, versions)
    fixed, shown = run_print(store, run)
    assert fixed["machine"] == "Xeon Ice Lake, 8 cores and Xeon Skylake, 8 cores"
    assert shown == {"torch": "2.8.0"}


def test_the_clock_is_a_part_of_the_machine(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    clocks = {"clock": "2.6 GHz", "gpu": "2 x A100", "gpu_clock": "1410 MHz"}
    keep_versions(store, run.run, "worker-0", {**OLD, **clocks})
    fixed, shown = run_print(store, run)
    assert fixed["machine"] == "Xeon Skylake, 8 cores, 2.6 GHz, 2 x A100, 1410 MHz"
    assert shown == {"torch": "2.8.0"}


@pytest.mark.parametrize(
    ("before", "after", "differences"),
    [
        ("EPYC, 2.6 GHz", "EPYC, 3.1 GHz", ["machine: EPYC, 2.6 GHz -> EPYC, 3.1 GHz"]),
        ("EPYC", "EPYC, 3.1 GHz", []),
        ("EPYC, 2.6 GHz, 2 x A100, 1410 MHz", "EPYC, 2 x A100", []),
        ("EPYC, 2.6 GHz | EPYC, 3 GHz", "EPYC", []),
        ("EPYC", "Xeon, 3.1 GHz", ["machine: EPYC -> Xeon"]),
    ],
)
def test_a_clock_that_one_side_did_not_record(
    before: str, after: str, differences: list[str]
) -> None:
    """The other properties of the machine still count."""
    one, other = (
        Fingerprint(cells=[CellPrint({}, {"machine": side}, [*side.split(" | ")])])
        for side in (before, after)
    )
    assert [str(each) for each in fixed_differences(one, other, {})] == differences
    kinds = machines_to_compare(one, other, {})
    assert (kinds is not None) == bool(differences)


def test_nodes_that_report_nothing(store: Store, make_run: MakeRun) -> None:
    assert "machine" not in run_print(store, make_run())[0]


def test_runs_on_several_generations_are_the_same_in_any_order() -> None:
    one, other = {"machine": "Skylake"}, {"machine": "Ice Lake"}
    assert merged([one, other, one]) == merged([other, one]) == {"machine": "Ice Lake | Skylake"}


def pool(
    role: str, count: int, machine: str | None = None, accelerator: str | None = None
) -> dict[str, object]:
    return {"role": role, "count": count, "machine": machine, "accelerator": accelerator}


def test_machines_counts_and_arguments_must_be_equal(store: Store, make_run: MakeRun) -> None:
    plan = {
        "pools": [
            pool("worker", 1, "n1", "v100:2"),
            pool("worker", 3, "n2"),
            pool("reducer", 2, accelerator="t4:1"),
            pool("ps", 4),
        ],
        "world_size": 8,
        "request": {"body": [{"env": ["A=1"]}, {"command": ["python", "--launcher", "x", "y"]}]},
    }
    fixed, shown = run_print(store, make_run(plan=plan))
    assert fixed == {
        "target": "process",
        "workers": "1 x n1 with v100:2 and 3 x n2",
        "reducers": "2 x t4:1",
        "ps": "4",
        "world size": 8,
        "arguments": "--launcher x y",
    }
    assert shown == {}


@pytest.mark.parametrize(
    ("target", "request_", "arguments"),
    [
        ("process", {"argv": ["a", "b"]}, "a b"),
        ("sagemaker", {"ContainerArguments": ["a"]}, "a"),
        ("sagemaker", {"x": [{"ContainerArguments": ["a", "b"]}], "args": ["second"]}, "a b"),
        ("vertex", {"x": [{"args": ["a", "b"]}], "args": ["second"]}, "a b"),
        ("sagemaker", {"HyperParameters": {"b": "2", "a": "1"}}, "a=1 b=2"),
        ("vertex", {"args": [], "command": ["c"]}, "c"),
        ("third-party", {"args": ["a"]}, "a"),
        ("process", {"args": [1, 2]}, None),
        ("process", {"other": ["a"]}, None),
        ("process", None, None),
    ],
)
def test_the_arguments_of_the_first_worker(
    store: Store, make_run: MakeRun, target: str, request_: object, arguments: str | None
) -> None:
    fixed, _ = run_print(store, make_run(plan={"request": request_}, target=target))
    assert fixed.get("arguments") == arguments


def test_what_a_change_may_change_is_shown(store: Store, make_run: MakeRun) -> None:
    plan = {
        "image": {"tag": "x/y:1", "transport": "cpp"},
        "env": {"B": "2", "A": None, "API_KEY": "s1", "RSCTL_RUN": "job-a", "RSCTL_CLUSTER": "x"},
    }
    run = make_run(plan=plan)
    keep_versions(store, run.run, "worker-1", {**NEW, "gpu": "V100"})
    fixed, shown = run_print(store, run)
    assert fixed["machine"] == "Xeon Ice Lake, 8 cores, V100"
    assert shown == {
        **{"torch": "2.8.0", "image": "x/y:1", "transport": "cpp"},
        **{"env.A": "(secret)", "env.API_KEY": "(secret)", "env.B": "2"},
    }


def test_the_region_is_shown(store: Store, make_run: MakeRun) -> None:
    """Machines of one type may differ between regions, and so do prices."""
    sides = [
        Fingerprint(shown=run_print(store, run)[1])
        for region in ("us-east-1", "eu-west-1")
        for run in [make_run(run=f"r-{region}", target="sagemaker",
                             plan={"request": {"region": region}})]
    ]  # fmt: skip
    assert shown_differences(*sides) == [Difference("region", "us-east-1", "eu-west-1")]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"A": "1", "X": ""}, {"A": "1", "X": "2"}, "env.X: '' -> 2"),
        ({"A": "1"}, {"A": "1", "X": ""}, "env.X: not set -> ''"),
        ({"A": "1", "X": "2"}, {"A": "1"}, "env.X: 2 -> not set"),
        ({}, {"X": "2"}, "env.X: unknown -> 2"),
    ],
)
def test_a_variable_that_is_empty_or_not_set(
    store: Store, make_run: MakeRun, before: dict[str, str], after: dict[str, str], text: str
) -> None:
    """Only a side without any variables, such as an old baseline, may not know them."""
    sides = [
        Fingerprint(shown=run_print(store, make_run(run=run, plan={"env": env}))[1])
        for run, env in (("job-a", before), ("job-b", after))
    ]
    assert [str(one) for one in shown_differences(*sides)] == [text]


def test_a_file_or_package_that_one_side_does_not_have() -> None:
    """Beyond the files that are compared one by one, a file may be among the others."""
    before = {"file a.py": "1", "file b.py": "2", "package x": "1"}
    after = {"file a.py": "1", "file c.py": "3", "package x": "1", "package y": "2"}
    rest = {"other files": "9"}

    def texts(more: dict[str, str]) -> list[str]:
        sides = Fingerprint(shown={**before, **more}), Fingerprint(shown={**after, **more})
        return [str(one) for one in shown_differences(*sides)]

    assert texts({}) == [
        "file b.py: 2 -> does not exist",
        "file c.py: does not exist -> 3",
        "package y: not installed -> 2",
    ]
    assert texts(rest)[:2] == ["file b.py: 2 -> unknown", "file c.py: unknown -> 3"]


def test_the_definition_of_a_metric() -> None:
    found = definitions({"loss": MetricSpec("loss=(.*)", goal="min")})
    assert (found["loss"]["regex"], found["loss"]["goal"]) == ("loss=(.*)", "min")
    assert None not in found["loss"].values()


def fingerprint(**fixed: object) -> Fingerprint:
    return Fingerprint([CellPrint({}, fixed)], {"loss": {"aggregate": "median"}}, {"torch": "2"})


def test_why_a_metric_cannot_be_compared() -> None:
    before, after = fingerprint(workers="2", a=1), fingerprint(workers="3", b=2)
    after.metrics["loss"] = {"aggregate": "mean", "warmup": "auto"}
    assert [str(found) for found in refusals(before, after, {}, "loss")] == [
        "workers: 2 -> 3",
        "a: 1 -> unknown",
        "b: unknown -> 2",
        "metrics.loss.aggregate: median -> mean",
        "metrics.loss.warmup: unknown -> auto",
    ]
    assert refusals(before, after, {"workers.count": 1}, "f1") == []
    assert refusals(before, fingerprint(), {}, "loss") == []  # nothing was ever submitted
    after.shown = {"torch": "2", "env.A": "1"}
    assert shown_differences(before, after) == [Difference("env.A", None, "1")]


def test_a_machine_that_one_side_does_not_know_is_no_difference() -> None:
    before, after = fingerprint(a=1, machine="x"), fingerprint(a=1)
    assert refusals(before, after, {}, "loss") == refusals(after, before, {}, "loss") == []
    other = fingerprint(a=1, machine="y")
    assert [str(found) for found in refusals(before, other, {}, "loss")] == ["machine: x -> y"]


LAUNCHED = "--launcher torchrun --processes 1 --python -- train.py --lr 0.05 --steps 10"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (LAUNCHED, LAUNCHED.replace("0.05", "0.3"), ["run.args.lr: 0.05 -> 0.3"]),
        (LAUNCHED, LAUNCHED.replace("--lr 0.05", "--lr -1"), ["run.args.lr: 0.05 -> -1"]),
        (LAUNCHED, LAUNCHED + " --fast", ["run.args.fast: not set -> true"]),
        (LAUNCHED + " --betas 0.9 0.99", LAUNCHED, ["run.args.betas: 0.9 0.99 -> not set"]),
        (LAUNCHED, LAUNCHED.replace("train", "other"), ["run.script: train.py -> other.py"]),
        (
            LAUNCHED,
            LAUNCHED.replace("processes 1", "processes 2").replace("train.py", "-m train"),
            [
                "workers.processes: 1 -> 2",
                "run.script: train.py -> not set",
                "run.module: not set -> train",
            ],
        ),
        (
            "--launcher once --env A=1 --copy d=gs://a --python -- t.py x lr=1 --name=a",
            "--launcher none --env A=2 --copy d=gs://b --python -- t.py y lr=2 --name=b",
            [
                "run.launcher: once -> none",
                "run.env.A: 1 -> 2",
                "inputs.d: gs://a -> gs://b",
                "run.args: x -> y",
                "run.args.lr: 1 -> 2",
                "run.args.name: a -> b",
            ],
        ),
        (
            "--launcher once -- python t.py --lr 1",
            "--launcher once -- python u.py --lr 2",
            ["run.command: python t.py -> python u.py", "run.args.lr: 1 -> 2"],
        ),
        (
            "--launcher once --stop-signal 15 --restarts-in-place 1 --keep 60 --count d=1 "
            "--shards e=2 --fill a --other 1 --flag -- x",
            "--launcher once --stop-signal 2 --restarts-in-place 3 --keep 90 --count d=4 "
            "--shards e=5 --fill b --other 6 -- x",
            [
                "limits.stop_signal: 15 -> 2",
                "limits.restarts_in_place: 1 -> 3",
                "limits.keep: 60 -> 90",
                "inputs.d: 1 -> 4",
                "inputs.e: 2 -> 5",
                "launcher --other: 1 -> 6",
            ],
        ),
        (
            "--launcher once --python -- -m a.b x",
            "--launcher once --python -- -m a.c x",
            ["run.module: a.b -> a.c"],
        ),
        ("-m --lr=1 +a.b/c=2", "-m --lr=1 ++a.b/c=3", ["run.args.a.b/c: 2 -> 3"]),
        ("a=1 b=2", "a=1 b=3", ["run.args.b: 2 -> 3"]),
        ("--a 1 --b 2", "--b 2 --a 1", ["order of the arguments: --a 1 --b 2 -> --b 2 --a 1"]),
        ("--a 1", "--a=1", ["arguments: --a 1 -> --a=1"]),
        ("--a 1 | --a 2", "--a 1", ["arguments: --a 1 | --a 2 -> --a 1"]),
    ],
)
def test_arguments_that_differ_are_named_by_their_key(
    before: str, after: str, expected: list[str]
) -> None:
    found = refusals(fingerprint(arguments=before), fingerprint(arguments=after), {}, "loss")
    assert [str(each) for each in found] == expected
