"""Target sagemaker: each of a job's own roles is an instance group of its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.base import replica_names
from rsctl.targets.sagemaker.pools import pools_of
from tests.kit.rendering import merged

from .rendering import ROLE, URI, render, reported, sagemaker
from .test_request import ENV, OWN_TAGS, RUN, launch

ROLES = {
    "ps": {"count": 2, "command": ["python", "ps.py"], "args": ["--async"]},
    "evaluator": {
        "machine": {"sagemaker": "ml.g5.xlarge"},
        "accelerator": "a10g:1",
        "args": {"evaluate": True},
        "env": {"A": "1"},
        "ends": "by-itself",
    },
}
JOB = {
    "run": {"args": {"lr": 0.1}},
    "workers": {"count": 3, "machine": "ml.c5.xlarge"},
    "roles": ROLES,
    "limits": {"timeout": "2h"},
}


def test_parameter_servers_and_an_evaluator(tmp_path: Path) -> None:
    plan = render(tmp_path, JOB)
    once = ["--launcher", "once"]
    train = ["--", "python", "train.py", "--lr", "0.1"]
    arguments = {
        "ps": [*once, "--", "python", "ps.py", "--async"],
        "evaluator": [*once, "--env", "A=1", *train, "--evaluate"],
        "*": [*launch(1), "--lr", "0.1"],
    }
    text = json.dumps(arguments)
    pieces = [text[start : start + 256] for start in range(0, len(text), 256)]
    machines = {"workers": "ml.c5.xlarge", "ps": "ml.m5.xlarge", "evaluator": "ml.g5.xlarge"}
    assert plan["request"]["body"] == {
        "TrainingJobName": RUN,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {
            "TrainingImage": URI,
            "TrainingInputMode": "FastFile",
            "ContainerEntrypoint": ["rsctl-launch"],
            "ContainerArguments": ["--arguments-from", "hyperparameters"],
        },
        "HyperParameters": {f"rsctl_arguments_{n}": piece for n, piece in enumerate(pieces)},
        "Environment": {**ENV, "RSCTL_STOPPED_ROLES": "ps", "RSCTL_TOKEN": None},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs"},
        "ResourceConfig": {
            "InstanceGroups": [
                {"InstanceGroupName": n, "InstanceType": machines[n], "InstanceCount": count}
                for n, count in (("workers", 3), ("ps", 2), ("evaluator", 1))
            ],
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
        "Tags": OWN_TAGS,
    }
    assert [(p["role"], p["count"], p["machine"], p["accelerator"]) for p in plan["pools"]] == [
        ("worker", 3, "ml.c5.xlarge", None),
        ("ps", 2, "ml.m5.xlarge", None),
        ("evaluator", 1, "ml.g5.xlarge", "a10g:1"),
    ]
    assert plan["world_size"] == 3


def test_beside_a_chief_and_reducers(tmp_path: Path) -> None:
    changes = merged(JOB, {"chief": {"args": {"save": True}}, "reducers": {"count": 1}})
    plan = render(tmp_path, changes)
    groups = plan["request"]["body"]["ResourceConfig"]["InstanceGroups"]
    names = ["chief", "workers", "reducers", "ps", "evaluator"]
    assert [group["InstanceGroupName"] for group in groups] == names
    assert replica_names(pools_of(plan["request"]["body"])) == [
        *("worker-0", "worker-1", "worker-2", "reducer-0", "ps-0", "ps-1", "evaluator-0")
    ]


def test_roles_get_the_data_and_reducers_none(tmp_path: Path) -> None:
    changes = merged(JOB, {"reducers": {"count": 1}, "inputs": {"train": "s3://bucket/data/"}})
    (channel,) = render(tmp_path, changes)["request"]["body"]["InputDataConfig"]
    names = channel["DataSource"]["S3DataSource"]["InstanceGroupNames"]
    assert names == ["workers", "ps", "evaluator"]


def test_mpi_starts_ranks_on_workers_only(tmp_path: Path) -> None:
    changes = merged(JOB, {"run": {"launcher": "mpi"}, "workers": {"count": 2}})
    plan = render(tmp_path, changes)
    arguments = json.loads("".join(plan["request"]["body"]["HyperParameters"].values()))
    launchers = {name: each[1] for name, each in arguments.items()}
    assert launchers == {"ps": "once", "evaluator": "once", "*": "mpi"}
    assert plan["world_size"] == 2


def test_one_program_that_looks_at_its_group_needs_nothing_of_ours(tmp_path: Path) -> None:
    """As in AWS's own samples: one launcher.py for all, which serves data in a group of its own."""
    changes = {
        "run": {"command": ["python", "launcher.py"], "launcher": "none"},
        "roles": {"data": {"machine": "ml.c5.9xlarge", "ends": "by-itself"}},
    }
    body = render(tmp_path, changes)["request"]["body"]
    assert body["AlgorithmSpecification"]["ContainerEntrypoint"] == ["python", "launcher.py"]
    assert "ContainerArguments" not in body["AlgorithmSpecification"]
    assert "RSCTL_STOPPED_ROLES" not in body["Environment"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"roles": {"ps": {"image": "redis:7", "command": ["redis-server"], "disk": "50GB"}}},
            [
                "error roles.ps.image: SageMaker starts all machines of a job from one image -> "
                "build one image for all of them (image.python, image.apt), or use another target",
                "error roles.ps.disk: SageMaker gives all machines of a job volumes of the same "
                "size -> set workers.disk",
            ],
        ),
        (
            {"run": {"launcher": "none"}, "roles": {"ps": {"args": ["--ps"], "env": {"A": "1"}}}},
            [
                "error roles.ps.ends: SageMaker ends a job when all of its containers have "
                "ended, and launcher none does not use rsctl-launch, which would stop the role's "
                "containers -> set roles.ps.ends: by-itself, and make sure that its program ends"
            ]
            + [
                f"error roles.ps.{key}: SageMaker gives all machines of a job the same {key}, "
                "and launcher none does not use rsctl-launch, which would give the role its own "
                "-> use launcher torchrun or once, or let the script read its instance group"
                for key in ("args", "env")
            ],
        ),
        (
            {"roles": {"ps": {"env": {"PASS": "${TOKEN}", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}}}},
            [
                "error roles.ps.env.PASS: SageMaker gives all machines of a job the same "
                "variables, so those of a role are passed as arguments, which are not safe for a "
                "secret -> move PASS to run.env"
            ],
        ),
        (
            {"roles": {"ps": {"machine": "ml.g5.xlarge"}}},
            [
                "warning roles.ps.machine: role ps: ml.g5.xlarge has a10g:1, which a job without "
                "roles.ps.accelerator does not use -> set roles.ps.accelerator: a10g:1"
            ],
        ),
        (
            {"roles": {"ps": {"machine": "c5.xlarge"}}},
            [
                "error roles.ps.machine: role ps: SageMaker training has no machine type "
                "'c5.xlarge' -> write ml.c5.xlarge"
            ],
        ),
        (
            {"roles": {"ps": {"accelerator": "a10g:3"}}},
            [
                "error roles.ps.accelerator: role ps: SageMaker training has no machine type "
                "with a10g:3 -> a machine type has 1 or 4 or 8 of a10g"
            ],
        ),
        (
            {
                "roles": {name: {"ends": "by-itself"} for name in ("a", "b", "c", "d", "e")},
                "workers": {"count": 2},
                "reducers": {"count": 1},
                "inputs": {"train": "s3://bucket/train/"},
            },
            [
                "error roles: SageMaker's ResourceConfig.InstanceGroups: it has 7 items, but "
                "SageMaker allows at most 5 -> at most 5 groups: workers, the roles, reducers, "
                "and a chief with a different configuration"
            ],
        ),
        (
            {
                "roles": {"ps": {}},
                **sagemaker(instance_preferences=["ml.c5.xlarge"], keep_alive="1h"),
            },
            [
                "error targets.sagemaker.instance_preferences: SageMaker chooses among machine "
                "types only if all nodes are workers -> remove it, or roles",
                "error targets.sagemaker.keep_alive: SageMaker's "
                "ResourceConfig.KeepAlivePeriodInSeconds: SageMaker does not keep machines in "
                "groups warm, as used for reducers, chief or roles -> remove it, or use the same "
                "machine type for all",
            ],
        ),
        (
            {
                "roles": {"ps": {}, "data": {}},
                **sagemaker(overlay=[{"op": "remove", "path": "/ResourceConfig/InstanceGroups/1"}]),
            },
            [
                "error targets.sagemaker.overlay: with this patch, the group ps is missing -> "
                "remove roles.ps instead"
            ],
        ),
    ],
)
def test_what_it_cannot_have(changes: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    assert reported(tmp_path, changes) == expected


PACKAGE = {"package": "s3://bucket/sourcedir.tar.gz", "script": "train.py", "command": None}


def test_a_package_is_started_by_mpi_on_the_workers_alone(tmp_path: Path) -> None:
    """As the estimator of AWS's SDK says it: `distribution` has `instance_groups`."""
    changes = {
        "run": {**PACKAGE, "launcher": "mpi"},
        "workers": {"count": 2},
        "roles": {"data": {"ends": "by-itself"}},
    }
    parameters = render(tmp_path, changes)["request"]["body"]["HyperParameters"]
    assert parameters["sagemaker_distribution_instance_groups"] == '["workers"]'
    assert parameters["sagemaker_mpi_enabled"] == "true"


def test_a_package_is_started_by_torchrun_on_the_workers_alone(tmp_path: Path) -> None:
    """As sagemaker-training 5.1.4 reads it, though AWS documents it for MPI and smddp only."""
    changes = {
        "run": {**PACKAGE, "launcher": "torchrun"},
        "workers": {"count": 2},
        "roles": {"data": {"ends": "by-itself"}},
    }
    parameters = render(tmp_path, changes)["request"]["body"]["HyperParameters"]
    assert parameters["sagemaker_distribution_instance_groups"] == '["workers"]'
    assert parameters["sagemaker_torch_distributed_enabled"] == "true"
    assert reported(tmp_path, changes, "error") == []
    (said,) = [text for text in reported(tmp_path, changes, "note") if "run.launcher" in text]
    assert "AWS documents for MPI and smddp only" in said
