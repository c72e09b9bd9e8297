"""What a container finds in its environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.vertex.roles import PLATFORM_ROLES
from tests.fixtures import real
from tests.targets.vertex.emulator.conftest import Project, pool

REAL = real("vertex_cluster_spec")


def test_the_environment_of_a_distributed_job(project: Project, tmp_path: Path) -> None:
    project.emulator.storage.make("data")
    chief = pool(
        command=["python", "-m", "a"],
        args=["--x", "1"],
        env=[{"name": "MINE", "value": "/gcs/inputs/a"}, {"name": "RANK", "value": "9"}],
    )
    spec: dict[str, Any] = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/runs/"}}
    job, nodes = project.start(chief, pool(2, command=[]), pool(1), pool(1), **spec)
    found = {f"{n}-{i}": nodes.node(f"workerpool{n}-{i}") for n, i in
             [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0)]}  # fmt: skip
    names = {place: node.name for place, node in found.items()}
    assert all(name.startswith("cmle-training-workerpool") for name in names.values())
    first, last = found["0-0"], found["1-1"]
    assert (first.entrypoint, first.args) == (["python", "-m", "a"], ["--x", "1"])
    assert (last.entrypoint, last.args) == (None, [])
    assert set(first.mounts) == {"/gcs/data", "/gcs/inputs", "/gcs/out", "/gcs/staging"}
    assert first.mounts["/gcs/out"] == tmp_path / "gs" / "out"
    cluster = {
        "workerpool0": [f"{names['0-0']}:2222"],
        "workerpool1": [f"{names['1-0']}:2222", f"{names['1-1']}:2222"],
        "workerpool2": [f"{names['2-0']}:2222"],
        "workerpool3": [f"{names['3-0']}:2222"],
    }
    contract = json.loads(last.env["CLUSTER_SPEC"])
    assert contract.pop("job") == '{"python_module":"","package_uris":[],"job_args":[]}'
    task = {"type": "workerpool1", "index": 1}
    assert contract == {"cluster": cluster, "environment": "cloud", "task": task}
    assert json.loads(last.env["TF_CONFIG"]) == {
        "cluster": {
            "chief": cluster["workerpool0"],
            "worker": cluster["workerpool1"],
            "ps": cluster["workerpool2"],
        },
        "environment": "cloud",
        "task": {"type": "worker", "index": 1},
    }
    evaluator = json.loads(found["3-0"].env["TF_CONFIG"])
    assert evaluator["task"] == {"type": "evaluator", "index": 0}
    rest = {n: v for n, v in first.env.items() if n not in ("CLUSTER_SPEC", "TF_CONFIG")}
    assert rest == {
        "MINE": "/gcs/inputs/a",
        "AIP_MODEL_DIR": "gs://out/runs/model/",
        "AIP_CHECKPOINT_DIR": "gs://out/runs/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": "gs://out/runs/logs/",
        "CLOUD_ML_JOB_ID": job,
        "CLOUD_ML_PROJECT_ID": "123456789012",
        "CLOUD_ML_REGION": "us-central1",
        "MASTER_ADDR": names["0-0"],
        "MASTER_PORT": "2222",
        "RANK": "0",
        "WORLD_SIZE": "3",
    }
    assert [found[place].env.get("RANK") for place in ("1-0", "1-1", "2-0")] == ["1", "2", None]
    assert found["2-0"].env["WORLD_SIZE"] == "3"


def test_references_to_variables_are_replaced(project: Project) -> None:
    """As googleapis/python-aiplatform's samples have `--model-dir=$(AIP_MODEL_DIR)` in `args`."""
    env = [
        {"name": "LATE", "value": "$(MODEL)"},
        {"name": "MODEL", "value": "$(AIP_MODEL_DIR)b"},
        {"name": "COPY", "value": "$(MODEL) $(NOBODY) $$(MODEL) $$ $x"},
    ]
    args = ["--model-dir=$(AIP_MODEL_DIR)", "$(COPY)", "$(", "$(date)"]
    base = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/runs"}}
    _, nodes = project.start(pool(command=["sh", "$(MODEL)"], args=args, env=env), **base)
    node, model = nodes.node("workerpool0-0"), "gs://out/runs/model/"
    copy = f"{model}b $(NOBODY) $(MODEL) $ $x"
    assert {name: node.env[name] for name in ("LATE", "MODEL", "COPY")} == {
        "LATE": "$(MODEL)", "MODEL": f"{model}b", "COPY": copy,
    }  # fmt: skip
    assert node.entrypoint == ["sh", f"{model}b"]
    assert node.args == [f"--model-dir={model}", copy, "$(", "$(date)"]


def test_the_environment_of_a_single_node(project: Project) -> None:
    _, nodes = project.start(pool(), {})
    env = nodes.node("workerpool0-0").env
    assert "TF_CONFIG" not in env
    assert "AIP_MODEL_DIR" not in env
    assert (env["RANK"], env["WORLD_SIZE"]) == ("0", "1")


@pytest.mark.parametrize(
    ("pools", "name"), [(1, "one replica, as the service's runner printed it"),
                        (2, "two replicas, job as a JSON string")],
)  # fmt: skip
def test_cluster_spec_is_as_on_the_real_service(project: Project, pools: int, name: str) -> None:
    _, nodes = project.start(*[pool()] * pools)
    chief = nodes.node("workerpool0-0")
    made = json.loads(chief.env["CLUSTER_SPEC"])
    (real,) = [json.loads(one["value"]) for one in REAL if one["name"] == name]
    assert resolve_pools(made) == resolve_pools(real)
    (host,) = made["cluster"][made["task"]["type"]]
    assert host == f"{chief.name}:2222"
    assert chief.hostname not in ("", chief.name)


def resolve_pools(contract: dict[str, Any]) -> dict[str, Any]:
    """A CLUSTER_SPEC without what differs from job to job."""
    cluster = {pool: len(hosts) for pool, hosts in contract["cluster"].items()}
    job = sorted(json.loads(contract["job"]))
    return {**contract, "cluster": cluster, "job": job}


def test_tf_config_is_as_documented(project: Project) -> None:
    """What the platform calls the tasks of its pools; a job's roles go by these names."""
    example, types = real("vertex_tf_config")
    _, nodes = project.start(pool(), pool(2), pool(1), pool(1))
    tasks = [f"workerpool{number}-0" for number in range(4)]
    made = [json.loads(nodes.node(task).env["TF_CONFIG"]) for task in tasks]
    assert [one["task"]["type"] for one in made] == types["types"]
    cluster = made[1]["cluster"]
    assert not set(cluster) & set(types["not_in_cluster"])
    assert {name: len(hosts) for name, hosts in cluster.items()} == {
        name: len(hosts) for name, hosts in example["value"]["cluster"].items()
    }
    for name, number in example["pools"].items():
        assert cluster[name][0] == f"{nodes.node(f'workerpool{number}-0').name}:2222"
        assert PLATFORM_ROLES.get(number, name) == name
    assert set(made[1]) <= set(example["value"])
