"""The cluster of a node on Vertex AI: CLUSTER_SPEC as it is documented."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError
from rsctl.node.platforms import read_cluster
from tests.fixtures import real

POOLS = {
    "workerpool0": ["cmle-training-workerpool0-ab-0:2222"],
    "workerpool1": ["cmle-training-workerpool1-ab-0:2222", "cmle-training-workerpool1-ab-1:2222"],
    "workerpool2": ["cmle-training-workerpool2-ab-0:2222", "cmle-training-workerpool2-ab-1:2223"],
}
WORKERS = (
    "cmle-training-workerpool0-ab-0",
    "cmle-training-workerpool1-ab-0",
    "cmle-training-workerpool1-ab-1",
)
REDUCERS = ("cmle-training-workerpool2-ab-0", "cmle-training-workerpool2-ab-1")


def spec(pool: Any = "workerpool0", index: Any = 0, **pools: Any) -> dict[str, Any]:
    return {
        "cluster": {**POOLS, **pools},
        "environment": "cloud",
        "task": {"type": pool, "index": index, "trial": "7"},
        "job": {"worker_pool_specs": []},
    }


def read(fields: Any, **environ: str) -> Cluster:
    text = fields if isinstance(fields, str) else json.dumps(fields)
    return read_cluster({"CLUSTER_SPEC": text, "RSCTL_REDUCER_KIND": "rsctl", **environ})


def error_message(fields: Any, **environ: str) -> str:
    with pytest.raises(LaunchError) as caught:
        read(fields, **environ)
    assert caught.value.exit_code == 2
    return caught.value.message


@pytest.mark.parametrize(
    ("pool", "number", "role", "index"),
    [
        ("workerpool0", 0, "worker", 0),
        ("workerpool1", 0, "worker", 1),
        ("workerpool1", 1, "worker", 2),
        ("workerpool2", 0, "reducer", 0),
        ("workerpool2", 1, "reducer", 1),
    ],
)
def test_pools_and_their_roles(pool: str, number: int, role: str, index: int) -> None:
    assert read(spec(pool, number)) == Cluster(
        role=role,
        index=index,
        workers=WORKERS,
        reducers=REDUCERS,
        interface=None,
        port=2222,
        reducer_ports=(2222, 2223),
        platform="vertex",
    )


def test_one_node() -> None:
    fields = {
        "cluster": {"workerpool0": ["cmle-training-workerpool0-ab-0:2222"]},
        "environment": "cloud",
        "task": {"type": "workerpool0", "index": 0},
    }
    cluster = read(fields)
    assert (cluster.workers, cluster.reducers, cluster.replica) == (WORKERS[:1], (), "worker-0")


@pytest.mark.parametrize("one", real("vertex_cluster_spec"), ids=lambda one: one["name"])
def test_real_values(one: dict[str, Any]) -> None:
    cluster = read(one["value"])
    assert {
        "replica": cluster.replica,
        "workers": list(cluster.workers),
        "reducers": list(cluster.reducers),
        "port": cluster.port,
    } == one["cluster"]


@pytest.mark.parametrize("kind", ["", "reduction-server"])
def test_reducers_of_google_are_left_alone(kind: str) -> None:
    cluster = read(spec("workerpool1", 1), RSCTL_REDUCER_KIND=kind)
    assert (cluster.workers, cluster.reducers, cluster.reducer_addresses) == (WORKERS, (), "")
    assert error_message(spec("workerpool2", 0), RSCTL_REDUCER_KIND=kind) == (
        "rsctl-launch has nothing to run here: workerpool2 has no reducers of rsctl"
    )


def test_a_pool_that_was_left_empty() -> None:
    assert read(spec(workerpool1=[])).workers == WORKERS[:1]


def test_addresses_of_the_sixth_version() -> None:
    pools = {"workerpool1": [], "workerpool2": ["[fd00::7]:2222"]}
    cluster = read(spec(**pools))
    assert (cluster.reducers, cluster.reducer_addresses) == (("fd00::7",), "[fd00::7]:2222")


def test_the_target_decides_whose_contract_counts() -> None:
    local = json.dumps({"role": "worker", "index": 0, "workers": ["a"], "reducers": []})
    both = {"RSCTL_CLUSTER": local, "RSCTL_TARGET": "vertex"}
    assert read(spec(), **both).platform == "vertex"
    for target in ("compose", "process", ""):
        assert read(spec(), **{**both, "RSCTL_TARGET": target}).platform == "local"


def test_no_cluster_spec() -> None:
    with pytest.raises(LaunchError) as caught:
        read_cluster({"RSCTL_TARGET": "vertex"})
    assert (caught.value.exit_code, caught.value.code) == (2, "cluster-missing")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("{", "is not JSON: Expecting property name"),
        ("[" * 100_000, "is not JSON: "),
        ("[]", "is not a JSON object"),
        ({"task": {}}, "has cluster that is not a JSON object"),
        ({**spec(), "task": "workerpool0"}, "has task that is not a JSON object"),
        (spec(workerpool0=[]), "has 0 hosts in workerpool0, which is only for the chief"),
        (
            spec(workerpool0=["a:1", "b:1"]),
            "has 2 hosts in workerpool0, which is only for the chief",
        ),
        (spec(workerpool1="a:1"), "has workerpool1 that is not a list"),
        (spec(workerpool1=["a"]), "has 'a' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=["a:0"]), "has 'a:0' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=["a:65536"]), "has 'a:65536' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=["a:²"]), "has 'a:²' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=["-x:1"]), "has '-x:1' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=["a,b:1"]), "has 'a,b:1' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=["a\n:1"]), "has 'a\\n:1' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=[7]), "has '7' in workerpool1, which is not HOST:PORT"),
        (spec(workerpool1=["a:1", "a:1"]), "names a:1 twice"),
        (spec(chief=["a:1"]), "has both workerpool0 and chief"),
        (spec(index=1), "has the task index 1, but 1 hosts in workerpool0"),
        (spec(index=True), "has the task index True, but 1 hosts in workerpool0"),
        (spec(index="0"), "has the task index 0, but 1 hosts in workerpool0"),
        (spec("workerpool1", -1), "has the task index -1, but 2 hosts in workerpool1"),
    ],
)
def test_malformed(fields: Any, problem: str) -> None:
    assert error_message(fields).startswith(f"CLUSTER_SPEC {problem}")


@pytest.mark.parametrize("pool", ["workerpool3", "master", None, ["workerpool0"]])
def test_a_pool_that_rsctl_does_not_run(pool: Any) -> None:
    assert error_message(spec(pool)) == (
        f"rsctl-launch has nothing to run here: this node is in {str(pool)!r}"
    )
