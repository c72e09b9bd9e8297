"""What a container finds below /opt/ml and in its environment, and what of it reaches S3."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.sagemaker.emulator import Behaviour
from tests.fixtures import real
from tests.kit.polling import wait_until
from tests.targets.sagemaker.emulator.conftest import (
    IMAGE,
    Account,
    Answer,
    FakeNodes,
    body,
    channel,
    client,
    groups,
    refused,
)

ALGORITHM = body()["AlgorithmSpecification"]


def put(*keys: str, bucket: str = "staging") -> None:
    for key in keys:
        client("s3").put_object(Bucket=bucket, Key=key, Body=key.encode())


def config(nodes: FakeNodes, name: str, what: str) -> Any:
    return json.loads(nodes.inside(name, f"/opt/ml/input/config/{what}.json").read_text())


def tree(folder: Path) -> dict[str, str]:
    """All files below a folder, with what they hold."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def data(nodes: FakeNodes, name: str, channel: str) -> dict[str, str]:
    return tree(nodes.inside(name, f"/opt/ml/input/data/{channel}"))


def test_the_hosts_are_sorted_and_those_of_groups_are_not(account: Account) -> None:
    nodes = account.start(ResourceConfig=groups(workers=2, reducers=1))
    found = config(nodes, "algo-2", "resourceconfig")
    machine = "ml.c5n.9xlarge"
    assert found == {
        "current_host": "algo-2",
        "current_instance_type": machine,
        "current_group_name": "reducers",
        "hosts": ["algo-1", "algo-2", "algo-3"],
        "instance_groups": [
            {
                "instance_group_name": "workers",
                "instance_type": machine,
                "hosts": ["algo-3", "algo-1"],
            },
            {"instance_group_name": "reducers", "instance_type": machine, "hosts": ["algo-2"]},
        ],
        "network_interface_name": "eth0",
        "topology": None,
    }


def test_a_job_of_one_group(account: Account) -> None:
    nodes = account.start(
        HyperParameters={"lr": "0.1"},
        Environment={"MODE": "fast"},
        ResourceConfig={**body()["ResourceConfig"], "InstanceCount": 2},
    )
    found = config(nodes, "algo-1", "resourceconfig")
    assert found["current_group_name"] == "homogeneousCluster"
    assert found["hosts"] == ["algo-1", "algo-2"]
    assert found["instance_groups"][0]["hosts"] == ["algo-1", "algo-2"]
    assert config(nodes, "algo-1", "hyperparameters") == {"lr": "0.1"}
    assert config(nodes, "algo-1", "inputdataconfig") == {}
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/j"
    env = {"MODE": "fast", "TRAINING_JOB_NAME": "j", "TRAINING_JOB_ARN": arn}
    node = nodes.node("algo-1")
    assert (node.image, node.env) == (IMAGE, env)


def test_hosts_are_sorted_as_texts(account: Account) -> None:
    nodes = account.start(ResourceConfig={**body()["ResourceConfig"], "InstanceCount": 11})
    found = config(nodes, "algo-1", "resourceconfig")
    numbers = [1, 10, 11, *range(2, 10)]
    assert found["hosts"] == [f"algo-{number}" for number in numbers]


@pytest.mark.parametrize(
    ("given", "entrypoint", "args"),
    [
        ({}, None, ["train"]),
        ({"ContainerEntrypoint": ["python", "x.py"]}, ["python", "x.py"], []),
        (
            {"ContainerEntrypoint": ["rsctl-launch"], "ContainerArguments": ["--", "x"]},
            ["rsctl-launch"],
            ["--", "x"],
        ),
        ({"ContainerArguments": ["serve"]}, None, ["serve"]),
    ],
)
def test_the_command(account: Account, given: Answer, entrypoint: Any, args: list[str]) -> None:
    node = account.start(AlgorithmSpecification={**ALGORITHM, **given}).node("algo-1")
    assert (node.entrypoint, node.args) == (entrypoint, args)


def test_hosts_that_have_addresses_only(account: Account) -> None:
    """As processes are: the order of addresses is that of numbers, and ports are told."""

    def prepare(nodes: FakeNodes) -> None:
        nodes.addresses = {"algo-1": "127.9.1.1", "algo-2": "127.10.1.1", "algo-3": "127.2.1.1"}
        nodes.ports = {("algo-3", 29500): 20000, ("algo-1", 29599): 20016}

    account.runner.kind = "process"
    account.runner.prepare = prepare
    nodes = account.start(ResourceConfig=groups(workers=2, reducers=1))
    found = config(nodes, "algo-3", "resourceconfig")
    assert (found["current_host"], found["current_group_name"]) == ("127.2.1.1", "workers")
    assert found["hosts"] == ["127.2.1.1", "127.9.1.1", "127.10.1.1"]
    assert found["network_interface_name"] == "lo"
    env = nodes.node("algo-1").env
    assert (env["RSCTL_PORT"], env["RSCTL_REDUCER_PORTS"]) == ("20000", "20017")
    nodes.say("algo-3", '{"rsctl": "node", "replica": "worker-0", "host": "127.2.1.1"}')
    (event,) = wait_until(lambda: account.emulator.log_store.is_there and account.events())
    assert event["logStreamName"].startswith("j/algo-1-")
    assert event["message"] == '{"rsctl": "node", "replica": "worker-0", "host": "algo-1"}'


