"""The cluster of a node on SageMaker: resourceconfig.json in its real forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError
from rsctl.node.platforms import read_cluster
from tests.fixtures import real
from tests.node.sagemaker import resource_config, write_config

GROUPS = {
    "reducers": ["algo-2", "algo-12"],
    "workers": ["algo-10", "algo-3", "algo-1"],
}


def read(root: Path, config: Any, **environ: str) -> Cluster:
    write_config(root, config)
    return read_cluster({"RSCTL_ROOT": str(root), **environ})


def error_message(root: Path, config: Any) -> str:
    with pytest.raises(LaunchError) as caught:
        read(root, config)
    assert (caught.value.exit_code, caught.value.code) == (2, "cluster-invalid")
    return caught.value.message.removeprefix("/opt/ml/input/config/resourceconfig.json ")


@pytest.mark.parametrize(
    ("host", "role", "index"),
    [
        ("algo-1", "worker", 0),
        ("algo-3", "worker", 1),
        ("algo-10", "worker", 2),
        ("algo-2", "reducer", 0),
        ("algo-12", "reducer", 1),
    ],
)
def test_groups_sorted_by_number(tmp_path: Path, host: str, role: str, index: int) -> None:
    assert read(tmp_path, resource_config(GROUPS, host, "eth0")) == Cluster(
        role=role,
        index=index,
        workers=("algo-1", "algo-3", "algo-10"),
        reducers=("algo-2", "algo-12"),
        interface="eth0",
        port=29500,
        reducer_ports=(29600, 29600),
        platform="sagemaker",
    )


@pytest.mark.parametrize(
    ("host", "role", "index"),
    [("algo-12", "worker", 0), ("algo-3", "worker", 1), ("algo-2", "reducer", 0)],
)
def test_the_chief_comes_first_whatever_its_number(
    tmp_path: Path, host: str, role: str, index: int
) -> None:
    groups = {"reducers": ["algo-2"], "workers": ["algo-10", "algo-3"], "chief": ["algo-12"]}
    read_one = read(tmp_path, resource_config(groups, host, "eth0"))
    assert (read_one.role, read_one.index) == (role, index)
    assert (read_one.workers, read_one.reducers) == (("algo-12", "algo-3", "algo-10"), ("algo-2",))


def test_a_job_without_groups(tmp_path: Path) -> None:
    """The form of the documentation."""
    hosts = ["algo-2", "algo-10", "algo-1"]
    config = {"current_host": "algo-10", "hosts": hosts, "network_interface_name": "eth1"}
    cluster = read(tmp_path, config)
    assert (cluster.workers, cluster.replica) == (("algo-1", "algo-2", "algo-10"), "worker-2")
    assert (cluster.reducers, cluster.interface) == ((), "eth1")


@pytest.mark.parametrize("name", ["homogeneousCluster", "workers", "mine"])
def test_a_job_of_one_group(tmp_path: Path, name: str) -> None:
    cluster = read(tmp_path, resource_config({name: ["algo-2", "algo-1"]}, "algo-2"))
    assert (cluster.workers, cluster.index, cluster.reducers) == (("algo-1", "algo-2"), 1, ())


def test_the_toolkits_offline_form_names_the_group_otherwise(tmp_path: Path) -> None:
    config = resource_config(GROUPS, "algo-12")
    config["current_instance_group"] = config.pop("current_group_name")
    assert read(tmp_path, config).replica == "reducer-1"
    del config["current_instance_group"]
    assert read(tmp_path, config).replica == "reducer-1"


def test_ports_may_be_moved(tmp_path: Path) -> None:
    ports = {"RSCTL_PORT": "29501", "RSCTL_REDUCER_PORTS": "1,2"}
    cluster = read(tmp_path, resource_config(GROUPS, "algo-1"), **ports)
    assert (cluster.port, cluster.reducer_addresses) == (29501, "algo-2:1,algo-12:2")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        read_cluster({"RSCTL_TARGET": "sagemaker", "RSCTL_ROOT": str(tmp_path)})
    assert caught.value.code == "cluster-missing"
    path = tmp_path / "opt/ml/input/config/resourceconfig.json"
    assert caught.value.message == (
        f"RSCTL_TARGET is sagemaker, but {path} cannot be read: No such file or directory"
    )


ALONE = {"current_host": "algo-1", "hosts": ["algo-1"]}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ([], "is not a JSON object"),
        ({}, "has the current_host None, which is not a valid host name"),
        (
            {**ALONE, "current_host": "-x"},
            "has the current_host '-x', which is not a valid host name",
        ),
        ({**ALONE, "current_host": "algo-2"}, "has the current_host algo-2, which is in no group"),
        ({**ALONE, "hosts": []}, "has hosts that are not a list of host names"),
        ({**ALONE, "hosts": "algo-1"}, "has hosts that are not a list of host names"),
        ({**ALONE, "hosts": ["algo-1", "a,b"]}, "has 'a,b' among the hosts"),
        ({**ALONE, "hosts": ["algo-1", ["x"]]}, "has ['x'] among the hosts"),
        ({**ALONE, "hosts": ["algo-1", "algo-1"]}, "has a host twice among the hosts"),
        (
            {**ALONE, "network_interface_name": "../eth0"},
            "has the network_interface_name '../eth0', which is not a valid name",
        ),
        ({**ALONE, "instance_groups": {"a": 1}}, "has instance_groups that are not a list"),
        ({**ALONE, "instance_groups": ["workers"]}, "has a group of the name None"),
        (
            resource_config({"workers": ["algo-1"], "reducers": ["algo-1"]}, "algo-1"),
            "has a host in more than one group",
        ),
        (
            {**resource_config(GROUPS, "algo-1"), "current_group_name": "reducers"},
            "has algo-1 in group workers, but 'reducers' as the current group",
        ),
        (
            resource_config({**GROUPS, "Data!": ["algo-4"]}, "algo-4"),
            "has the groups Data!, reducers, workers; rsctl-launch supports chief, workers, "
            "reducers, and those of roles besides workers",
        ),
        (
            resource_config({"a": ["algo-1"], "b": ["algo-2"]}, "algo-1"),
            "has the groups a, b; rsctl-launch supports chief, workers, reducers, and those of "
            "roles besides workers",
        ),
    ],
)
def test_malformed(tmp_path: Path, config: Any, problem: str) -> None:
    assert error_message(tmp_path, config).startswith(problem)


def test_text_that_is_no_json(tmp_path: Path) -> None:
    write_config(tmp_path, None)
    path = tmp_path / "opt/ml/input/config/resourceconfig.json"
    path.write_bytes(b"\xff{")
    with pytest.raises(LaunchError, match=r"resourceconfig.json is not JSON: "):
        read_cluster({"RSCTL_ROOT": str(tmp_path)})


@pytest.mark.parametrize(
    "case", real("sagemaker_resourceconfig"), ids=lambda case: str(case["name"])
)
def test_files_of_the_real_service(tmp_path: Path, case: dict[str, Any]) -> None:
    expected = case["cluster"]
    if expected is None:
        assert "rsctl-launch supports chief, workers" in error_message(tmp_path, case["value"])
        return
    cluster = read(tmp_path, case["value"])
    assert (f"{cluster.role}-{cluster.index}", cluster.interface) == (
        expected["replica"],
        expected["interface"],
    )
    assert [list(cluster.workers), list(cluster.reducers)] == [
        expected["workers"],
        expected["reducers"],
    ]
