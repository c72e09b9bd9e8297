"""Target vertex: a chief that differs from the other workers has worker pool 0 to itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.job.document import cells_of, read
from rsctl.plan import make_plan
from rsctl.targets.vertex.sdk import code
from rsctl.targets.vertex.target import TARGET
from tests.kit.rendering import RUN, merged, read_job

from .rendering import findings_of, job_of, mismatches, render, vertex, workers
from .test_render import AWAITED, ENV, URI, variables

FOUR_T4 = {"machineType": "n1-standard-16", "acceleratorType": "NVIDIA_TESLA_T4"}
SAMPLE = {
    **workers(3, "t4:4", "n1-standard-16"),
    "run": {
        "command": ["python", "train.py"],
        "args": {"chief": "n", "lr": 0.1},
        "env": {"A": "1", "B": "1"},
        "launcher": "once",
    },
    "chief": {
        "machine": {"vertex": "n2-highcpu-64"},
        "accelerator": "none",
        "args": {"chief": "y"},
        "env": {"B": "2", "PASS": "${TOKEN}"},
        "disk": "200GB",
    },
}
"""As in Google's samples: the chief is a CPU machine and has its own argument."""


def pool(count: int, machine: dict[str, Any], flag: str, env: dict[str, Any]) -> dict[str, Any]:
    launch = ["--launcher", "once", "--", "python", "train.py", "--chief", flag, "--lr", "0.1"]
    container = {"imageUri": URI, "command": ["rsctl-launch"], "args": launch}
    return {
        "machineSpec": machine,
        "replicaCount": str(count),
        "containerSpec": {**container, "env": variables({**env, **AWAITED, **ENV})},
    }


def test_its_own_machine_arguments_variables_and_disk(tmp_path: Path) -> None:
    plan = render(tmp_path, SAMPLE)
    own = {"A": "1", "B": "2", "PASS": None}
    chief = pool(1, {"machineType": "n2-highcpu-64"}, "y", own)
    others = pool(2, {**FOUR_T4, "acceleratorCount": 4}, "n", {"A": "1", "B": "1"})
    assert plan["request"]["body"]["jobSpec"]["workerPoolSpecs"] == [
        {**chief, "diskSpec": {"bootDiskSizeGb": 200}},
        others,
    ]
    machine = {"role": "worker", "machine": "n2-highcpu-64", "accelerator": None, "gbps": 32.0}
    gpus = {"role": "worker", "machine": "n1-standard-16", "accelerator": "t4:4", "gbps": 32.0}
    assert plan["pools"] == [{**machine, "count": 1}, {**gpus, "count": 2}]
    assert plan["world_size"] == 1 + 2 * 4
    assert plan["env"] == {**own, **AWAITED, **ENV}


