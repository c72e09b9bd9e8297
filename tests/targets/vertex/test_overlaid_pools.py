"""Target vertex: what the overlaid request says is what the plan says, and can be launched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.rendering import merged

from .rendering import URI, findings_of, render, reported, vertex, workers

OVERLAY = "targets.vertex.overlay"
POOLS = "/jobSpec/workerPoolSpecs"
A100 = workers(4, "a100-40gb:8")
OWN = {**A100, "reducers": {"count": 2}, "comm": {"backend": "rsctl"}}


def patched(*entries: tuple[str, str, Any]) -> Any:
    """A JSON Patch of the worker pools."""
    return vertex(
        overlay=[
            {"op": op, "path": f"{POOLS}{path}", "value": value} for op, path, value in entries
        ]
    )


def shown(plan: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (p["role"], p["count"], p["machine"], p["accelerator"], p["gbps"]) for p in plan["pools"]
    ]


def pool(count: int, image: str = URI, args: list[str] | None = None, **machine: Any) -> Any:
    container = {"imageUri": image, **({"args": args} if args else {})}
    spec = {"machineType": "n1-standard-4", **machine}
    return {"machineSpec": spec, "replicaCount": str(count), "containerSpec": container}


def test_machines_and_counts_of_the_patch_are_those_of_the_plan(tmp_path: Path) -> None:
    patch = patched(("replace", "/1/replicaCount", "7"))
    plan = render(tmp_path, merged(A100, patch))
    assert shown(plan) == [("worker", 8, "a2-highgpu-8g", "a100-40gb:8", 100.0)]
    assert plan["world_size"] == 64


def test_pools_beyond_the_reducers_have_replicas_too(tmp_path: Path) -> None:
    image = "us-docker.pkg.dev/my-project/train/evaluate:1"
    patch = patched(("add", "/-", {}), ("add", "/-", pool(1, image)))
    plan = render(tmp_path, merged(A100, patch))
    assert [(each[0], each[1]) for each in shown(plan)] == [("worker", 4), ("evaluator", 1)]
    assert plan["world_size"] == 32


def test_a_machine_of_the_patch(tmp_path: Path) -> None:
    spec = {"machineType": "g2-standard-48", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 4}
    patch = patched(
        ("replace", "/0/machineSpec", spec),
        ("replace", "/1/machineSpec", spec),
    )
    plan = render(tmp_path, merged(workers(2, "a100-40gb:4"), patch))
    assert shown(plan) == [("worker", 2, "g2-standard-48", "l4:4", 50.0)]


def test_ranks_image_and_variables_of_the_patch_are_those_of_the_plan(tmp_path: Path) -> None:
    other = URI.replace(":1", ":2")
    arguments = ["--launcher", "torchrun", "--processes", "2", "--", "python", "other.py"]
    patch = patched(
        ("replace", "/0/containerSpec/imageUri", other),
        ("replace", "/0/containerSpec/args", arguments),
        ("add", "/0/containerSpec/env/-", {"name": "SEED", "value": "1"}),
    )
    plan = render(tmp_path, merged(workers(1, "a100-40gb:4"), patch))
    assert plan["world_size"] == 2
    assert plan["image"]["tag"] == other
    assert plan["env"]["SEED"] == "1"


CASES = {
    "a chief of several": (
        merged(A100, patched(("replace", "/0/replicaCount", "2"))),
        [
            f"error {OVERLAY}: with this patch, the first worker pool has 2 replicas, but it is "
            "only for the chief -> keep it at 1, and set workers.count"
        ],
    ),
    "reducers of ours that are taken away": (
        merged(OWN, {"targets": {"vertex": {"overlay": [{"op": "remove", "path": f"{POOLS}/2"}]}}}),
        [
            f"error {OVERLAY}: with this patch, the job has no reducers, and its workers would "
            "wait for them -> set reducers.count: 0 instead"
        ],
    ),
    "reducers of ours that the job knows nothing of": (
        merged(
            A100,
            patched(("add", "/-", pool(2, args=["--launcher", "once", "--", "x"]))),
        ),
        [
            f"error {OVERLAY}: with this patch, worker pool 2 starts rsctl-launch, which has "
            "nothing to run there -> give it a separate image and command, or make it a role "
            "with roles.NAME, or set reducers.count"
        ],
    ),
    "an evaluator that starts our launcher": (
        merged(
            A100,
            patched(("add", "/-", {}), ("add", "/-", pool(1, args=["--launcher", "once", "--"]))),
        ),
        [
            f"error {OVERLAY}: with this patch, worker pool 3 starts rsctl-launch, which has "
            "nothing to run there -> give it a separate image and command, or make it a role "
            "with roles.NAME"
        ],
    ),
    "no pool at all": (
        merged(A100, vertex(overlay={"jobSpec": {"workerPoolSpecs": []}})),
        [f"error {OVERLAY}: with this patch, the job has no worker pool -> keep the first one"],
    ),
    "fewer accelerators than ranks": (
        merged(
            workers(1, "a100-40gb:8"),
            patched(
                (
                    "replace",
                    "/0/machineSpec",
                    {
                        "machineType": "a2-highgpu-4g",
                        "acceleratorType": "NVIDIA_TESLA_A100",
                        "acceleratorCount": 4,
                    },
                )
            ),
        ),
        [
            f"warning {OVERLAY}: with this patch, worker pool 0 is on a2-highgpu-4g with "
            "a100-40gb:4, but the request starts 8 ranks on each -> set workers.machine and "
            "workers.accelerator instead, which determine the ranks"
        ],
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_what_the_containers_could_not_do(title: str, tmp_path: Path) -> None:
    changes, expected = CASES[title]
    found = [reported(f) for f in findings_of(tmp_path, changes) if f.path == OVERLAY]
    assert found == expected


@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        (
            {"jobSpec": {"scheduling": {"timeout": "soon"}}},
            "error: with this patch, the request is not a valid CustomJob: Invalid value at "
            "'custom_job.job_spec.scheduling.timeout' (TYPE_DURATION), \"soon\"",
        ),
        (
            {"jobSpec": {"enableWebAccess": "yes"}},
            "error: with this patch, the request is not a valid CustomJob: Invalid value at "
            "'custom_job.job_spec.enable_web_access' (TYPE_BOOL), \"yes\"",
        ),
        (
            {"jobSpec": {"enableWebAcess": True}},
            "warning: with this patch, the request has an unknown field: Invalid JSON "
            "payload received. Unknown name \"enableWebAcess\" at 'custom_job.job_spec': Cannot "
            "find field.",
        ),
    ],
)
def test_a_patch_makes_a_custom_job(tmp_path: Path, overlay: Any, expected: str) -> None:
    """A field that is not known only warns: the API may have got it since."""
    found = findings_of(tmp_path, merged(A100, vertex(overlay=overlay)))
    shown = [f"{f.severity}: {f.message}" for f in found if f.path == OVERLAY]
    assert shown == [expected]
