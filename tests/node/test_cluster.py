"""The cluster as the local targets tell it, and how its mistakes are told."""

from __future__ import annotations

import json

import pytest

from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError
from rsctl.node.platforms import read_cluster

TWO_WORKERS = {"role": "worker", "index": 1, "workers": ["worker-0", "worker-1"], "reducers": []}


def read(**environ: str) -> Cluster:
    return read_cluster(environ)


def test_everything_given() -> None:
    fields = {**TWO_WORKERS, "reducers": ["reducer-0"], "interface": "eth0"}
    places = {"RSCTL_PORT": "29511", "RSCTL_REDUCER_PORTS": "29601"}
    assert read(RSCTL_CLUSTER=json.dumps(fields), **places) == Cluster(
        role="worker",
        index=1,
        workers=("worker-0", "worker-1"),
        reducers=("reducer-0",),
        interface="eth0",
        port=29511,
        reducer_ports=(29601,),
    )


def test_reducers_have_addresses() -> None:
    fields = {**TWO_WORKERS, "reducers": ["reducer-0", "reducer-1"]}
    assert read(RSCTL_CLUSTER=json.dumps(fields)).reducer_addresses == (
        "reducer-0:29600,reducer-1:29600"
    )


@pytest.mark.parametrize("ports", ["1,2", "x", "1,", "-1", "1 "])
def test_ports_that_are_not_one_for_each_reducer_are_refused(ports: str) -> None:
    fields = {**TWO_WORKERS, "reducers": ["reducer-0"]}
    with pytest.raises(LaunchError) as caught:
        read(RSCTL_CLUSTER=json.dumps(fields), RSCTL_REDUCER_PORTS=ports)
    assert caught.value.message == (
        f"the cluster has 1 reducers, but RSCTL_REDUCER_PORTS is {ports!r}"
    )


def test_defaults() -> None:
    fields = {"role": "worker", "index": 0, "workers": ["worker-0"]}
    assert read(RSCTL_CLUSTER=json.dumps(fields)) == Cluster(
        role="worker", index=0, workers=("worker-0",), reducers=(), interface=None, port=29500
    )


def test_a_later_rsctl_may_tell_more() -> None:
    assert read(RSCTL_CLUSTER=json.dumps({**TWO_WORKERS, "rack": "b"})).index == 1


def test_hosts_are_named_once() -> None:
    fields = {**TWO_WORKERS, "workers": ["127.0.0.1", "127.0.0.1"], "reducers": ["reducer-0"]}
    assert read(RSCTL_CLUSTER=json.dumps(fields)).hosts == ("127.0.0.1", "reducer-0")


def test_missing() -> None:
    with pytest.raises(LaunchError) as refused:
        read()
    assert (refused.value.exit_code, refused.value.code) == (2, "cluster-missing")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON: Expecting property name"),
        ("[]", "is not a JSON object"),
        (json.dumps({**TWO_WORKERS, "role": "boss"}), "has the role 'boss'; roles are worker and"),
        (json.dumps({**TWO_WORKERS, "role": ["worker"]}), "has the role ['worker']"),
        (json.dumps({**TWO_WORKERS, "workers": []}), "has no workers"),
        (
            json.dumps({**TWO_WORKERS, "workers": "a,b"}),
            "has workers that is not a list of host names",
        ),
        (
            json.dumps({**TWO_WORKERS, "reducers": [""]}),
            "has reducers that is not a list of host names",
        ),
        (json.dumps({**TWO_WORKERS, "index": 2}), "has the index 2, but there are 2 workers"),
        (json.dumps({**TWO_WORKERS, "index": True}), "has the index True, but there are 2 workers"),
        (
            json.dumps({**TWO_WORKERS, "role": "reducer"}),
            "has the index 1, but there are 0 reducers",
        ),
        (
            json.dumps({**TWO_WORKERS, "interface": 3}),
            "has the interface 3, which is not a valid name",
        ),
    ],
)
def test_malformed(text: str, problem: str) -> None:
    with pytest.raises(LaunchError) as refused:
        read(RSCTL_CLUSTER=text)
    assert (refused.value.exit_code, refused.value.code) == (2, "cluster-invalid")
    assert refused.value.message.startswith(f"RSCTL_CLUSTER {problem}")


@pytest.mark.parametrize("port", ["http", "-1", "nan"])
def test_a_port_that_is_none(port: str) -> None:
    with pytest.raises(LaunchError, match=rf"RSCTL_PORT is '{port}', not a number of 0 or more"):
        read(RSCTL_CLUSTER=json.dumps(TWO_WORKERS), RSCTL_PORT=port)
