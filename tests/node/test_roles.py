"""What nodes of a job with roles of its own know of each other, on every platform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.node.cluster import Cluster
from rsctl.node.environment import node_environment
from rsctl.node.errors import LaunchError
from rsctl.node.platforms import read_cluster
from rsctl.node.process_spec import of_role, once

from .platforms.test_vertex_cluster import spec
from .sagemaker import resource_config, write_config

HOSTS = {
    "worker": ["worker-0:29500", "worker-1:29500"],
    "ps": ["ps-0:29500", "ps-1:29500"],
    "evaluator": ["evaluator-0:29500"],
    "cache": ["cache-0:29500"],
}
TWO_PS = {"workerpool2": ["a:2222", "b:2222"], "workerpool3": ["c:2222"]}


def local(role: str, index: int = 0, roles: Any = None, **hosts: Any) -> dict[str, str]:
    """The variables of a node of a job with two workers, two ps, an evaluator and a cache, whose
    image has nothing of rsctl."""
    fields = {"role": role, "index": index, "workers": ["worker-0", "worker-1"], "interface": "lo"}
    fields["roles"] = roles or {"ps": ["ps-0", "ps-1"], "evaluator": ["evaluator-0"]}
    return {
        "RSCTL_CLUSTER": json.dumps(fields),
        "RSCTL_ROLE_HOSTS": json.dumps({**HOSTS, **hosts}),
    }


def sagemaker(root: Path, host: str) -> dict[str, str]:
    groups = {"ps": ["algo-4", "algo-3"], "workers": ["algo-2", "algo-1"]}
    write_config(root, resource_config(groups, host, "eth0"))
    return {"RSCTL_ROOT": str(root)}


def vertex(pool: str, index: int = 0, **pools: Any) -> dict[str, str]:
    fields = spec(pool, index, **{**TWO_PS, **pools})
    roles = "workerpool2=ps,workerpool3=evaluator"
    return {"CLUSTER_SPEC": json.dumps(fields), "RSCTL_POOL_ROLES": roles}


def environment_of(given: dict[str, str]) -> dict[str, str]:
    cluster = read_cluster(given)
    make = once if cluster.role == "worker" else of_role
    return make(cluster, ["true"], node_environment(cluster, given)).environ


def test_a_node_of_a_role_has_its_number_and_no_rank() -> None:
    environ = environment_of({**local("ps", 1), "RANK": "3", "WORLD_SIZE": "4"})
    assert json.loads(environ.pop("RSCTL_ROLE_HOSTS")) == HOSTS
    assert json.loads(environ.pop("TF_CONFIG")) == {
        "cluster": {
            "chief": ["worker-0:29500"],
            "worker": ["worker-1:29500"],
            "ps": ["ps-0:29500", "ps-1:29500"],
            "evaluator": ["evaluator-0:29500"],
        },
        "task": {"type": "ps", "index": 1},
    }
    del environ["RSCTL_CLUSTER"]
    assert environ == {
        "RSCTL_ROLE": "ps",
        "RSCTL_REPLICA": "ps-1",
        "RSCTL_ROLE_INDEX": "1",
        "RSCTL_ROLE_COUNT": "2",
        "RSCTL_REDUCERS": "",
        "MASTER_ADDR": "worker-0",
        "MASTER_PORT": "29500",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.mark.parametrize(
    ("given", "task"),
    [
        (local("worker", 0), {"type": "chief", "index": 0}),
        (local("worker", 1), {"type": "worker", "index": 0}),
        (local("evaluator"), {"type": "evaluator", "index": 0}),
        (vertex("workerpool0"), {"type": "chief", "index": 0}),
        (vertex("workerpool1", 1), {"type": "worker", "index": 1}),
        (vertex("workerpool2", 1), {"type": "ps", "index": 1}),
        (vertex("workerpool3"), {"type": "evaluator", "index": 0}),
        (
            {**vertex("workerpool3"), "TF_CONFIG": "the platform's"},
            {"type": "evaluator", "index": 0},
        ),
    ],
)
def test_tensorflow_finds_its_task(given: dict[str, str], task: dict[str, Any]) -> None:
    assert json.loads(environment_of(given)["TF_CONFIG"])["task"] == task


def test_one_that_tensorflow_does_not_know_has_no_task() -> None:
    roles = {"ps": ["ps-0", "ps-1"], "cache": ["cache-0"]}
    assert "TF_CONFIG" not in environment_of(local("cache", roles=roles))


def test_what_the_user_sets_stays() -> None:
    assert environment_of({**local("worker"), "TF_CONFIG": "{}"})["TF_CONFIG"] == "{}"


def test_a_job_without_roles_has_no_such_variables() -> None:
    given = {"RSCTL_CLUSTER": json.dumps({"role": "worker", "index": 0, "workers": ["h"]})}
    assert not {"TF_CONFIG", "RSCTL_ROLE_HOSTS", "RSCTL_ROLE_INDEX"} & set(environment_of(given))


def test_nodes_wait_for_those_that_rsctl_starts() -> None:
    cluster = read_cluster(local("worker"))
    assert cluster.hosts == ("worker-0", "worker-1", "ps-0", "ps-1", "evaluator-0")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (local("data"), "RSCTL_CLUSTER has the role 'data'; roles are worker, reducer, ps and"),
        (local("ps", 2), "RSCTL_CLUSTER has the index 2, but there are 2 nodes of role ps"),
        (
            local("ps", roles={"ps": []}),
            "RSCTL_CLUSTER has the role 'ps', which has no hosts or is not a valid name",
        ),
        (
            local("ps", roles={"worker": ["w"]}),
            "RSCTL_CLUSTER has the role 'worker', which has no hosts or is not a valid name",
        ),
        (local("ps", roles=["ps"]), "RSCTL_CLUSTER has roles that are not a JSON object"),
        (
            local("ps", roles={"ps": "ps-0"}),
            "RSCTL_CLUSTER has ps that is not a list of host names",
        ),
        (local("ps", ps=["one:1"]), "RSCTL_ROLE_HOSTS has 1 addresses of ps, but 2 nodes"),
        (local("ps", ps="one:1"), "RSCTL_ROLE_HOSTS has ps that is not a list of host names"),
        ({**local("ps"), "RSCTL_ROLE_HOSTS": "{"}, "RSCTL_ROLE_HOSTS is not JSON"),
        ({**local("ps"), "RSCTL_ROLE_HOSTS": "[]"}, "RSCTL_ROLE_HOSTS is not a JSON object"),
    ],
)
def test_what_makes_no_sense(given: dict[str, str], problem: str) -> None:
    with pytest.raises(LaunchError) as refused:
        read_cluster(given)
    assert refused.value.message.startswith(problem)


@pytest.mark.parametrize(("host", "replica"), [("algo-2", "worker-1"), ("algo-4", "ps-1")])
def test_groups_of_sagemaker(tmp_path: Path, host: str, replica: str) -> None:
    cluster = read_cluster(sagemaker(tmp_path, host))
    assert (cluster.replica, cluster.own_host) == (replica, host)
    assert (cluster.roles, cluster.role_hosts) == (
        {"ps": ("algo-3", "algo-4")},
        {"worker": ("algo-1:29500", "algo-2:29500"), "ps": ("algo-3:29500", "algo-4:29500")},
    )


def test_pools_of_vertex() -> None:
    cluster: Cluster = read_cluster(vertex("workerpool3"))
    assert (cluster.replica, cluster.own_host, cluster.reducers) == ("evaluator-0", "c", ())
    assert cluster.role_hosts["ps"] == ("a:2222", "b:2222")
    assert cluster.role_hosts["worker"][0] == "cmle-training-workerpool0-ab-0:2222"


def test_pools_that_are_no_list_and_addresses_twice() -> None:
    for pools, problem in (
        ({"workerpool3": ["a:2222"]}, "CLUSTER_SPEC names a:2222 twice"),
        ({"workerpool3": "c:2222"}, "CLUSTER_SPEC has workerpool3 that is not a list"),
    ):
        with pytest.raises(LaunchError) as refused:
            read_cluster(vertex("workerpool0", **pools))
        assert refused.value.message == problem