def test_channels(account: Account) -> None:
    put("data/train/a", "data/train/deep/b", "data/train-2/c", "one/file.csv", "other/x", "other/y")
    manifest = json.dumps([{"prefix": "s3://staging/other/"}, "y"]).encode()
    client("s3").put_object(Bucket="staging", Key="list.json", Body=manifest)
    workers = {"InstanceGroupNames": ["workers"]}
    nodes = account.start(
        ResourceConfig=groups(workers=2, reducers=1),
        InputDataConfig=[
            channel("folder", "s3://staging/data/train/", **workers),
            channel("start", "s3://staging/data/train", **workers),
            channel("file", "s3://staging/one/file.csv", **workers),
            channel("listed", "s3://staging/list.json", **workers, S3DataType="ManifestFile"),
            {
                **channel("part", "s3://staging/data/train/", **workers,
                          S3DataDistributionType="ShardedByS3Key"),
                "InputMode": "FastFile",
            },
        ],
    )  # fmt: skip
    folder = {"a": "data/train/a", "deep/b": "data/train/deep/b"}
    assert data(nodes, "algo-1", "folder") == folder
    assert data(nodes, "algo-3", "start") == {**folder, "train-2/c": "data/train-2/c"}
    assert data(nodes, "algo-1", "file") == {"file.csv": "one/file.csv"}
    assert data(nodes, "algo-1", "listed") == {"y": "other/y"}
    assert data(nodes, "algo-1", "part") == {"a": "data/train/a"}
    assert data(nodes, "algo-3", "part") == {"deep/b": "data/train/deep/b"}
    assert tree(nodes.inside("algo-2", "/opt/ml/input/data")) == {}
    assert config(nodes, "algo-2", "inputdataconfig") == {}
    assert config(nodes, "algo-1", "inputdataconfig")["part"] == {
        "TrainingInputMode": "FastFile",
        "S3DistributionType": "ShardedByS3Key",
        "RecordWrapperType": "None",
    }
    nodes.inside("algo-1", "/opt/ml/input/data/folder/a").write_text("changed")
    assert client("s3").get_object(Bucket="staging", Key="data/train/a")["Body"].read() == (
        b"data/train/a"
    )


def test_a_manifest_that_makes_no_sense(account: Account) -> None:
    put("list.json")
    wanted = body(InputDataConfig=[channel("d", "s3://staging/list.json",
                                           S3DataType="ManifestFile")])  # fmt: skip
    assert refused(account.sagemaker.create_training_job, **wanted) == (
        "ValidationException",
        "Invalid S3Uri s3://staging/list.json: s3://staging/list.json is not a valid manifest",
    )


def test_data_that_goes_before_it_is_read(account: Account, behaviour: Behaviour) -> None:
    put("data/a")
    storage = client("s3")  # which takes longer to make than the job to come to its data
    behaviour.launch = 1000.0
    account.create(InputDataConfig=[channel("d", "s3://staging/data/")])
    storage.delete_object(Bucket="staging", Key="data/a")
    assert account.wait("j", "Failed")["FailureReason"] == (
        "ClientError: Data download failed:s3://staging/data/ matched no files on s3"
    )


def test_results_of_all_hosts_are_packed(account: Account) -> None:
    nodes = account.start(ResourceConfig=groups(workers=2))
    for name in ("algo-1", "algo-2"):
        nodes.inside(name, f"/opt/ml/model/{name}").write_text(name)
        nodes.inside(name, f"/opt/ml/model/{name}").chmod(0o750)
        nodes.inside(name, "/opt/ml/output/data/same").write_text(f"of {name}")
    secret = account.folder / "secret"
    secret.write_text("not the container's")
    nodes.inside("algo-1", "/opt/ml/model/link").symlink_to(secret)
    os.mkfifo(nodes.inside("algo-1", "/opt/ml/model/pipe"))
    for name in ("algo-1", "algo-2"):
        nodes.exit(name)
    ended = account.wait("j", "Completed")
    place = account.folder / "s3" / "results" / "runs" / "j" / "output"
    assert sorted(path.name for path in place.iterdir()) == ["model.tar.gz", "output.tar.gz"]
    model = "s3://results/runs/j/output/model.tar.gz"
    assert ended["ModelArtifacts"]["S3ModelArtifacts"] == model
    with tarfile.open(place / "model.tar.gz") as archive:
        assert [(each.name, each.mode, each.linkname) for each in archive] == [
            ("algo-1", 0o750, ""),
            ("algo-2", 0o750, ""),
            ("link", 0o777, str(secret)),  # as it is, and not what it leads to here
        ]
    with tarfile.open(place / "output.tar.gz") as archive:
        same = archive.extractfile("same")
        assert same is not None
        assert same.read() == b"of algo-2"