def test_ranks_follow_its_accelerators(tmp_path: Path) -> None:
    changes = {**workers(3, "t4:4", "n1-standard-16"), "chief": {"accelerator": "t4:2"}}
    plan = render(tmp_path, changes)
    launched = [
        pool["containerSpec"]["args"][:4]
        for pool in plan["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    ]
    torchrun = ["--launcher", "torchrun", "--processes"]
    assert launched == [[*torchrun, "2"], [*torchrun, "4"]]
    assert plan["world_size"] == 2 + 2 * 4


def test_a_chief_that_is_like_the_others_has_no_pool_in_the_plan(tmp_path: Path) -> None:
    plan = render(tmp_path, {**workers(3), "chief": {"env": {"A": "1"}}})
    assert [(p["role"], p["count"]) for p in plan["pools"]] == [("worker", 3)]


def test_the_only_worker_is_the_chief(tmp_path: Path) -> None:
    plan = render(tmp_path, merged(SAMPLE, {"workers": {"count": 1}}))
    (only,) = plan["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    assert only["machineSpec"] == {"machineType": "n2-highcpu-64"}
    assert plan["world_size"] == 1


def test_without_a_launcher_the_arguments_are_its_own_too(tmp_path: Path) -> None:
    run = {"command": ["python", "train.py"], "args": ["-c", "n"], "launcher": "none"}
    plan = render(tmp_path, {**workers(2), "run": run, "chief": {"args": ["-c", "y"]}})
    specs = plan["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    assert [s["containerSpec"]["args"] for s in specs] == [["-c", "y"], ["-c", "n"]]


def test_it_is_a_value_of_a_matrix_and_of_set(tmp_path: Path) -> None:
    job = job_of({**workers(2), "matrix": {"chief.machine": ["n2-standard-8", "n2-standard-16"]}})
    found = cells_of(read_job(tmp_path, job))
    cells = [cell.require_job().chief.machine for _, cell in found]
    assert cells == ["n2-standard-8", "n2-standard-16"]
    chosen = read(str(tmp_path / "job.yaml"), ["chief.machine=n1-standard-8", "chief.env.A=2"], {})
    assert (chosen.require_job().chief.env, chosen.findings) == ({"A": "2"}, [])


def test_as_code_for_the_sdk(tmp_path: Path) -> None:
    changes = merged(SAMPLE, {"chief": {"env": {"PASS": None}}})
    submission = make_plan(read_job(tmp_path, job_of(changes)), TARGET, RUN)
    text = code(submission)
    compile(text, "code", "exec")
    assert text.count('"machine_type": "n2-highcpu-64"') == 1
    assert ('"--chief", "y"' in text, '"--chief", "n"' in text) == (True, True)
    assert '"boot_disk_size_gb": 200' in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {**workers(2, "t4:4", "n1-standard-16"), "chief": {"machine": "n2-highcpu-64"}},
            "error chief.machine: the chief: n2-highcpu-64 cannot have t4 -> remove "
            "chief.machine; for a chief without accelerators, set chief.accelerator: none",
        ),
        (
            {**workers(2), "chief": {"machine": "n2-highcpu-65"}},
            "error chief.machine: the chief: 'n2-highcpu-65' is not a known machine type -> did "
            "you mean",
        ),
        (
            {**workers(2), "chief": {"disk": "1GB"}},
            "error chief.disk: the chief: a boot disk must have from -> set chief.disk: ",
        ),
        (
            {**workers(2), "chief": {"env": {"CLUSTER_SPEC": "x"}}},
            "error chief.env.CLUSTER_SPEC: the chief: Vertex AI sets CLUSTER_SPEC itself -> name",
        ),
        (
            {
                **workers(2, "t4:4", "n1-standard-16"),
                "reducers": {"count": 2},
                "chief": {"accelerator": "t4:2"},
            },
            "error chief.accelerator: the chief has 2 rank(s) and every other worker 4: reducers "
            "-> set workers.processes",
        ),
        (
            {
                **workers(2, "a100-40gb:1", "a2-highgpu-1g"),
                "run": {"launcher": "mpi"},
                "chief": {"machine": "a2-highgpu-2g", "accelerator": "a100-40gb:2"},
            },
            "error chief.accelerator: the chief has 2 rank(s) and every other worker 1: launcher "
            "mpi starts the same number on all nodes -> set workers.processes",
        ),
        (
            {**workers(2, "t4:4"), "chief": {"machine": "n2-highcpu-64", "accelerator": "none"}},
            "warning chief.accelerator: NCCL needs a GPU for each rank, and the chief has none "
            "-> set comm.backend: gloo, or launcher once",
        ),
        (
            {
                **workers(2, "gb200:4", "a4x-highgpu-4g"),
                "run": {"launcher": "once"},
                "chief": {"machine": "n2-standard-8", "accelerator": "none"},
            },
            "error chief.machine: n2-standard-8 and a4x-highgpu-4g have different processors, "
            "but share one image -> same",
        ),
        (
            {
                **workers(2, "a100-40gb:1"),
                "chief": {"machine": "a2-highgpu-2g", "accelerator": "a100-40gb:2"},
                **vertex(capacity="flex-start"),
            },
            "error chief.machine: flex start gives all pools the same machine -> remove",
        ),
    ],
)
def test_what_it_cannot_have(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, changes)
    found = [f for f in found if f.path == expected.split()[1].rstrip(":")]
    assert mismatches(found, [expected]) == []


@pytest.mark.parametrize(
    ("run", "note"),
    [
        ({"launcher": "once"}, "ends; rsctl-launch on the chief waits for them before"),
        ({"launcher": "none"}, "ends; with launcher none, the results of workers that still run"),
        ({"launcher": "torchrun"}, None),
    ],
)
def test_a_plan_says_that_the_others_end_with_the_chief(
    tmp_path: Path, run: dict[str, Any], note: str | None
) -> None:
    found = [f.message for f in findings_of(tmp_path, {**workers(2), "run": run})]
    said = [text for text in found if "ends the other workers" in text]
    assert [bool(note) and str(note) in text for text in said] == [True] * bool(note)
    alone = findings_of(tmp_path, {**workers(1), "run": run})
    assert not [f for f in alone if "ends the other workers" in f.message]
