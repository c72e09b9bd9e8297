"""An emulated project whose nodes exist in memory: tests say what they print and how they end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.auth import default
from google.auth.transport.requests import AuthorizedSession

from rsctl.runs.stream.events import now
from rsctl.targets.managed.emulator.nodes import Node
from rsctl.targets.vertex.emulator import Behaviour, VertexEmulator
from tests.kit.nodes import MemoryNodes, MemoryRunner
from tests.kit.polling import wait_until
from tests.targets.managed.emulator.conftest import bare_environment as bare_environment
from tests.targets.managed.emulator.conftest import google as google

Found = TypeVar("Found")
CPU = {"machineType": "n1-standard-4"}
IMAGE = "us-docker.pkg.dev/p/r/train@sha256:" + "a" * 64
REDUCER_IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


class FakeNodes(MemoryNodes):
    """Nodes by the tasks of their job."""

    def label(self, name: str) -> str:
        return _task(name)

    def find(self, task: str) -> Node | None:
        return next((node for name, node in list(self.up.items()) if _task(name) == task), None)

    def node(self, task: str) -> Node:
        """The node of a task, once it is up."""
        return wait_until(lambda: self.find(task))

    def say(self, task: str, text: str, stream: str = "stdout", at: str | None = None) -> None:
        self.listener.line(self.node(task).name, stream, text, at or now())

    def exit(self, task: str, code: int) -> None:
        name = self.node(task).name
        del self.up[name]
        self.listener.ended(name, code)


class FakeRunner(MemoryRunner[FakeNodes]):
    def __init__(self) -> None:
        super().__init__("process", FakeNodes)


def _task(name: str) -> str:
    """`workerpool1-0` of `cmle-training-workerpool1-0123456789-0`."""
    _, _, pool, _, number = name.split("-")
    return f"{pool}-{number}"


class Project:
    """What tests do with an emulator, as a user with google-auth's session would."""

    def __init__(self, emulator: VertexEmulator, runner: FakeRunner) -> None:
        self.emulator = emulator
        self.runner = runner
        credentials, _ = default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        self.session = AuthorizedSession(credentials)
        self.url = f"{emulator.url}/v1/projects/rehearsal/locations/us-central1/customJobs"

    def create(self, **job: Any) -> dict[str, Any]:
        answer = self.session.post(self.url, json=job)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def start(self, *pools: dict[str, Any], **spec: Any) -> tuple[str, FakeNodes]:
        """Create a job of these pools; its id and its nodes, once it has some."""
        body = {"workerPoolSpecs": list(pools), **spec}
        job = self.create(displayName="j", jobSpec=body)["name"].rpartition("/")[2]
        return job, wait_until(lambda: self.runner.jobs.get(job))

    def get(self, job: str) -> dict[str, Any]:
        answer = self.session.get(f"{self.url}/{job}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait(self, job: str, state: str) -> dict[str, Any]:
        """The job, once it is in a state."""

        def look() -> dict[str, Any] | None:
            found = self.get(job)
            return found if found["state"] == f"JOB_STATE_{state}" else None

        return wait_until(look)

    def error(self, job: str) -> dict[str, Any]:
        """The job's error, once it is filled in."""
        found: dict[str, Any] = wait_until(lambda: self.get(job).get("error"))
        return found

    def logs(self, job: str, more: str = "", **body: Any) -> list[dict[str, Any]]:
        """All entries of a job, page by page."""
        wanted = {
            "resourceNames": ["projects/rehearsal"],
            "filter": f'resource.type="ml_job" AND resource.labels.job_id="{job}"{more}',
            "orderBy": "timestamp asc",
            "pageSize": 1000,
            **body,
        }
        entries: list[dict[str, Any]] = []
        while True:
            answer = self.session.post(f"{self.emulator.url}/v2/entries:list", json=wanted)
            assert answer.status_code == 200, answer.text
            entries += answer.json().get("entries", [])
            if "nextPageToken" not in answer.json():
                return entries
            wanted["pageToken"] = answer.json()["nextPageToken"]

    def service_log(self, job: str) -> list[str]:
        """What the service itself says of a job in its log."""
        return [e["textPayload"] for e in self.logs(job, ' resource.labels.task_name="service"')]


def pool(count: int = 1, image: str = IMAGE, **container: Any) -> dict[str, Any]:
    return {
        "machineSpec": CPU,
        "replicaCount": str(count),
        "containerSpec": {"imageUri": image, **container},
    }


def error(answer: Any) -> tuple[int, str, str]:
    body = answer.json()["error"]
    return answer.status_code, body["status"], body["message"]


_LOGS = (
    "\nTo find out more about why your job exited please check the logs: "
    "https://console.cloud.google.com/logs/viewer?project=123456789012&resource=ml_job%2Fjob_id%2F"
)


def failure(project: Project, job: str) -> tuple[int, str]:
    """The job's error, less the link to the log."""
    found = project.error(job)
    return found["code"], found["message"].partition(_LOGS)[0]


@pytest.fixture
def behaviour() -> Behaviour:
    """Hardly any waiting."""
    return Behaviour(pace=0.0005, log_reads=100_000, calls=100_000, submissions=100_000)


@pytest.fixture
def project(
    tmp_path: Path, behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    runner = FakeRunner()
    with VertexEmulator(tmp_path, runner, behaviour=behaviour) as emulator:  # type: ignore[arg-type]
        assert isinstance(emulator, VertexEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield Project(emulator, runner)
    assert all(nodes.is_closed for nodes in runner.jobs.values())
    assert not os.path.exists(os.environ["GOOGLE_APPLICATION_CREDENTIALS"])