def test_results_as_they_are(account: Account) -> None:
    output = {"S3OutputPath": "s3://results/runs/", "CompressionType": "NONE"}
    nodes = account.start(OutputDataConfig=output)
    nodes.inside("algo-1", "/opt/ml/model/a/b").parent.mkdir()
    nodes.inside("algo-1", "/opt/ml/model/a/b").write_text("model")
    nodes.inside("algo-1", "/opt/ml/output/data/log").write_text("log")
    nodes.exit("algo-1")
    ended = account.wait("j", "Completed")
    assert ended["ModelArtifacts"]["S3ModelArtifacts"] == "s3://results/runs/j/output/model/"
    assert tree(account.folder / "s3" / "results" / "runs" / "j" / "output") == {
        "model/a/b": "model",
        "data/log": "log",
    }


def test_a_reason_is_not_read_through_a_link(account: Account) -> None:
    nodes = account.start()
    nodes.inside("algo-1", "/opt/ml/output/failure").symlink_to("/etc/hostname")
    nodes.exit("algo-1", 1)
    assert account.wait("j", "Failed")["FailureReason"] == "AlgorithmError: , exit code: 1"


@pytest.fixture
def stored(account: Account) -> Callable[[], dict[str, str]]:
    return lambda: tree(account.folder / "s3" / "staging" / "ck")


def test_checkpoints_follow_what_hosts_do(
    account: Account, stored: Callable[[], dict[str, str]]
) -> None:
    put("ck/old/a", "ck/old/b")
    kept = {"S3Uri": "s3://staging/ck", "LocalPath": "/opt/ml/state"}
    nodes = account.start(ResourceConfig=groups(workers=2), CheckpointConfig=kept)
    assert nodes.inside("algo-2", "/opt/ml/state/old/a").read_text() == "ck/old/a"
    nodes.inside("algo-1", "/opt/ml/state/one").write_text("1")
    nodes.inside("algo-2", "/opt/ml/state/two").write_text("2")
    nodes.inside("algo-1", "/opt/ml/state/old/a").unlink()
    changed = {"old/b": "ck/old/b", "one": "1", "two": "2"}
    wait_until(lambda: stored() == changed)
    nodes.inside("algo-1", "/opt/ml/state/one").write_text("11")
    nodes.exit("algo-1")
    nodes.exit("algo-2")
    account.wait("j", "Completed")
    assert stored() == {**changed, "one": "11"}


def test_tensorboards_files_are_stored_as_they_come(account: Account) -> None:
    board = {"S3OutputPath": "s3://boards/b", "LocalPath": "/opt/ml/events"}
    nodes = account.start(TensorBoardOutputConfig=board)
    nodes.inside("algo-1", "/opt/ml/events/run").write_text("event")
    place = account.folder / "s3" / "boards" / "b" / "j" / "tensorboard-output"
    wait_until(lambda: tree(place) == {"run": "event"})


def test_what_cannot_be_stored_fails_the_job(account: Account) -> None:
    put("ck/a/b")
    nodes = account.start(CheckpointConfig={"S3Uri": "s3://staging/ck/a/b"})
    nodes.inside("algo-1", "/opt/ml/checkpoints/step").write_text("1")
    reason = account.wait("j", "Failed")["FailureReason"]
    assert reason == "ClientError: Artifact upload failed:ck/a/b/step cannot be stored"
    assert wait_until(lambda: nodes.is_closed)


def test_every_container_calls_itself_the_same(account: Account) -> None:
    """As on the real thing, so that nobody counts machines by `gethostname()`."""
    nodes = account.start(ResourceConfig=groups(workers=2))
    assert {nodes.node(name).hostname for name in ("algo-1", "algo-2")} == {"aws"}
    for name in ("algo-1", "algo-2"):
        nodes.exit(name)


def test_channels_are_told_as_in_the_toolkits_own_tests(account: Account) -> None:
    (case,) = [c for c in real("sagemaker_toolkit") if c["name"].startswith("the files of")]
    put("train/a", "validation/a")
    channels = [
        {**channel("train", "s3://staging/train/"), "ContentType": "trainingContentType"},
        channel("validation", "s3://staging/validation/"),
    ]
    algorithm = {**ALGORITHM, "TrainingInputMode": "File"}
    nodes = account.start(InputDataConfig=channels, AlgorithmSpecification=algorithm)
    assert config(nodes, "algo-1", "inputdataconfig") == case["files"]["inputdataconfig.json"]
    nodes.exit("algo-1")
