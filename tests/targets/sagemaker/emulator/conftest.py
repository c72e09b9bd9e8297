"""An emulated account whose machines are in memory: tests say what they print and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from rsctl.runs.stream.events import now
from rsctl.targets.managed.emulator.nodes import Node, NodeListener
from rsctl.targets.sagemaker.emulator import Behaviour, SageMakerEmulator
from tests.kit.nodes import MemoryNodes, MemoryRunner
from tests.kit.polling import wait_until
from tests.targets.managed.emulator.conftest import aws as aws
from tests.targets.managed.emulator.conftest import bare_environment as bare_environment

Found = TypeVar("Found")
Answer = dict[str, Any]
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"
ROLE = "arn:aws:iam::123456789012:role/train"
GROUP = "/aws/sagemaker/TrainingJobs"


class FakeNodes(MemoryNodes):
    """Nodes with addresses, ports and folders as tests want them."""

    def __init__(self, listener: NodeListener) -> None:
        super().__init__(listener)
        self.addresses: dict[str, str] = {}
        self.ports: dict[tuple[str, int], int] = {}
        self.graces: set[float] = set()

    def address(self, name: str) -> str:
        return self.addresses.get(name, name)

    def port(self, name: str, wanted: int) -> int:
        return self.ports.get((name, wanted), wanted)

    def start(self, node: Node) -> None:
        for folder in node.mounts.values():
            assert folder.is_dir()
        super().start(node)

    def stop(self, name: str, grace: float) -> None:
        self.graces.add(grace)
        super().stop(name, grace)

    def node(self, name: str) -> Node:
        """A node, once it is up."""
        return wait_until(lambda: self.up.get(name))

    def say(self, name: str, text: str, at: str | None = None) -> None:
        self.listener.line(self.node(name).name, "stdout", text, at or now())

    def exit(self, name: str, code: int = 0) -> None:
        self.node(name)
        del self.up[name]
        self.listener.ended(name, code)

    def inside(self, name: str, path: str) -> Path:
        """Where a path of a container is on this machine."""
        mounts = self.node(name).mounts
        mount = max((m for m in mounts if path.startswith(f"{m}/") or path == m), key=len)
        return mounts[mount] / path[len(mount) :].lstrip("/")


class FakeRunner(MemoryRunner[FakeNodes]):
    def __init__(self) -> None:
        super().__init__("docker", FakeNodes)


def client(service: str, **config: Any) -> Any:
    """Unmodified boto3, one try a call."""
    given = Config(retries={"total_max_attempts": 1}, **config)
    return boto3.Session().client(service, config=given)


def body(name: str = "j", **changes: Any) -> Answer:
    """A request of CreateTrainingJob; a change to None leaves a field out."""
    wanted = {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://results/runs"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        **changes,
    }  # fmt: skip
    return {key: value for key, value in wanted.items() if value is not None}


def groups(**counts: int) -> Answer:
    """A ResourceConfig of instance groups."""
    listed = [
        {"InstanceGroupName": name, "InstanceType": "ml.c5n.9xlarge", "InstanceCount": count}
        for name, count in counts.items()
    ]
    return {"InstanceGroups": listed, "VolumeSizeInGB": 10}


def channel(name: str, uri: str, **more: Any) -> Answer:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, **more}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def refused(call: Callable[..., Any], **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


class Account:
    """What tests do with an emulator, as a user with boto3 would."""

    def __init__(self, emulator: SageMakerEmulator, runner: FakeRunner, folder: Path) -> None:
        self.emulator = emulator
        self.runner = runner
        self.folder = folder
        self.sagemaker = client("sagemaker")
        self.logs = client("logs")

    def create(self, name: str = "j", **changes: Any) -> str:
        """The ARN of a new job."""
        arn: str = self.sagemaker.create_training_job(**body(name, **changes))["TrainingJobArn"]
        return arn

    def start(self, name: str = "j", **changes: Any) -> FakeNodes:
        """Create a job; its nodes, once it trains."""
        self.create(name, **changes)
        self.wait(name, "Training")
        return self.runner.jobs[name]

    def describe(self, name: str = "j") -> Answer:
        answer: Answer = self.sagemaker.describe_training_job(TrainingJobName=name)
        return answer

    def wait(self, name: str, secondary: str, seconds: float = 30.0) -> Answer:
        """The job, once it is in a secondary status."""

        def look() -> Answer | None:
            found = self.describe(name)
            return found if found["SecondaryStatus"] == secondary else None

        return wait_until(look, seconds=seconds)

    def phases(self, name: str = "j") -> list[str]:
        return [phase["Status"] for phase in self.describe(name)["SecondaryStatusTransitions"]]

    def events(self, **wanted: Any) -> list[Answer]:
        """All events, page by page."""
        found: list[Answer] = []
        while True:
            page = self.logs.filter_log_events(logGroupName=GROUP, **wanted)
            found += page["events"]
            if "nextToken" not in page:
                return found
            wanted["nextToken"] = page["nextToken"]


@pytest.fixture
def behaviour() -> Behaviour:
    """Hardly any waiting."""
    return Behaviour(pace=0.0005, log_reads=100_000, stream_reads=100_000)


@pytest.fixture
def account(
    tmp_path: Path, behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Account]:
    runner = FakeRunner()
    with SageMakerEmulator(tmp_path, runner, behaviour=behaviour) as emulator:  # type: ignore[arg-type]
        assert isinstance(emulator, SageMakerEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield Account(emulator, runner, tmp_path)
    assert all(nodes.is_closed for nodes in runner.jobs.values())
