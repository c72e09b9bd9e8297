"""Target sagemaker: a chief that differs from the other workers is an instance group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.base import replica_names
from rsctl.targets.sagemaker.hosts import Hosts
from rsctl.targets.sagemaker.long_arguments import decode_arguments
from rsctl.targets.sagemaker.pools import pools_of

from .case_parts import reducers
from .rendering import URI, render, reported, sagemaker
from .test_request import ENV, OWN_TAGS, ROLE, RUN, launch

RANKS = {"run": {"args": {"lr": 0.1}}, "limits": {"timeout": "2h"}}
GROUPS = {"chief": "ml.c5.xlarge", "workers": "ml.g5.12xlarge"}


def of_groups(body: dict[str, Any]) -> list[list[str]]:
    return [decode_arguments(body, group) for group in ("chief", "workers")]


def test_its_own_machine_arguments_and_variables(tmp_path: Path) -> None:
    changes = {
        **RANKS,
        "workers": {"count": 3, "accelerator": "a10g:4"},
        "chief": {
            "machine": {"sagemaker": "ml.c5.xlarge"},
            "accelerator": "none",
            "args": {"chief": True},
            "env": {"A": "1"},
        },
        "comm": {"backend": "gloo"},
    }
    plan = render(tmp_path, changes)
    body = plan["request"]["body"]
    chief = ["--launcher", "torchrun", "--env", "A=1", "--processes", "1", "--"]
    chief += ["python", "train.py", "--lr", "0.1", "--chief"]
    arguments = {"chief": chief, "*": [*launch(4), "--lr", "0.1"]}
    assert body == {
        "TrainingJobName": RUN,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {
            "TrainingImage": URI,
            "TrainingInputMode": "FastFile",
            "ContainerEntrypoint": ["rsctl-launch"],
            "ContainerArguments": ["--arguments-from", "hyperparameters"],
        },
        "HyperParameters": {"rsctl_arguments_0": json.dumps(arguments)},
        "Environment": {"RSCTL_COMM_BACKEND": "gloo", **ENV},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs"},
        "ResourceConfig": {
            "InstanceGroups": [
                {"InstanceGroupName": n, "InstanceType": GROUPS[n], "InstanceCount": count}
                for n, count in (("chief", 1), ("workers", 2))
            ],
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
        "Tags": OWN_TAGS,
    }
    assert of_groups(body) == [chief, [*launch(4), "--lr", "0.1"]]
    assert [(p["role"], p["count"], p["machine"]) for p in plan["pools"]] == [
        ("worker", 1, "ml.c5.xlarge"),
        ("worker", 2, "ml.g5.12xlarge"),
    ]
    assert (plan["world_size"], plan["env"]["A"]) == (1 + 2 * 4, "1")


def test_another_machine_alone_needs_no_arguments_of_its_own(tmp_path: Path) -> None:
    changes = {**reducers(1), "workers": {"count": 2}, "chief": {"machine": "ml.c5.xlarge"}}
    body = render(tmp_path, changes)["request"]["body"]
    assert body["AlgorithmSpecification"]["ContainerArguments"] == launch(1)
    groups = body["ResourceConfig"]["InstanceGroups"]
    assert [g["InstanceGroupName"] for g in groups] == ["chief", "workers", "reducers"]


def test_all_workers_get_the_data_and_reducers_none(tmp_path: Path) -> None:
    changes = {
        **reducers(1),
        "workers": {"count": 2},
        "chief": {"machine": "ml.c5.xlarge"},
        "inputs": {"train": "s3://bucket/data/"},
    }
    (channel,) = render(tmp_path, changes)["request"]["body"]["InputDataConfig"]
    names = channel["DataSource"]["S3DataSource"]["InstanceGroupNames"]
    assert names == ["chief", "workers"]


def test_the_only_worker_is_the_chief(tmp_path: Path) -> None:
    chief = {"machine": "ml.c5.xlarge", "args": ["--chief"], "env": {"A": "1"}}
    body = render(tmp_path, {"chief": chief})["request"]["body"]
    resources = body["ResourceConfig"]
    assert (resources["InstanceType"], resources["InstanceCount"]) == ("ml.c5.xlarge", 1)
    assert body["AlgorithmSpecification"]["ContainerArguments"] == [*launch(1), "--chief"]
    assert body["Environment"]["A"] == "1"


def test_hosts_are_not_told_apart_by_their_numbers(tmp_path: Path) -> None:
    """Which host is in which group only its own first line says."""
    changes = {"workers": {"count": 3}, "chief": {"env": {"A": "1"}}}
    pools = pools_of(render(tmp_path, changes)["request"]["body"])
    assert replica_names(pools) == ["worker-0", "worker-1", "worker-2"]
    hosts = Hosts("job", pools)
    line = '{"rsctl": "node", "replica": "worker-0", "host": "algo-3"}'
    hosts.examine("job/algo-3-1", line)
    assert (hosts.replica("job/algo-3-1"), hosts.replica("job/algo-1-1")) == ("worker-0", None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"workers": {"count": 2}, "chief": {"disk": "50GB"}},
            [
                "error chief.disk: target sagemaker: SageMaker gives all machines of a job "
                "volumes of the same size -> set workers.disk"
            ],
        ),
        (
            {
                "workers": {"count": 2},
                "run": {"launcher": "none"},
                "chief": {"args": ["--chief"], "env": {"A": "1"}},
            },
            [
                f"error chief.{key}: SageMaker gives all machines of a job the same {key}, and "
                "launcher none does not use rsctl-launch, which would give the chief its own -> "
                "use launcher once, or let the script read SM_CURRENT_HOST"
                for key in ("args", "env")
            ],
        ),
        (
            {
                "workers": {"count": 2},
                "run": {"package": "s3://bucket/a.tar.gz", "command": None, "module": "a"}
                | {"launcher": "none"},
                "chief": {"machine": "ml.c5.xlarge"},
            },
            [
                "error chief: SageMaker's images start a package in the same way on all machines "
                "-> use image.base and image.source instead"
            ],
        ),
        (
            {
                "workers": {"count": 2},
                "chief": {"env": {"PASS": "${TOKEN}", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}},
            },
            [
                "error chief.env.PASS: SageMaker gives all machines of a job the same variables, "
                "so those of the chief are passed as arguments, which are not safe for a secret "
                "-> move PASS to run.env"
            ],
        ),
        (
            {"workers": {"count": 2}, "chief": {"machine": "ml.g5.12xlarge"}},
            [
                "warning chief.machine: the chief: ml.g5.12xlarge has a10g:4, which a job without "
                "chief.accelerator does not use -> set chief.accelerator: a10g:4"
            ],
        ),
        (
            {"workers": {"count": 2}, "chief": {"machine": "c5.xlarge"}},
            [
                "error chief.machine: the chief: SageMaker training has no machine type "
                "'c5.xlarge' -> write ml.c5.xlarge"
            ],
        ),
        (
            {
                "workers": {"count": 2},
                "chief": {"env": {"A": "1"}},
                **sagemaker(instance_preferences=["ml.c5.xlarge"], keep_alive="1h"),
            },
            [
                "error targets.sagemaker.instance_preferences: SageMaker chooses among machine "
                "types only if all workers are identical -> remove it, or chief",
                "error targets.sagemaker.keep_alive: SageMaker's "
                "ResourceConfig.KeepAlivePeriodInSeconds: SageMaker does not keep machines in "
                "groups warm, as used for reducers, chief or roles -> remove it, or use the same "
                "machine type for all",
            ],
        ),
        (
            {
                "workers": {"count": 2},
                "chief": {"env": {"A": "1"}},
                **sagemaker(overlay=[{"op": "remove", "path": "/ResourceConfig/InstanceGroups/0"}]),
            },
            [
                "error targets.sagemaker.overlay: with this patch, the group chief is missing -> "
                "remove the key chief instead"
            ],
        ),
    ],
)
def test_what_it_cannot_have(changes: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    assert reported(tmp_path, changes) == expected
