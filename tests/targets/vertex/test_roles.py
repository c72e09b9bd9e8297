"""Target vertex: a job's own roles are worker pools 2 and 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.job.document import cells_of, read
from rsctl.plan import make_plan
from rsctl.targets.vertex.doctor import needed_quotas
from rsctl.targets.vertex.sdk import code
from rsctl.targets.vertex.target import TARGET
from tests.kit.rendering import RUN, merged, read_job

from .rendering import (
    GOOGLE_REDUCERS,
    URI,
    findings_of,
    job_of,
    mismatches,
    render,
    vertex,
    workers,
)
from .test_render import AWAITED, ENV, variables

ONCE = {"command": ["python", "train.py"], "args": {"lr": 0.1}, "launcher": "once"}
NAMES = {"RSCTL_POOL_ROLES": "workerpool2=ps,workerpool3=evaluator"}
ROLES = {
    "ps": {"count": 2, "command": ["python", "ps.py"], "args": ["--async"], "disk": "200GB"},
    "evaluator": {
        "machine": {"vertex": "n1-standard-8"},
        "accelerator": "t4:1",
        "args": {"evaluate": True},
        "env": {"A": "2", "PASS": "${TOKEN}"},
    },
}
JOB = {"run": {**ONCE, "env": {"A": "1"}}, "workers": {"count": 3}, "roles": ROLES}


def pool(
    count: int, machine: dict[str, Any], command: list[str], env: dict[str, Any]
) -> dict[str, Any]:
    launch = ["--launcher", "once", "--", *command]
    container = {"imageUri": URI, "command": ["rsctl-launch"], "args": launch}
    return {
        "machineSpec": machine,
        "replicaCount": str(count),
        "containerSpec": {**container, "env": variables({**env, **NAMES, **AWAITED, **ENV})},
    }


def pools_in(plan: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plan["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    return found


def names_in(plan: dict[str, Any]) -> list[str]:
    """The command or image of each pool, {} where there is none."""
    containers = [pool.get("containerSpec", {}) for pool in pools_in(plan)]
    return [c["args"][-1] if "args" in c else c.get("imageUri", "{}") for c in containers]


def test_parameter_servers_and_an_evaluator(tmp_path: Path) -> None:
    plan = render(tmp_path, JOB)
    small, train = {"machineType": "n1-standard-4"}, ["python", "train.py", "--lr", "0.1"]
    t4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4"}
    servers = pool(2, small, ["python", "ps.py", "--async"], {"A": "1"})
    evaluate = {"A": "2", "PASS": None}
    assert pools_in(plan) == [
        pool(1, small, train, {"A": "1"}),
        pool(2, small, train, {"A": "1"}),
        {**servers, "diskSpec": {"bootDiskSizeGb": 200}},
        pool(1, {**t4, "acceleratorCount": 1}, [*train, "--evaluate"], evaluate),
    ]
    assert [(p["role"], p["count"], p["machine"], p["accelerator"]) for p in plan["pools"]] == [
        ("worker", 3, "n1-standard-4", None),
        ("ps", 2, "n1-standard-4", None),
        ("evaluator", 1, "n1-standard-8", "t4:1"),
    ]
    assert (plan["world_size"], plan["env"]) == (3, {"A": "1", **NAMES, **AWAITED, **ENV})


@pytest.mark.parametrize(
    ("roles", "reducers", "expected"),
    [
        (["ps"], 0, ["{}", "ps"]),
        (["evaluator"], 0, ["{}", "{}", "evaluator"]),
        (["evaluator", "ps"], 0, ["{}", "ps", "evaluator"]),
        (["data"], 0, ["{}", "data"]),
        (["data", "ps"], 0, ["{}", "ps", "data"]),
        (["data", "evaluator"], 0, ["{}", "data", "evaluator"]),
        (["b", "a"], 0, ["{}", "b", "a"]),
        (["data"], 2, ["w", GOOGLE_REDUCERS, "data"]),
        (["evaluator"], 2, ["w", GOOGLE_REDUCERS, "evaluator"]),
    ],
)
def test_which_pool_a_role_gets(
    roles: list[str], reducers: int, expected: list[str], tmp_path: Path
) -> None:
    """`ps` and `evaluator` where Vertex AI calls them so; reducers need pool 2."""
    nodes = workers(2, "t4:1") if reducers else workers(1)
    own = {name: {"command": [name]} for name in roles}
    run = {"command": ["w"], "launcher": "once"}
    changes = {**nodes, "run": run, "reducers": {"count": reducers}, "roles": own}
    assert names_in(render(tmp_path, changes)) == ["w", *expected]


def test_beside_reducers_of_rsctl(tmp_path: Path) -> None:
    changes = merged(JOB, {"reducers": {"count": 1}, "roles": {"ps": None}})
    plan = render(tmp_path, changes)
    assert [p["role"] for p in plan["pools"]] == ["worker", "reducer", "evaluator"]
    assert plan["env"]["RSCTL_POOL_ROLES"] == "workerpool3=evaluator"
    assert plan["env"]["RSCTL_REDUCER_KIND"] == "rsctl"


def test_an_image_of_its_own_has_nothing_of_ours(tmp_path: Path) -> None:
    role = {"image": "cache:1", "command": ["serve"], "args": ["--port", "2222"]}
    plan = render(tmp_path, {**workers(1), "run": ONCE, "roles": {"cache": role}})
    container = pools_in(plan)[2]["containerSpec"]
    assert (container["imageUri"], container["command"]) == ("cache:1", ["serve"])
    assert container["args"] == ["--port", "2222"]
    assert plan["image"]["tag"] == URI


def test_the_chief_waits_for_a_role_that_ends_by_itself(tmp_path: Path) -> None:
    cache = {"image": "cache:1", "command": ["serve"]}
    roles = {"evaluator": {"ends": "by-itself"}, "cache": cache}
    plan = render(tmp_path, {**workers(1), "run": ONCE, "roles": roles})
    assert plan["env"]["RSCTL_AWAITED_ROLES"] == "evaluator"
    variables_of = [
        {each["name"] for each in pool["containerSpec"]["env"]} for pool in pools_in(plan) if pool
    ]
    assert ["RSCTL_TOKEN" in names for names in variables_of] == [True, False, True]
    plan = render(tmp_path, {**workers(2), "run": ONCE, "roles": {"evaluator": roles["evaluator"]}})
    named = [
        variable["value"]
        for each in pools_in(plan)
        for variable in each.get("containerSpec", {}).get("env", [])
        if variable["name"] == "RSCTL_AWAITED_ROLES"
    ]
    assert named == ["worker,evaluator"] * 3  # the same on all nodes: it numbers them


def test_without_a_launcher_the_request_is_as_others_write_it(tmp_path: Path) -> None:
    """TF_CONFIG says it all: no name of ours for `ps` and `evaluator`."""
    run = {"command": ["python", "train.py"], "launcher": "none"}
    roles = {"ps": {"count": 2}, "evaluator": {"args": ["--eval"]}}
    plan = render(tmp_path, {**workers(2), "run": run, "roles": roles})
    containers = [each["containerSpec"] for each in pools_in(plan)]
    assert [c["command"] for c in containers] == [["python", "train.py"]] * 4
    assert [c.get("args") for c in containers] == [None, None, None, ["--eval"]]
    assert "RSCTL_POOL_ROLES" not in plan["env"]


def test_a_package_runs_another_module(tmp_path: Path) -> None:
    run = {"package": "gs://bucket/trainer-0.1.tar.gz", "module": "trainer.task", "command": None}
    changes = {**workers(2), "run": {**run, "launcher": "none"}}
    roles = {"ps": {"count": 2}, "evaluator": {"module": "trainer.evaluate", "args": ["--all"]}}
    plan = render(tmp_path, {**changes, "roles": roles})
    specs = [each["pythonPackageSpec"] for each in pools_in(plan)]
    assert [s["pythonModule"] for s in specs] == ["trainer.task"] * 3 + ["trainer.evaluate"]
    assert [s.get("args") for s in specs] == [None, None, None, ["--all"]]


def test_a_reservation_is_of_the_workers_machines(tmp_path: Path) -> None:
    roles = {"ps": {"accelerator": "t4:1"}, "evaluator": {"accelerator": "l4:1"}}
    changes = {**workers(2, "l4:1"), "run": ONCE, "roles": roles, **vertex(reservation="any")}
    specs = [each["machineSpec"] for each in pools_in(render(tmp_path, changes))]
    assert ["reservationAffinity" in spec for spec in specs] == [True, True, False, True]


def test_its_machines_count_against_quotas_and_cost(tmp_path: Path) -> None:
    job = job_of(merged(JOB, {"roles": {"ps": {"count": 8}}}))
    submission = make_plan(read_job(tmp_path, job), TARGET, RUN)
    plan = submission.plan
    assert needed_quotas(submission.job, plan) == {
        "custom_model_training_cpus": 3 * 4 + 8 * 4 + 8,
        "custom_model_training_nvidia_t4_gpus": 1,
    }
    assert plan.cost
    assert [(each.role, each.count) for each in plan.cost.prices] == [
        ("worker", 3),
        ("ps", 8),
        ("evaluator", 1),
    ]


def test_it_is_a_value_of_a_matrix_and_of_set(tmp_path: Path) -> None:
    job = job_of({"run": ONCE, "roles": {"ps": {}}, "matrix": {"roles.ps.count": [1, 4]}})
    found = cells_of(read_job(tmp_path, job))
    assert [cell.require_job().roles["ps"].count for _, cell in found] == [1, 4]
    chosen = read(str(tmp_path / "job.yaml"), ["roles.data.command=[serve]"], {})
    assert chosen.require_job().roles["data"].command == ["serve"]


def test_as_code_for_the_sdk(tmp_path: Path) -> None:
    changes = merged(JOB, {"roles": {"evaluator": {"env": {"PASS": None}}}})
    text = code(make_plan(read_job(tmp_path, job_of(changes)), TARGET, RUN))
    compile(text, "code", "exec")
    assert text.count('"replica_count"') == 4
    assert ('"python", "ps.py", "--async"' in text, '"--evaluate"' in text) == (True, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"roles": {"ps": {}, "evaluator": {}, "data": {}}},
            [
                "error roles.data: a job of Vertex AI has two worker pools besides the workers', "
                "and ps and evaluator take them -> remove a role, or combine two roles in one",
            ],
        ),
        (
            {**workers(2), "reducers": {"count": 1}, "roles": {"data": {}, "more": {}}},
            [
                "error roles.more: a job of Vertex AI has two worker pools besides the workers', "
                "and reducers and data take them -> remove a role, or combine two roles in one; "
                "or set reducers.count: 0",
                "note roles.data: it is worker pool 3, which Vertex AI's TF_CONFIG calls evaluator",
            ],
        ),
        (
            {
                **workers(2, "t4:1"),
                "run": {"launcher": "none"},
                "reducers": {"count": 4},
                "roles": {"ps": {}},
            },
            [
                "warning roles.ps: it is worker pool 3, which Vertex AI's TF_CONFIG calls "
                "evaluator: reducers take pool 2 -> for TensorFlow, set reducers.count: 0",
            ],
        ),
        (
            {
                "run": {**ONCE, "args": [], "launcher": "none"},
                "roles": {"evaluator": {"ends": "by-itself"}},
            },
            [
                "error roles.evaluator.ends: Vertex AI ends a job when its chief has ended, even "
                "if other replicas still run, and launcher none does not use rsctl-launch, which "
                "would make the chief wait -> set roles.evaluator.ends: with-workers, and let "
                "the chief wait for its work",
            ],
        ),
        (
            {"roles": {"evaluator": {"image": "e:1", "ends": "by-itself"}}},
            [
                "error roles.evaluator.ends: Vertex AI ends a job when its chief has ended, even "
                "if other replicas still run, and a separate image has no rsctl-launch, which "
                "would report its end to the chief -> set roles.evaluator.ends: with-workers",
            ],
        ),
        (
            {"roles": {"ps": {"machine": "n1-standard-5", "accelerator": "t4:1"}}},
            [
                (
                    "error roles.ps.machine: role ps: 'n1-standard-5' is not a known machine type "
                    "of Vertex AI as of 2026-11-23 -> did you mean n1-standard-8? for a newer one, "
                    "set the nearest known type here and machineType in targets.vertex.overlay"
                )
            ],
        ),
        (
            {"roles": {"ps": {"machine": "n2-highcpu-16", "accelerator": "t4:1"}}},
            ["error roles.ps.machine: role ps: n2-highcpu-16 cannot have t4 -> roles.ps.machine"],
        ),
        (
            {"roles": {"ps": {"accelerator": "gaudi:1"}}},
            ["error roles.ps.accelerator: role ps: Vertex AI has no accelerator 'gaudi' -> use"],
        ),
        (
            {"roles": {"ps": {"disk": "1GB"}}},
            [
                (
                    "error roles.ps.disk: role ps: a boot disk must have from 100 to 64000 GB, not "
                    "1 -> set roles.ps.disk: 100GB"
                )
            ],
        ),
        (
            {"roles": {"ps": {"env": {"CLUSTER_SPEC": "x"}}}},
            [
                (
                    "error roles.ps.env.CLUSTER_SPEC: role ps: Vertex AI sets CLUSTER_SPEC itself, "
                    "to identify a replica -> use another name"
                )
            ],
        ),
        (
            {
                **workers(2, "gb200:4", "a4x-highgpu-4g"),
                "run": {**ONCE, "launcher": "once"},
                "roles": {"ps": {"machine": "n2-standard-8"}},
            },
            [
                "error roles.ps.machine: n2-standard-8 and a4x-highgpu-4g have different "
                "processors, but share one image -> use machine types with the same processors, "
                "or set roles.ps.image",
            ],
        ),
        (
            {
                **workers(2, "a100-40gb:1"),
                "roles": {"ps": {}, "evaluator": {"accelerator": "a100-40gb:1"}},
                **vertex(capacity="flex-start"),
            },
            [
                (
                    "error roles.ps.machine: flex start gives all pools the same machine type, and "
                    "the role's is different -> use the workers' machine type for it, or set "
                    "another targets.vertex.capacity"
                ),
                "note roles.evaluator.count: 40 vCPUs ... preemptible_cpus -> doctor",
            ],
        ),
        (
            {"roles": {"ps": {"count": 600}}},
            [
                "warning roles.ps.count: 1 x n1-standard-4 and 600 x n1-standard-4 have 2404 "
                "vCPUs -> quota"
            ],
        ),
        (
            {
                "roles": {"ps": {}},
                **vertex(overlay=[{"op": "remove", "path": "/jobSpec/workerPoolSpecs/2"}]),
            },
            [
                "error targets.vertex.overlay: with this patch, role ps has no worker pool, and "
                "the other nodes expect it -> remove the role instead",
            ],
        ),
    ],
)
def test_what_it_cannot_have(changes: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    found = findings_of(tmp_path, {"run": ONCE, **changes})
    keys = ("roles", "targets.vertex.overlay")
    assert mismatches([f for f in found if (f.path or "").startswith(keys)], expected) == []
