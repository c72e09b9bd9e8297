"""Target sagemaker: what the overlaid request says is what the plan says, and can be launched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.rendering import merged

from .case_parts import reducers
from .rendering import URI, render, reported, sagemaker

OVERLAY = "targets.sagemaker.overlay"
A10G = {"workers": {"count": 2, "accelerator": "a10g:4"}}


def resources(**changes: Any) -> dict[str, Any]:
    """An overlay of ResourceConfig."""
    return sagemaker(overlay={"ResourceConfig": changes})


def groups(*named: tuple[str, str, int]) -> dict[str, Any]:
    """An overlay that brings instance groups in."""
    listed = [
        {"InstanceGroupName": name, "InstanceType": machine, "InstanceCount": count}
        for name, machine, count in named
    ]
    return resources(InstanceType=None, InstanceCount=None, InstanceGroups=listed)


def pool(role: str, count: int, machine: str | None, accelerator: str | None, gbps: Any) -> Any:
    return {
        "role": role,
        "count": count,
        "machine": machine,
        "accelerator": accelerator,
        "gbps": gbps,
    }


def test_machines_and_counts_of_the_patch_are_those_of_the_plan(tmp_path: Path) -> None:
    changes = merged(A10G, resources(InstanceType="ml.g5.48xlarge", InstanceCount=3))
    plan = render(tmp_path, changes)
    assert plan["pools"] == [pool("worker", 3, "ml.g5.48xlarge", "a10g:8", 100.0)]
    assert plan["world_size"] == 12  # the arguments still say 4 ranks a node


def test_a_group_of_reducers_that_the_patch_makes_larger(tmp_path: Path) -> None:
    patch = [
        {"op": "replace", "path": "/ResourceConfig/InstanceGroups/1/InstanceCount", "value": 5}
    ]
    plan = render(tmp_path, reducers(2, **sagemaker(overlay=patch)))
    assert [(each["role"], each["count"]) for each in plan["pools"]] == [
        ("worker", 4),
        ("reducer", 5),
    ]


def test_a_machine_that_the_catalogue_does_not_know(tmp_path: Path) -> None:
    plan = render(tmp_path, resources(InstanceType="ml.p7.48xlarge"))
    assert plan["pools"] == [pool("worker", 1, "ml.p7.48xlarge", None, None)]


def test_machines_in_order_of_preference_are_counted_as_the_first(tmp_path: Path) -> None:
    listed = [{"InstanceType": "ml.c5.xlarge"}, {"InstanceType": "ml.m5.xlarge"}]
    changes = resources(InstanceType=None, InstanceCount=2, InstancePreferences=listed)
    plan = render(tmp_path, changes)
    assert plan["pools"][0]["machine"] == "ml.c5.xlarge, ml.m5.xlarge"
    assert plan["pools"][0]["count"] == 2


def test_ranks_image_and_variables_of_the_patch_are_those_of_the_plan(tmp_path: Path) -> None:
    own = URI.replace(":1", ":2")
    arguments = ["--launcher", "torchrun", "--processes", "2", "--", "python", "other.py"]
    patch = {
        "AlgorithmSpecification": {"TrainingImage": own, "ContainerArguments": arguments},
        "Environment": {"SEED": "1"},
    }
    plan = render(tmp_path, merged(A10G, sagemaker(overlay=patch)))
    assert plan["world_size"] == 4
    assert plan["image"]["tag"] == own
    assert plan["env"]["SEED"] == "1"
    assert plan["env"] == plan["request"]["body"]["Environment"]


def test_long_arguments_that_travel_as_hyperparameters_tell_the_ranks_too(tmp_path: Path) -> None:
    plan = render(tmp_path, merged(A10G, {"run": {"args": {"text": "x" * 300}}}))
    assert plan["world_size"] == 8


def test_groups_of_a_foreign_image_are_workers_in_the_order_of_their_hosts(tmp_path: Path) -> None:
    changes = merged(
        {"run": {"launcher": "none"}},
        groups(("gpu", "ml.g5.xlarge", 1), ("cpu", "ml.c5.xlarge", 2)),
    )
    plan = render(tmp_path, changes)
    assert plan["pools"] == [pool("worker", 3, "ml.g5.xlarge, ml.c5.xlarge", None, None)]


PATCHES = {
    "groups that rsctl-launch does not know": (
        groups(("gpu", "ml.g5.xlarge", 1), ("cpu", "ml.c5.xlarge", 2)),
        [
            f"error {OVERLAY}: with this patch, the instance groups are gpu and cpu, and "
            "rsctl-launch supports only chief, workers and reducers: the containers would end "
            "immediately -> use these names, or set run.launcher: none for containers that read "
            "resourceconfig.json themselves"
        ],
    ),
    "a third group": (
        reducers(
            2,
            **sagemaker(
                overlay=[
                    {
                        "op": "add",
                        "path": "/ResourceConfig/InstanceGroups/-",
                        "value": {
                            "InstanceGroupName": "data",
                            "InstanceType": "ml.c5.xlarge",
                            "InstanceCount": 1,
                        },
                    }
                ]
            ),
        ),
        [
            f"error {OVERLAY}: with this patch, the instance groups are workers, reducers and "
            "data, and rsctl-launch supports only chief, workers and reducers: the containers "
            "would end immediately -> use these names, or set run.launcher: none for containers "
            "that read resourceconfig.json themselves"
        ],
    ),
    "one group of whatever name is a job of workers": (
        groups(("gpu", "ml.c5.xlarge", 2)),
        [],
    ),
    "reducers that the job knows nothing of": (
        groups(("workers", "ml.c5.xlarge", 2), ("reducers", "ml.c5n.9xlarge", 2)),
        [
            f"error {OVERLAY}: with this patch, the job has 2 reducers, which its workers are "
            "not configured for -> set reducers.count instead"
        ],
    ),
    "a job whose reducers are taken away": (
        reducers(
            2,
            **resources(InstanceGroups=None, InstanceType="ml.c5.xlarge", InstanceCount=2),
        ),
        [
            f"error {OVERLAY}: with this patch, the job has no reducers, and its workers would "
            "wait for them -> set reducers.count: 0 instead"
        ],
    ),
    "a group of no machine": (
        reducers(
            2,
            **sagemaker(
                overlay=[
                    {
                        "op": "replace",
                        "path": "/ResourceConfig/InstanceGroups/0/InstanceCount",
                        "value": 0,
                    }
                ]
            ),
        ),
        [
            f"error {OVERLAY}: with this patch, the group workers has no machine -> set it to at "
            "least one"
        ],
    ),
    "fewer accelerators than ranks": (
        merged(A10G, resources(InstanceType="ml.g5.xlarge")),
        [
            f"warning {OVERLAY}: with this patch, workers are on ml.g5.xlarge, which has a10g:1, "
            "but the request starts 4 ranks on each -> set workers.machine and "
            "workers.accelerator instead, which determine the ranks"
        ],
    ),
}


@pytest.mark.parametrize("title", PATCHES)
def test_what_the_containers_could_not_do(title: str, tmp_path: Path) -> None:
    changes, expected = PATCHES[title]
    assert reported(tmp_path, changes) == expected
